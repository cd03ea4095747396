"""The quotient of two Gaussian messages, a variance shared by many means."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def divide(mean_a: Array, var_a: Array, mean_b: Array, var_b: Array) -> tuple[Array, Array]:
    """Return mean and variance of N(mean_a, var_a) / N(mean_b, var_b), the extrinsic message (30)(31).

    A Gaussian only where ``var_a < var_b``; the caller guards that. Written over the difference of the
    variances, so that nothing is inverted twice.
    """
    gap = var_b - var_a
    mean = (var_b / gap) * mean_a
    mean -= (var_a / gap) * mean_b
    return mean, var_a * (var_b / gap)


def extrinsic_variance(var_a: Array, var_b: Array) -> Array:
    """Return (1 / var_a - 1 / var_b)^-1, the variance of the quotient: g of the state evolution (49)."""
    return np.asarray(var_a * (var_b / (var_b - var_a)))
