"""Carry out many runs: each at most once, wherever there is room, whatever happens to the others.

And what that would take, without computing it: runs, time, memory.
"""

import json
import os
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from airfeel import _files
from airfeel._timing import Timer, duration
from airfeel.config import Config
from airfeel.lab import store
from airfeel.lab.engines import Engine, open_engine
from airfeel.lab.progress import Overview
from airfeel.lab.runner import Work, held_back, stop_asked, training_effort
from airfeel.lab.store import Damage, FinishedRun, examine, finished, log
from airfeel.learning.datasets import is_here
from airfeel.simulation.assembly import assemble
from airfeel.simulation.loop import train

_PATIENCE = 3  # times that processes may die without one run being finished in between
_TRIAL_ROUNDS = 3  # of which the first is not timed: it loads and prepares
_PROCESS = 2e8  # bytes of an interpreter with its libraries
_STARTING = 1.5  # seconds to load the data and to begin a run
_GLANCE = 0.25  # seconds between looks at how far the runs are, and whether somebody pressed Ctrl-C


class FailedRuns(Exception):
    """Some runs failed; the message says which and why."""

    exit_code = 1


def carry_out(
    runs: Sequence[Work],
    out: Path,
    *,
    engine: str | None = None,
    workers: int | None = None,
    force: bool = False,
    overview: Overview,
) -> "Campaign":
    """Compute all runs that are not finished yet, and with ``force`` the finished ones too.

    No run may be there twice. ``engine`` is the address of a Dask scheduler, whose workers must see the
    folder ``out`` too; without one there are ``workers`` processes on this machine, or one for each core.
    """
    with store.explained(out):
        _files.below(out, "runs")  # refused once, and not by every run
    found = {run.label: None if force else examine(out / "runs" / run.label) for run in runs}
    todo = [run for run in runs if not isinstance(found[run.label], FinishedRun)]
    # The long ones first: a long run that starts last would keep one worker busy and the others idle.
    todo.sort(key=lambda run: -run.effort)
    campaign = Campaign(out, force, overview, {run.label: run for run in todo}, len(runs) - len(todo))
    began = time.perf_counter()
    with overview, stop_asked() as asked:
        overview.begin(todo, campaign.skipped, out)
        for label, damage in found.items():
            if isinstance(damage, Damage):
                overview.note(f"{label}: {damage}: the run is computed again")
        while campaign.waiting and not campaign.stopped and campaign.patience > 0:
            with open_engine(engine, workers) as opened:
                campaign.use(opened, asked)
    if campaign.computed:
        _remember(out, time.perf_counter() - began, opened, campaign.computed)
    for label in campaign.waiting if not campaign.stopped else ():
        campaign.failures[label] = "its process was ended from outside, again and again (memory?)"
    return campaign


class Campaign:
    """The state of :func:`carry_out` while engines come and go, and what became of the runs.

    ``computed`` were computed now and ``skipped`` were there; ``failures`` are errors by label.
    """

    def __init__(
        self, out: Path, force: bool, overview: Overview, waiting: dict[str, Work], skipped: int
    ) -> None:
        self.out, self.force, self.overview = out.absolute(), force, overview
        self.waiting, self.skipped = waiting, skipped
        self.failures: dict[str, str] = {}
        self.computed, self.patience, self.stopped = 0, _PATIENCE, False

    def use(self, engine: Engine, asked: Callable[[], bool]) -> None:
        """Give all waiting runs to an engine until they are done, it breaks, or a stop is asked for."""
        futures: dict[Future[bool], str] = {}
        try:
            with held_back():  # from the processes that the engine starts for them
                for label, run in self.waiting.items():
                    future = engine.executor.submit(do, run, str(self.out), self.force, engine.stopping)
                    futures[future] = label
            while futures:
                if asked():
                    self.stopped = True
                    self.overview.note("stopping after the rounds under way")
                    engine.stop(futures)
                    return
                done, _ = wait(futures, timeout=_GLANCE, return_when=FIRST_COMPLETED)
                for future in done:
                    self._settle(futures.pop(future), future, engine.lost)
                self.overview.update()
        except BrokenProcessPool:
            self.patience -= 1
            self.stopped = asked()  # where a signal was for all processes, workers may die of it
            if not self.stopped:
                self.overview.note("a worker process was ended from outside; its run goes on in a new one")

    def _settle(self, label: str, future: "Future[bool]", lost: str) -> None:
        """Take note of how a run ended."""
        try:
            complete = future.result()
        except BrokenProcessPool:
            raise
        except Exception as error:  # whatever it is, the other runs go on
            words = f"{type(error).__name__}: {error}"
            self.failures[label] = lost if lost and isinstance(error, CancelledError) else words
        else:
            if complete and finished(self.out / "runs" / label) is None:
                where = self.out / "runs" / label
                self.failures[label] = f"was computed, but is not in {where}: workers must share this folder"
            self.computed += 1
            self.patience = _PATIENCE
        del self.waiting[label]
        self.overview.settled(label, self.failures.get(label))


