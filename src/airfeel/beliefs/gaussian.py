"""Products and quotients of Gaussian messages, scalar variance shared by many means."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def multiply(mean_a: Array, var_a: Array, mean_b: Array, var_b: Array) -> tuple[Array, Array]:
    """Return mean and variance of the normalised product N(mean_a, var_a) N(mean_b, var_b)."""
    var = var_a * var_b / (var_a + var_b)
    return var * (mean_a / var_a + mean_b / var_b), var


def divide(mean_a: Array, var_a: Array, mean_b: Array, var_b: Array) -> tuple[Array, Array]:
    """Return mean and variance of N(mean_a, var_a) / N(mean_b, var_b), the extrinsic message (30)(31).

    A Gaussian only where ``var_a < var_b``; the caller guards that. Written over the difference of the
    variances, so that nothing is inverted twice.
    """
    gap = var_b - var_a
    return (var_b / gap) * mean_a - (var_a / gap) * mean_b, var_a * (var_b / gap)
