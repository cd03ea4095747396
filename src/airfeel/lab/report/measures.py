"""Few numbers that say how a run went, defined for any number of rounds, so that runs can be compared.

Accuracies are in percent, so that their differences are points.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.lab.collect import Line
from airfeel.lab.store import FinishedRun, RunError
from airfeel.lab.studies.recorded import Observations, observations
from airfeel.lab.studies.recovery import steady

Array = NDArray[np.floating[Any]]
OfOne = Callable[[Line, int], float]
OfSeveral = Callable[[Sequence[Line], int], list[float]]

GRID = 400  # points at which curves over symbols are compared
_TINY = 1e-15  # a loss gap that is none


@dataclass(frozen=True, slots=True)
class Measure:
    """A number per line and seed: its name, how it is made, its unit, and how several lines are measured.

    Lines are measured together because a common budget depends on all of them; nan stands for no number.
    """

    name: str
    how: str
    unit: str
    take: OfSeveral


def final(line: Line, seed: int) -> float:
    """Return the mean accuracy of the last tenth of the rounds."""
    return 100 * late(line, seed, "accuracy")


def late(line: Line, seed: int, key: str) -> float:
    """Return the mean of a column over the last tenth of the rounds."""
    values = _column(line, seed, key)
    return _mean(values[len(values) - _share(values, 10) :])


def rate(line: Line, seed: int) -> float:
    """Return the mean accuracy of the first third of the rounds: how fast a curve rises.

    Unlike the number of rounds up to some accuracy, it exists where that accuracy is never reached.
    """
    values = _column(line, seed, "accuracy")
    return 100 * _mean(values[: _share(values, 3)])


def rate_per_symbol(lines: Sequence[Line], seed: int) -> list[float]:
    """Return the mean accuracies over the channel uses that all lines have: up to the smallest total.

    They begin where the last of the lines has its first accuracy.
    """
    curves = [(_column(line, seed, "symbols", "accuracy"), _column(line, seed, "accuracy")) for line in lines]
    if not all(symbols.size for symbols, _ in curves):
        return [math.nan] * len(lines)
    start, stop = max(symbols[0] for symbols, _ in curves), min(symbols[-1] for symbols, _ in curves)
    if stop < start:
        return [math.nan] * len(lines)
    grid = np.linspace(start, stop, GRID)
    return [100 * _mean(np.interp(grid, symbols, accuracy)) for symbols, accuracy in curves]


def nmse_db(line: Line, seed: int) -> float:
    """Return the NMSE in dB, its mean (not that of the dB) over the second half of the rounds."""
    return _late_db(_column(line, seed, "nmse_db"))


def cumulative_nmse_db(line: Line, seed: int) -> float:
    """Return the NMSE in dB of the sums over all rounds."""
    values = _column(line, seed, "cumulative_nmse_db")
    return float(values[-1]) if values.size else math.nan


def downlink(line: Line, seed: int) -> float:
    """Return how many numbers the server tells every device in a round beside the model, on average."""
    values = _column(line, seed, "downlink")
    return _mean(values) if values.size else math.nan


def unpredicted_db(line: Line, seed: int) -> float:
    """Return by how many dB the NMSE is above what state evolution predicts, both as in :func:`nmse_db`."""
    return nmse_db(line, seed) - _late_db(_column(line, seed, "predicted_nmse_db"))


def improvement_db(line: Line, seed: int) -> float:
    """Return how many dB the NMSE of the first round is above that of :func:`nmse_db`: what memory gains."""
    values = _column(line, seed, "nmse_db")
    return float(values[0]) - _late_db(values) if values.size else math.nan


def bound_over_gap(line: Line, seed: int) -> float:
    """Return the smallest ratio in any round of the bound (61) to the loss gap, in decades."""
    gap, bound = _column(line, seed, "gap"), _column(line, seed, "printed_bound")
    return float(np.min(np.log10(bound / np.maximum(gap, _TINY)))) if gap.size else math.nan


def log_seconds(line: Line, seed: int) -> float:
    """Return log10 of the median seconds of a receiver's iteration."""
    shares = [seconds / iterations for seconds, iterations in timings(line.runs[seed]) if seconds > 0]
    return math.log10(float(np.median(shares))) if shares else math.nan


def timings(run: FinishedRun) -> list[tuple[float, int]]:
    """Return seconds and a receiver's iterations of every round that has both."""
    rows = [row for row in run.rows if row.get("iterations") and row["round"] in run.seconds]
    return [(run.seconds[row["round"]], row["iterations"]) for row in rows]


def _observed(name: str) -> OfOne:
    """Return the measure that takes a number from the observations on a run's recorded aggregates."""

    def take(line: Line, seed: int) -> float:
        try:
            return float(getattr(observed(line.runs[seed]), name))
        except RunError:  # too few rounds, or no aggregates
            return math.nan

    return take


@lru_cache(maxsize=64)
def observed(run: FinishedRun) -> Observations:
    """Return the observations on a run's recorded aggregates, which take long to read."""
    return observations(run)


def _singly(take: OfOne) -> OfSeveral:
    return lambda lines, seed: [take(line, seed) for line in lines]


def _column(line: Line, seed: int, key: str, present: str = "") -> Array:
    """Return one column of the records, of the rounds that have a value (in ``present``, where given)."""
    return np.array(
        [row[key] for row in line.runs[seed].rows if row.get(present or key) is not None], dtype=float
    )


def _share(values: Array, parts: int) -> int:
    """Return how many values make up one of so many parts, at least one."""
    return math.ceil(len(values) / parts)


def _late_db(values: Array) -> float:
    """Return the mean of the second half, taken of the ratios and not of their dB."""
    return steady(values) if values.size else math.nan


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else math.nan


MEASURES: dict[str, Measure] = {
    "final": Measure("final accuracy", "mean of the last tenth of the rounds", "points", _singly(final)),
    "rate": Measure("rate", "mean accuracy of the first third of the rounds", "points", _singly(rate)),
    "rate_per_symbol": Measure(
        "rate per symbol", "mean accuracy over the channel uses that both have", "points", rate_per_symbol
    ),
    "nmse_db": Measure("NMSE", "mean of the second half of the rounds", "dB", _singly(nmse_db)),
    "unpredicted_db": Measure(
        "NMSE above state evolution", "mean of the second half of the rounds", "dB", _singly(unpredicted_db)
    ),
    "improvement_db": Measure(
        "improvement of the NMSE", "first round over second half", "dB", _singly(improvement_db)
    ),
    "bound_over_gap": Measure(
        "bound over loss gap", "smallest ratio of any round", "decades", _singly(bound_over_gap)
    ),
    "log_seconds": Measure(
        "time", "log10 of the median seconds of an iteration", "decades", _singly(log_seconds)
    ),
    "sparsity": Measure(
        "sparsity", "share of coefficients that are zero", "", _singly(_observed("sparsity"))
    ),
    "persistence": Measure(
        "persistence",
        "share of the support that is left one round later",
        "",
        _singly(_observed("persistence")),
    ),
    "correlation": Measure(
        "correlation", "of amplitudes one round apart", "", _singly(_observed("correlation"))
    ),
}
