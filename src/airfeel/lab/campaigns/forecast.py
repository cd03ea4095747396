"""What a campaign would take, without computing it: runs, time, memory."""

import logging
import os
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from airfeel._timing import Timer, duration
from airfeel.config import Config
from airfeel.lab.runs.reading import finished
from airfeel.lab.runs.work import Work
from airfeel.learning.datasets import is_here
from airfeel.simulation.assembly import assemble
from airfeel.simulation.loop import train

_log = logging.getLogger("airfeel")

TRIAL_ROUNDS = 3  # of which the first is not timed: it loads and prepares
PROCESS = 2e8  # bytes of an interpreter with its libraries
STARTING = 1.5  # seconds to load the data and to begin a run


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many runs there are, how many of them are finished, and what the others take."""

    runs: int
    done: int
    seconds: float | None
    """of processor time; None where some data set is not here yet, or all are finished"""
    memory: float | None
    """bytes of the largest run"""
    untimed: int
    """studies of the theory, which take seconds to minutes"""
    workers: int

    def __str__(self) -> str:
        words = [f"{self.runs} runs, {self.done} of them finished already"]
        if self.runs == self.done:
            return words[0]
        if self.seconds is None or self.memory is None:
            return f"{words[0]}; time and memory are known once the data are here (airfeel data)"
        workers = f"{self.workers} worker{'' if self.workers == 1 else 's'}"
        words.append(f"about {duration(self.seconds / self.workers)} with {workers}, by a trial of each kind")
        busy = min(self.workers, self.runs - self.done)
        words.append(f"about {busy * self.memory / 1e9:.2g} GB of memory in all")
        if self.untimed:
            words.append(
                f"{self.untimed} studies of the theory, seconds to minutes each, are not in this time"
            )
        return "; ".join(words)


def forecast(runs: Sequence[Work], out: Path, workers: int | None = None) -> Forecast:
    """Return what the runs that are not finished would take, by a few rounds of each kind of them.

    Runs are of one kind if they differ in nothing that changes much (seed, rates, power, partition), or only
    in what their effort tells: rounds, local steps, the ratio.
    """
    todo = [run for run in runs if finished(out / "runs" / run.label) is None]
    training = [run for run in todo if isinstance(run.config, Config)]
    count = workers or os.cpu_count() or 1
    seconds: float | None = None
    memory: float | None = None
    if all(is_here(dataset) or ":" in dataset for dataset in _datasets(training)):
        trials = _trials({_kind(run): run for run in reversed(training)})
        seconds = sum(run.effort * trials[_kind(run)][0] + STARTING for run in training)
        memory = PROCESS + max((bytes_ for _, bytes_ in trials.values()), default=0.0)
    return Forecast(len(runs), len(runs) - len(todo), seconds, memory, len(todo) - len(training), count)


def _trials(kinds: dict[Hashable, Work]) -> dict[Hashable, tuple[float, float]]:
    """Try out one run of each kind, and say how far that is."""
    trials: dict[Hashable, tuple[float, float]] = {}
    if kinds:
        _log.info(f"trying out {TRIAL_ROUNDS} rounds of {len(kinds)} kinds of runs")
    timer = Timer(len(kinds))
    for kind, run in kinds.items():
        trials[kind] = _trial(run)
        timer.tell(len(trials), _log.info, f"{len(trials)} of {len(kinds)} kinds tried out")
    return trials


def _datasets(runs: Sequence[Work]) -> Iterator[str]:
    yield from {run.config.dataset for run in runs if isinstance(run.config, Config)}


def _kind(run: Work) -> Hashable:
    config = run.config
    assert isinstance(config, Config)
    devices = config.devices
    sizes = (devices.count, str(devices.samples), config.options("training").get("batch_size"))
    return config.scheme, config.dataset, config.model.kind, config.run.evaluate_every, *sizes


def _trial(run: Work) -> tuple[float, float]:
    """Return the processor seconds of a unit of effort, and the bytes of the run beside its process."""
    config = run.config
    assert isinstance(config, Config)
    needs = assemble(config).needs
    rounds = iter(train(config.model_copy(update={"rounds": max(config.rounds, TRIAL_ROUNDS)})))
    with threadpool_limits(limits=1):
        next(rounds)
        began = time.process_time()
        for _ in range(TRIAL_ROUNDS - 1):
            next(rounds)
    seconds = (time.process_time() - began) / (TRIAL_ROUNDS - 1)
    return seconds * run.rounds / run.effort, 0.0 if needs is None else needs.memory
