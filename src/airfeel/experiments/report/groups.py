"""Group the finished runs of a results folder and average them over seeds."""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from airfeel.config.schemes import SCHEMES
from airfeel.experiments.campaigns.results import read_config
from airfeel.experiments.runs.rundir import finished, read_rows

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One finished run: the settings that determine its result, by dotted key, and one row per round."""

    settings: Mapping[str, Any]
    rows: Rows


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


def read_runs(folder: Path, elsewhere: Collection[str] = ()) -> tuple[list[Run], list[str]]:
    """Return the finished runs below ``folder/runs`` and a sentence about each folder left out.

    Folders whose names are in ``elsewhere`` are passed over without a word.
    """
    summaries = {path: finished(path) for path in sorted((folder / "runs").glob("*")) if path.is_dir()}
    if not any(summaries.values()):
        raise ValueError(f"{folder}: has no finished run under {folder / 'runs'}")
    runs, left_out = [], []
    for path, summary in summaries.items():
        if path.name in elsewhere:
            continue
        if summary is None:
            left_out.append(f"{path.name}: not finished or damaged, left out")
        elif "kind" in summary:
            left_out.append(f"{path.name}: a study ({summary['kind']}) of no known experiment, left out")
        else:
            try:
                runs.append(Run(read_config(path).identity(), read_rows(path)))
            except (OSError, ValueError):
                left_out.append(f"{path.name}: its configuration cannot be read by this version, left out")
    return runs, left_out


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Put runs together that differ only in their seed; the label names what tells groups apart."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(json.dumps(_comparable(run.settings), sort_keys=True), []).append(run)
    members = list(groups.values())
    named = [Group(_label(m[0], [o[0] for o in members]), m) for m in members]
    order = list(SCHEMES)
    return sorted(named, key=lambda group: (order.index(group.runs[0].settings["scheme"]), group.label))


def average(runs: Iterable[Rows], metric: str, x: str = "round") -> list[Mean]:
    """Return the mean of ``metric`` over the runs, wherever every one of them has a value."""
    columns = zip(*runs, strict=False)
    return [
        interval(at[0][x], [row[metric] for row in at])
        for at in columns
        if all(row.get(metric) is not None for row in at)
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
