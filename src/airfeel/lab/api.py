"""Runs with folders: one from Python, or many at once; resumable, in the table and in the report."""

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfeel import _checks
from airfeel.config import Config, ConfigLike, build_config, mistakes
from airfeel.lab.campaign import FailedRuns, carry_out
from airfeel.lab.engines import check_engine
from airfeel.lab.plan import (
    COURSES,
    Begun,
    Experiment,
    FigureSpec,
    Metric,
    ResultsFolder,
    remember_experiment,
)
from airfeel.lab.progress import choose, choose_overview
from airfeel.lab.results import write_results, write_runs
from airfeel.lab.runner import Work, execute
from airfeel.lab.store import SUMMARY, FinishedRun, log
from airfeel.learning.datasets import check_dataset, fetch_dataset
from airfeel.learning.models import ModelLike
from airfeel.radio.link import Channel
from airfeel.registry import SEAMS, Part, has_fields
from airfeel.simulation.assembly import DataLike, Own, check_server, find_data, given
from airfeel.uplink.scheme import Scheme

if TYPE_CHECKING:
    from airfeel.lab.curves import CurveDrawing


class DrawableRun(FinishedRun):
    """A finished run that can be drawn."""

    def plot(self, *others: FinishedRun, metric: Metric = "accuracy", x: str = "round") -> "CurveDrawing":
        """Return the curve of this run, and of others: a picture in a notebook; ``save(path)`` writes files.

        Runs that differ in nothing but their seed are one curve with a band. Needs the extra ``report``.

        Parameters
        ----------
        others
            What else to draw.
        metric
            ``"accuracy"``, ``"loss"``, ``"nmse_db"`` or ``"cumulative_nmse_db"``.
        x
            ``"round"``, ``"symbols"``, ``"air_seconds"`` or ``"joules"``.
        """
        from airfeel.lab.curves import CurveDrawing
        from airfeel.lab.exhibits.curves import LOOSE, curves
        from airfeel.lab.table import Results

        titles = {key: title for _, title, key in LOOSE}
        _checks.choice("metric", metric, list(titles))
        _checks.choice("x", x, list(COURSES))
        runs = {run.folder.name: run for run in (self, *others)}
        shown = Results(ResultsFolder(self.folder.parent.parent), runs).loose(runs)
        for drawing in curves(shown, FigureSpec(name=metric, title=titles[metric], metric=metric, x=x)):
            if isinstance(drawing, CurveDrawing) and any(curve.along(x) for curve in drawing.curves):
                return drawing
        raise ValueError(f"metric = {metric!r}: must be one that these runs have recorded along {x!r}")


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
) -> DrawableRun:
    """Train one model over the air in a run folder; a finished run is read, an interrupted one goes on.

    What is returned tells the folder, the summary, the records and the settings, and draws itself.

    ::

        run = af.run({"uplink.ratio": 0.04}, scheme="scheduled", rounds=20, progress=True)
        print(run.folder, run.summary["accuracy"])
        run.plot()

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
        log.warning(note)
    results = ResultsFolder(Path(out))
    write_results(results)
    found = results.run(outcome.folder.name)
    assert found is not None  # nobody asked it to stop
    return DrawableRun(found.folder, found.summary, found.rows, found.settings, found.timings)


def named(config: Config, own: Own) -> Config:
    """Return the configuration in which ``own`` stands by name: qualified names with their options.

    A part is refused that is not at the top of a module, or whose options are neither numbers nor texts;
    :func:`airfeel.train` takes any.
    """
    flat = mistakes.flatten(config.model_dump(exclude_none=True))
    for seam, part in (("scheme", own.scheme), ("channel", own.channel), ("model", own.task)):
        if part is not None:
            read = [key for key, (owner, _) in config.chosen.keys.items() if owner == seam]
            flat = {key: value for key, value in flat.items() if key not in read} | _described(seam, part)
    if own.task is not None:
        flat["model.preset"] = False  # an object takes the model's place, not that of other keys
    if own.dataset is not None:
        flat["dataset"] = _data_name(config, own.dataset)
    return build_config(mistakes.nest(flat), source="own parts")


def _described(seam: str, part: Any) -> dict[str, Any]:
    """Return the keys that name one part and its options."""
    registry = SEAMS[seam]
    kind: Any = part if inspect.isroutine(part) or isinstance(part, type) else type(part)
    given: dict[str, Any] = {}
    if isinstance(part, partial) and not part.args:
        kind, given = part.func, part.keywords
    found = Part(registry.name_of(kind), kind)
    try:  # the name of a method, or of something local, does not lead back to it
        leads_back = bool(registry.get(found.name).target == kind)
    except ValueError:
        leads_back = False
    if not leads_back:
        rule = "must be of a class at the top of a module for a run folder, or a function there"
        raise _checks.reject(registry.key, part, rule)
    bare = kind is type(part) and not has_fields(kind)
    if bare and (isinstance(part, str | partial) or found.options):
        rule = "must be a dataclass, whose fields a run folder can name, or the function that makes it"
        raise _checks.reject(registry.key, part, f"{rule}, with arguments by name; af.train takes any object")
    keys: dict[str, Any] = {registry.key: found.name}
    for key, option in registry.keys(found).items():
        made = kind is type(part)
        value = getattr(part, option.field) if made else given.get(option.field, option.default)
        if not _plain(value):
            rule = "must be a number, a text, true or false, or a list of these, to be kept in a run folder"
            raise _checks.reject(f"{kind.__qualname__}.{option.name}", value, rule)
        if value is not None:
            keys[key] = value
    return keys


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(entry) for entry in value)
    return value is None or isinstance(value, str | bool | int | float)


def _data_name(config: Config, data: DataLike) -> str:
    """Return a name for data, with a digest of the arrays."""
    found = find_data(config, data)
    digest = hashlib.sha256()
    for array in (found.train_inputs, found.train_labels, found.test_inputs, found.test_labels):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return f"{found.name}@{digest.hexdigest()[:16]}"


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
    log.info(f"{', '.join(experiment.name for experiment in experiments)}: {len(runs)} runs in {out}")
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
    log.info(f"{done.computed} runs computed, {done.skipped} were finished before")
    return results, begun


def planned(experiments: Sequence[Experiment], out: Path) -> tuple[list[list[Work]], list[Work]]:
    """Return the runs of every experiment, and all of them, each once.

    Every mistake in a configuration is found here, and data that do not exist, before anything is computed.
    """
    found = [experiment.runs() for experiment in experiments]
    runs = list({work.label: work for members in found for work in members}.values())
    for config in (run.config for run in runs if isinstance(run.config, Config)):
        check_server(config, config.part("scheme"), config.part("optimizer"))
    for dataset in _datasets(runs, out):
        check_dataset(dataset)
    return found, runs


def _datasets(runs: Sequence[Work], out: Path) -> list[str]:
    """Return the data sets of all runs that are not finished, each once."""
    waiting = [run.config for run in runs if not (out / "runs" / run.label / SUMMARY).exists()]
    return list(dict.fromkeys(config.dataset for config in waiting if isinstance(config, Config)))
