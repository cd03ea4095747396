"""Means over seeds with Student's 95 % confidence interval."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import stdtrit

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over seeds at one place with its 95 % confidence interval (none with a single seed)."""

    x: float
    value: float
    low: float
    high: float
    seeds: int

    def words(self, form: str) -> str:
        """Return the mean and half the width of its interval, which a single value does not have.

        Of two values both are told: the interval of two is 12.7 times as wide as what lies between them.

        >>> interval(1, [1.0, 2.0, 3.0]).words(".2f"), interval(1, [0.5]).words(".1f")
        ('2.00 ± 2.48', '0.5')
        >>> interval(1, [2.0, 1.0]).words(".1f")
        '1.0 and 2.0'
        """
        if self.seeds == 2:
            both = self.between()
            return f"{both.low:{form}} and {both.high:{form}}"
        half = f" ± {self.high - self.value:{form}}" if self.seeds > 1 else ""
        return f"{self.value:{form}}{half}"

    def between(self) -> "Mean":
        """Return the mean of two seeds with their values for its limits.

        >>> mean = interval(1, [1.0, 2.0]).between()
        >>> round(mean.low, 9), round(mean.high, 9)
        (1.0, 2.0)
        """
        half = (self.high - self.value) / _student(2)
        return replace(self, low=self.value - half, high=self.value + half)


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
        half = _student(n) * spread / math.sqrt(n)
    return Mean(x, mean, mean - half, mean + half, n)


def _student(n: int) -> float:
    """Return how many standard errors of ``n`` values the interval goes to either side."""
    return float(stdtrit(n - 1, 0.975))


def average(runs: Iterable[Rows], metric: str, x: str = "round") -> list[Mean]:
    """Return the mean of ``metric`` over the runs, wherever every one of them has a value."""
    columns = zip(*runs, strict=False)
    return [
        interval(at[0][x], [row[metric] for row in at])
        for at in columns
        if all(row.get(metric) is not None for row in at)
    ]