def do(run: Work, out: str, force: bool, stopping: Callable[[], bool]) -> bool:
    """Compute one run in a worker; return whether it is complete."""
    if stopping():
        return False
    threadpool_limits(limits=1)  # for good: several runs may share this process
    return run.do(Path(out), force, stopping)


def _remember(out: Path, seconds: float, engine: Engine, computed: int) -> None:
    """Add to ``campaign.json`` what this session took."""
    path = out / "campaign.json"
    try:
        before: dict[str, Any] = _files.parse_json(_files.read_text(path))
        seconds += float(before["seconds"])
        computed += int(before["runs"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        pass
    facts = {"seconds": round(seconds, 1), "runs": computed, "workers": engine.workers, "engine": engine.kind}
    with store.explained(out):
        _files.write_atomically(path, (json.dumps(facts, indent=2) + "\n").encode())


def forecast(runs: Sequence[Work], out: Path, workers: int | None = None) -> str:
    """Say what the runs that are not finished would take, by a few rounds of each kind of them.

    Runs are of one kind if they differ in nothing that changes much (seed, rates, power, partition), or only
    in what their effort tells: rounds, local steps, the ratio.
    """
    todo = [run for run in runs if finished(out / "runs" / run.label) is None]
    words = [f"{len(runs)} runs, {len(runs) - len(todo)} of them finished already"]
    training = [(run, run.config) for run in todo if isinstance(run.config, Config)]
    if not todo:
        return words[0]
    if not all(is_here(dataset) or ":" in dataset for dataset in {config.dataset for _, config in training}):
        return f"{words[0]}; time and memory are known once the data are here (airfeel data)"
    kinds = {_kind(config): config for _, config in reversed(training)}
    log.info(f"trying out {_TRIAL_ROUNDS} rounds of {len(kinds)} kinds of runs")
    trials: dict[Hashable, tuple[float, float]] = {}
    timer = Timer(len(kinds))
    for kind, config in kinds.items():
        trials[kind] = _trial(config)
        timer.tell(len(trials), log.info, f"{len(trials)} of {len(kinds)} kinds tried out")
    seconds = sum(run.effort * trials[_kind(config)][0] + _STARTING for run, config in training)
    memory = _PROCESS + max((bytes_ for _, bytes_ in trials.values()), default=0.0)
    count = workers or os.cpu_count() or 1
    many = f"{count} worker{'' if count == 1 else 's'}"
    words.append(f"about {duration(seconds / count)} with {many}, by a trial of each kind")
    words.append(f"about {min(count, len(todo)) * memory / 1e9:.2g} GB of memory in all")
    if untimed := len(todo) - len(training):
        words.append(f"{untimed} studies of the theory, seconds to minutes each, are not in this time")
    return "; ".join(words)


def _kind(config: Config) -> Hashable:
    devices = config.devices
    sizes = (devices.count, str(devices.samples), config.options("training").get("batch_size"))
    return config.scheme, config.dataset, config.model.kind, config.run.evaluate_every, *sizes


def _trial(config: Config) -> tuple[float, float]:
    """Return the processor seconds of a unit of effort, and the bytes of the run beside its process."""
    needs = assemble(config).needs
    rounds = iter(train(config.model_copy(update={"rounds": max(config.rounds, _TRIAL_ROUNDS)})))
    with threadpool_limits(limits=1):
        next(rounds)
        began = time.process_time()
        for _ in range(_TRIAL_ROUNDS - 1):
            next(rounds)
    seconds = (time.process_time() - began) / (_TRIAL_ROUNDS - 1)
    return seconds * config.rounds / training_effort(config), 0.0 if needs is None else needs.memory
