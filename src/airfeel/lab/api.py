"""A run from Python, with a folder: resumable, in the table and in the report like any other."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from airfeel.config import ConfigLike
from airfeel.lab.plan import ResultsFolder
from airfeel.lab.progress import choose
from airfeel.lab.results import write_results
from airfeel.lab.runner import execute
from airfeel.lab.store import read_records
from airfeel.learning.models import ModelLike
from airfeel.radio.link import Channel
from airfeel.simulation.assembly import DataLike, find_data, given, named
from airfeel.simulation.records import Record
from airfeel.uplink.scheme import Scheme

_log = logging.getLogger("airfeel")


@dataclass(frozen=True)
class CompletedRun:
    """A finished run: its folder, what ``summary.json`` says, and its records."""

    folder: Path
    summary: dict[str, Any]

    @cached_property
    def records(self) -> list[Record]:
        """One record per round."""
        return read_records(self.folder)


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
) -> CompletedRun:
    """Train one model over the air in a run folder; a finished run is read, an interrupted one goes on.

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
    assert outcome.summary is not None  # nobody asked it to stop
    for note in outcome.notes:
        _log.warning(note)
    write_results(ResultsFolder(Path(out)))
    return CompletedRun(outcome.folder, outcome.summary)
