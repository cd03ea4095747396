"""Carry out one run in its folder: from the start, or from wherever an earlier process left it."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import airfeel
from airfeel.config import Config
from airfeel.lab.rundir import Apart, Described, Generations, RunFolder, open_run, run_path
from airfeel.lab.store import (
    FinishedRun,
    RunError,
    changed_since,
    ending_facts,
    examine,
    read_records,
)
from airfeel.simulation.assembly import Own, Parts, assemble
from airfeel.simulation.loop import RunState, start, steps
from airfeel.simulation.records import Progress, Record
from airfeel.theory.planner import is_dense
from airfeel.units import decibel, from_decibel

_MATRIX_EFFORT = 50  # of a dense matrix with s = N, drawn and multiplied by in a round, over a gradient's


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run: its folder, the last round there is, and the summary if it is complete.

    ``notes`` are sentences about a finished run that was not computed again.
    """

    folder: Path
    round: int
    summary: dict[str, Any] | None
    computed: bool
    notes: tuple[str, ...] = ()


def execute(
    config: Config,
    out: Path,
    *,
    own: Own = Own(),  # noqa: B008  (frozen)
    force: bool = False,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run ``config`` in ``out/runs/<name>-<hash>`` unless that is finished, or all the same with ``force``.

    ``own`` objects stand for what ``config`` names, see :func:`airfeel.lab.api.named`;
    ``progress`` is told about every round; ``stop`` is asked after every round, and its True leaves a
    checkpoint and returns.
    """
    path = run_path(config, out)
    found = None if force else examine(path)
    if isinstance(found, FinishedRun):
        return _before(config, found)
    parts = assemble(config, own)  # before the folder is made: a mistake found here leaves nothing behind
    with open_run(config, out, force) as folder:
        found = None if force else examine(path)
        if isinstance(found, FinishedRun):  # by another process, meanwhile
            return _before(config, found)
        folder.reopen(forget=force, damage=found)
        try:
            round = _compute(folder, parts, progress or Progress(), stop)
        except MemoryError as error:
            reason = str(error).splitlines()[0] if error.args else "nothing is left"
            raise RunError(
                f"{path}: not enough memory ({reason}); what was saved before is kept, "
                "and the same command continues from there where there is more"
            ) from error
        if round < config.rounds:
            return Outcome(path, round, None, computed=True)
        summary = summarise(config, read_records(path))
        folder.finish(summary)
        return Outcome(path, round, summary, computed=True)


def _before(config: Config, run: FinishedRun) -> Outcome:
    """Return what became of a run that was finished before."""
    notes, changed = changed_since(run.folder / "config.toml", config.to_toml())
    notes += [f"the content of {file} has changed since this run was computed" for file in changed]
    return Outcome(run.folder, config.rounds, run.summary, computed=False, notes=tuple(notes))


def _compute(folder: RunFolder, parts: Parts, progress: Progress, stop: Callable[[], bool]) -> int:
    """Go on from the newest checkpoint until the run is complete or stopped; return the last round."""
    options, rounds = parts.config.run, parts.config.rounds
    with closing(Generations(folder.path)) as memories:
        parts = parts if parts.allocate is None else replace(parts, allocate=memories)
        state = start(parts)
        revived = partial(_revived, state, memories, rounds)
        restored = folder.restore(_modules(parts), revived, options.record_aggregates)
        state = state if restored is None else restored
        done = state.round
        memories.tidy(done if done < rounds else 0)
        # Closed here, and not where Python drops it: an interrupt that comes then could only be printed.
        with progress, closing(steps(parts, state, progress.within)) as computed:
            progress.begin(rounds, done, [*folder.notes, *_remarks(parts)])
            began = time.perf_counter()
            for step in computed:
                done = step.record.round
                folder.append(step.record.to_json(), done, round(time.perf_counter() - began, 6))
                if options.record_aggregates:
                    folder.keep_aggregate(done, step.aggregate.truth)
                progress.update(step.record)
                stopping, last = stop(), done == rounds
                if stopping or done % options.checkpoint_every == 0 or last:
                    folder.save(done, memories.apart(step.state, last))
                    memories.tidy(0 if last else done)
                if stopping:
                    break
                began = time.perf_counter()
    return int(done)


def _revived(fresh: RunState, memories: Generations, rounds: int, saved: Any) -> RunState | None:
    """Return the saved state of the run that began as ``fresh``; None where it has other shapes."""

    def shapes(state: RunState) -> list[Any]:
        parts = [] if last else sorted(state.uplink.memory.items())
        server = map(np.shape, (state.theta, state.true_sum, state.found_sum))
        return [[(name, part.shape) for name, part in parts], *server]

    state = memories.together(saved) if isinstance(saved, Apart) else saved
    last = state.round == rounds  # when nobody needs memories any more
    return state if shapes(state) == shapes(fresh) else None


def _remarks(parts: Parts) -> list[str]:
    """Return what is worth knowing of data, memory and link, and what is done otherwise than configured."""
    ratio, size = parts.config.uplink.ratio, parts.task.size
    needs = "" if parts.needs is None else f"the run takes {parts.needs}"
    remarks = [*parts.about, *filter(None, ["; ".join(filter(None, [needs, parts.budget]))])]
    if parts.scheme.uses_radio and ratio * size < 0.5:
        rule = "is less than one channel use: every round takes one"
        remarks.append(f"uplink.ratio = {ratio:g} of N = {size} {rule}")
    return remarks


def _modules(parts: Parts) -> list[str]:
    """Return the packages that the parts come from: whose code is run may also keep its state."""
    kinds = {type(getattr(parts, field.name)).__module__ for field in fields(parts)}
    return sorted({kind.partition(".")[0] for kind in kinds} - {"builtins"})


def summarise(config: Config, records: list[Record]) -> dict[str, Any]:
    """Return the outcome of a run in a few numbers; None for what the scheme does not have."""
    last = records[-1]
    errors = [from_decibel(record.nmse_db) for record in records if record.nmse_db is not None]
    accuracies = [record.accuracy for record in records if record.accuracy is not None]
    return {
        "airfeel": airfeel.__version__,
        "scheme": config.scheme,
        "seed": config.seed,
        "rounds": last.round,
        "accuracy": last.accuracy,
        "best_accuracy": max(accuracies, default=None),
        "loss": last.loss,
        "mean_nmse_db": decibel(float(np.mean(errors))) if errors else None,
        "rounds_above_zero_db": sum(bool(record.above_zero_db) for record in records),
        "cumulative_nmse_db": last.cumulative_nmse_db,
        **ending_facts(record.status for record in records),
        "symbols": last.symbols,
        "energy": last.energy,
    }


@dataclass(frozen=True, slots=True)
class Work:
    """A run with a folder of its own, computed at most once, here or in another process.

    ``compute`` is called with ``config``, the results folder, whether to repeat a finished run, and a
    function that says whether to stop early; it returns whether the run is complete. It is a function of a
    module, so that it can be sent to workers. ``effort`` is roughly how long the run takes, in units of a
    training round with one local step; ``curve`` and ``variant`` are its place in an experiment.
    """

    config: Described
    compute: Callable[[Any, Path, bool, Callable[[], bool]], bool]
    effort: float
    curve: str = ""
    variant: str = ""

    @property
    def label(self) -> str:
        """The name of its folder."""
        return self.config.label()

    def do(self, out: Path, force: bool = False, stop: Callable[[], bool] = lambda: False) -> bool:
        """Compute it in ``out/runs`` unless it is finished; return whether it is complete."""
        return self.compute(self.config, out, force, stop)


def training_effort(config: Config) -> float:
    """Return roughly how long a training takes, in rounds with one local step."""
    matrix = _MATRIX_EFFORT * config.uplink.ratio if is_dense(config.scheme) else 0.0
    options = config.options("training")
    steps = options.get("local_epochs") or options.get("local_steps", 1)
    return float(config.rounds * (steps + matrix))


_AGAIN = "interrupted; the same command goes on from what is saved"


@contextmanager
def stop_asked(*, at_once: bool = False) -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C (or SIGTERM) a request that the given function tells of; a second one interrupts.

    With ``at_once`` the first one interrupts too until somebody has asked for the first time: what comes
    before, such as a download, can take long and has nothing to save.
    """
    asked: list[int] = []
    waiting = not at_once

    def hear(number: int, frame: object) -> None:
        if asked or not waiting:
            raise KeyboardInterrupt(_AGAIN)
        asked.append(number)

    def answer() -> bool:
        nonlocal waiting
        waiting = True
        return bool(asked)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield answer
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C wait for a moment; processes started meanwhile never hear of it.

    A process starts with the signals blocked that its parent blocks. One that is importing modules would
    otherwise answer Ctrl-C, which a terminal sends to everybody, with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
