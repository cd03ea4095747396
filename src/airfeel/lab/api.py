"""Runs with folders: one from Python, or many at once; resumable, in the table and in the report."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airfeel.config import Config, ConfigLike
from airfeel.lab.campaign import FailedRuns, carry_out, without_repeats
from airfeel.lab.engines import check_engine
from airfeel.lab.plan import Begun, Experiment, ResultsFolder, remember_experiment
from airfeel.lab.progress import choose, choose_overview
from airfeel.lab.results import write_results, write_runs
from airfeel.lab.runner import Work, execute
from airfeel.lab.store import SUMMARY, FinishedRun
from airfeel.learning.datasets import check_dataset, fetch_dataset
from airfeel.learning.models import ModelLike
from airfeel.radio.link import Channel
from airfeel.simulation.assembly import DataLike, find_data, given, named
from airfeel.uplink.scheme import Scheme

_log = logging.getLogger("airfeel")


def run(
    config: ConfigLike | None = None,
    *,
    scheme: str | Scheme[Any] | None = None,
    task: str | ModelLike | None = None,
    dataset: DataLike | None = None,
    channel: str | Mapping[str, Any] | Channel | None = None,
    out: str | Path = "results",
    force: bool = False,
    progress: bool = False,
    **keys: Any,
) -> FinishedRun:
    """Train one model over the air in a run folder; a finished run is read, an interrupted one goes on.

    What is returned tells the folder, the summary, the records and the settings.

    ::

        run = af.run({"uplink.ratio": 0.04}, scheme="scheduled", rounds=20, progress=True)
        print(run.folder, run.summary["accuracy"])

    Parameters
    ----------
    config, scheme, task, dataset, channel, keys
        As for :func:`airfeel.train`. Parts of your own must be dataclasses at the top of a module, a task may
        also be a function or class there: the run is named by their qualified names and options.
    out
        Results folder, as ``--out`` of ``airfeel run``.
    force
        Compute a finished run again.
    progress
        Show on stderr how far it is: a live line on a terminal, plain lines elsewhere.
    """
    config, own = given(config, scheme, task, dataset, channel, keys)
    if isinstance(own.dataset, list | tuple):  # read once: it may be long, or augmented at random
        own = replace(own, dataset=find_data(config, own.dataset))
    config = named(config, own)
    outcome = execute(config, Path(out), own=own, force=force, progress=choose(progress))
    for note in outcome.notes:
        _log.warning(note)
    results = ResultsFolder(Path(out))
    write_results(results)
    found = results.run(outcome.folder.name)
    assert found is not None  # nobody asked it to stop
    return found


def compute(
    experiments: Sequence[Experiment],
    out: Path,
    engine: str | None = None,
    workers: int | None = None,
    force: bool = False,
    told: Callable[[ResultsFolder, Sequence[Begun]], None] = lambda results, begun: None,
) -> tuple[ResultsFolder, Sequence[Begun]]:
    """Carry out the experiments and write the table over all runs; ``told`` hears what there is."""
    members, runs = planned(experiments, out)
    check_engine(engine)
    if engine is None:
        for dataset in _datasets(runs, out):
            fetch_dataset(dataset)
    begun = [
        remember_experiment(experiment, out, own)
        for experiment, own in zip(experiments, members, strict=True)
    ]
    _log.info(f"{', '.join(experiment.name for experiment in experiments)}: {len(runs)} runs in {out}")
    done = carry_out(runs, out, engine=engine, workers=workers, force=force, overview=choose_overview())
    results = ResultsFolder(out)
    write_results(results)
    write_runs(results)
    if done.stopped:
        raise KeyboardInterrupt("stopped; what was computed is kept, and the same command goes on from there")
    told(results, begun)
    if done.failures:
        lines = [f"{label}: {error}" for label, error in done.failures.items()]
        raise FailedRuns("\n".join([f"{len(lines)} of {len(runs)} runs failed", *lines]))
    _log.info(f"{done.computed} runs computed, {done.skipped} were finished before")
    return results, begun


def planned(experiments: Sequence[Experiment], out: Path) -> tuple[list[list[Work]], list[Work]]:
    """Return the runs of every experiment, and all of them, each once.

    Every mistake in a configuration is found here, and data that do not exist, before anything is computed.
    """
    found = [experiment.runs() for experiment in experiments]
    runs = without_repeats(work for members in found for work in members)
    for dataset in _datasets(runs, out):
        check_dataset(dataset)
    return found, runs


def _datasets(runs: Sequence[Work], out: Path) -> list[str]:
    """Return the data sets of all runs that are not finished, each once."""
    waiting = [run.config for run in runs if not (out / "runs" / run.label / SUMMARY).exists()]
    return list(dict.fromkeys(config.dataset for config in waiting if isinstance(config, Config)))
