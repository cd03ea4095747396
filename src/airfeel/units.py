"""Conversions, each written once: power ratios and decibel, shares and counts, errors."""

import math
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Level = TypeVar("Level", float, NDArray[np.floating[Any]])

FLOOR = 1e-40  # a ratio of exactly zero is reported as -400 dB


@overload
def decibel(ratio: float) -> float: ...
@overload
def decibel(ratio: NDArray[Any]) -> NDArray[np.floating[Any]]: ...
def decibel(ratio: Any) -> Any:
    """Return a power ratio, or an array of them, in decibel.

    >>> decibel(0.1), decibel(0.0)
    (-10.0, -400.0)
    """
    if isinstance(ratio, np.ndarray):
        return 10 * np.log10(np.maximum(ratio, FLOOR))
    return 10 * math.log10(max(ratio, FLOOR))


def from_decibel(level: Level) -> Level:
    """Return the power ratio, or an array of them, that so many decibel stand for.

    >>> from_decibel(-20.0)
    0.01
    """
    return 10 ** (level / 10)


def count(share: float, size: int) -> int:
    """Return ``share`` of ``size`` as a whole number, at least one.

    >>> count(0.1, 7850), count(0.001, 10)
    (785, 1)
    """
    return max(1, round(share * size))


def relative_error(estimate: NDArray[Any], truth: NDArray[Any]) -> float | None:
    """Return the NMSE ||estimate - truth||^2 / ||truth||^2; None for a truth of zero.

    >>> relative_error(np.array([1.0, 1.0]), np.array([1.0, 2.0]))
    0.2
    """
    scale = float(np.sum(truth**2))
    return float(np.sum((estimate - truth) ** 2)) / scale if scale else None
