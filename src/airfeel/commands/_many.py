"""Many runs, each computed at most once: what ``reproduce``, ``sweep`` and ``demo`` do."""

import logging
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from airfeel._checks import visible
from airfeel.commands import Computing, show
from airfeel.config import Config
from airfeel.lab.campaign import FailedRuns, carry_out, forecast, without_repeats
from airfeel.lab.engines import check_engine
from airfeel.lab.exhibits.finals import reception_table
from airfeel.lab.plan import Begun, Experiment, ResultsFolder, remember_experiment
from airfeel.lab.progress import choose_overview
from airfeel.lab.results import write_results, write_runs
from airfeel.lab.runner import Work
from airfeel.lab.store import SUMMARY
from airfeel.lab.table import Results
from airfeel.lab.words import text_table
from airfeel.learning.datasets import check_dataset, fetch_dataset

_log = logging.getLogger("airfeel")


def carry_out_all(experiments: Sequence[Experiment], how: Computing) -> None:
    """Carry out the experiments and say what came of them; or only what they would take."""
    if how.dry_run:
        check_engine(how.engine)
        show(forecast(_planned(experiments, how.out)[1], how.out, how.workers))
        return
    compute(experiments, how.out, how.engine, how.workers, how.force, told=_tell)
    _log.info(f"as a page: {shlex.join(['airfeel', 'report', str(how.out)])}")
    show(how.out / "results.csv")


def compute(
    experiments: Sequence[Experiment],
    out: Path,
    engine: str | None = None,
    workers: int | None = None,
    force: bool = False,
    told: Callable[[ResultsFolder, Sequence[Begun]], None] = lambda results, begun: None,
) -> tuple[ResultsFolder, Sequence[Begun]]:
    """Carry out the experiments and write the table over all runs; ``told`` hears what there is."""
    planned, runs = _planned(experiments, out)
    check_engine(engine)
    if engine is None:
        for dataset in _datasets(runs, out):
            fetch_dataset(dataset)
    begun = [
        remember_experiment(experiment, out, members)
        for experiment, members in zip(experiments, planned, strict=True)
    ]
    _log.info(f"{', '.join(experiment.name for experiment in experiments)}: {len(runs)} runs in {out}")
    tally = carry_out(runs, out, engine=engine, workers=workers, force=force, overview=choose_overview())
    results = ResultsFolder(out)
    write_results(results)
    write_runs(results)
    if tally.stopped:
        raise KeyboardInterrupt("stopped; what was computed is kept, and the same command goes on from there")
    told(results, begun)
    if tally.failures:
        lines = [f"{label}: {error}" for label, error in tally.failures.items()]
        raise FailedRuns("\n".join([f"{len(lines)} of {len(runs)} runs failed", *lines]))
    _log.info(f"{tally.computed} runs computed, {tally.skipped} were finished before")
    return results, begun


def _planned(experiments: Sequence[Experiment], out: Path) -> tuple[list[list[Work]], list[Work]]:
    """Return the runs of every experiment, and all of them, each once.

    Every mistake in a configuration is found here, and data that do not exist, before anything is computed.
    """
    planned = [experiment.runs() for experiment in experiments]
    runs = without_repeats(run for members in planned for run in members)
    for dataset in _datasets(runs, out):
        check_dataset(dataset)
    return planned, runs


def _datasets(runs: Sequence[Work], out: Path) -> list[str]:
    """Return the data sets of all runs that are not finished, each once."""
    waiting = [run.config for run in runs if not (out / "runs" / run.label / SUMMARY).exists()]
    return list(dict.fromkeys(config.dataset for config in waiting if isinstance(config, Config)))


def _tell(results: ResultsFolder, begun: Sequence[Begun]) -> None:
    """Say what came out, one line per curve and variant."""
    if not _log.isEnabledFor(logging.INFO):  # nobody listens, and all runs would be read for it
        return
    table = Results(results)
    try:
        for one in begun:
            if rows := reception_table(table.of(one), accuracy=True):
                _log.info(f"\n{visible(one.experiment.title)}\n{text_table(rows)}\n")
    except ImportError as error:
        _log.info(f"what came out is in results.csv; {error}")
