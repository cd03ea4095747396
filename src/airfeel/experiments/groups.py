"""Group the finished runs of a results folder and average them over seeds."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from airfeel.config.schemes import SCHEMES
from airfeel.experiments.results import finished_runs, read_config
from airfeel.experiments.rundir import read_records
from airfeel.simulation.records import Record


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One finished run: the settings that determine its result, by dotted key, and one record per round."""

    settings: Mapping[str, Any]
    records: Sequence[Record]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs that differ in nothing but the seed, and the words that tell them from the other groups."""

    label: str
    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over seeds at one round with its 95 % confidence interval (none with a single seed)."""

    x: float
    value: float
    low: float
    high: float
    seeds: int


def read_runs(folder: Path) -> tuple[list[Run], list[str]]:
    """Return the finished runs below ``folder/runs`` and a sentence about each folder left out."""
    complete = finished_runs(folder)
    if not complete:
        raise ValueError(f"{folder}: has no finished run under {folder / 'runs'}")
    left_out = sorted(
        path.name for path in (folder / "runs").iterdir() if path.is_dir() and path not in complete
    )
    runs = [Run(read_config(path).identity(), read_records(path)) for path in complete]
    return runs, [f"{name}: not finished or damaged, left out" for name in left_out]


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Put runs together that differ only in their seed; the label names what tells groups apart."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(json.dumps(_comparable(run.settings), sort_keys=True), []).append(run)
    members = list(groups.values())
    named = [Group(_label(m[0], [o[0] for o in members]), m) for m in members]
    order = list(SCHEMES)
    return sorted(named, key=lambda group: (order.index(group.runs[0].settings["scheme"]), group.label))


def average(group: Group, metric: str, x: str = "round") -> list[Mean]:
    """Return the mean of ``metric`` over the group's seeds, wherever every one of them has a value."""
    columns = zip(*(run.records for run in group.runs), strict=False)
    return [
        interval(getattr(at[0], x), [getattr(record, metric) for record in at])
        for at in columns
        if all(getattr(record, metric) is not None for record in at)
    ]


def interval(x: float, values: Sequence[float]) -> Mean:
    """Return the mean of ``values`` with Student's 95 % confidence interval.

    >>> mean = interval(1, [1.0, 2.0, 3.0])
    >>> round(mean.value, 3), round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    n, mean = len(values), math.fsum(values) / len(values)
    half = 0.0
    if n > 1:
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
        half = float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)
    return Mean(x, mean, mean - half, mean + half, n)


def _comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that two runs must share to be averaged."""
    return {key: value for key, value in settings.items() if key != "seed"}


def _label(run: Run, others: Sequence[Run]) -> str:
    """Return the scheme, and the values of those keys in which runs of the same scheme differ."""
    same = [other for other in others if other.settings["scheme"] == run.settings["scheme"]]
    keys = sorted({key for other in same for key in _comparable(other.settings)})
    differ = [key for key in keys if len({repr(other.settings.get(key)) for other in same}) > 1]
    return ", ".join([run.settings["scheme"], *(f"{key} = {run.settings.get(key)}" for key in differ)])
