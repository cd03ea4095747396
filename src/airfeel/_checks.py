"""One sentence for a user's mistake: the argument, its value and the rule it breaks."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def reject(argument: str, value: object, rule: str) -> ValueError:
    """Build the error for ``argument`` having ``value`` where ``rule`` must hold."""
    return ValueError(f"{argument} = {value!r}: {rule}")


def integer(argument: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return ``value`` as an int inside the given range."""
    rule = f"must be a whole number >= {at_least}" + ("" if at_most is None else f" and <= {at_most}")
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise reject(argument, value, rule)
    if value < at_least or (at_most is not None and value > at_most):
        raise reject(argument, int(value), rule)
    return int(value)


def real(
    argument: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Return ``value`` as a finite float inside the given range."""
    fits = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    number = float(value) if fits else math.nan
    if (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    ):
        return number
    # Worded only now: every round makes several of these checks.
    bounds = ((">", above), (">=", at_least), ("<", below), ("<=", at_most))
    stated = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
    raise reject(argument, number if fits else value, f"must be a finite number {stated}".rstrip())


def choice(argument: str, value: Any, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of the ``allowed`` words."""
    if value not in allowed:
        raise reject(argument, value, "must be one of " + ", ".join(repr(a) for a in allowed))
    return str(value)


def vector(argument: str, value: ArrayLike, size: int | None = None) -> NDArray[Any]:
    """Return ``value`` as a finite real floating vector (float32 stays float32, all else is float64)."""
    array = np.asarray(value)
    if array.ndim != 1 or (size is not None and array.shape != (size,)):
        raise ValueError(f"{argument} has shape {array.shape}: must be a vector of length {size or 'N'}")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{argument} has dtype {array.dtype}: must hold real numbers")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{argument}[{bad}] = {array[bad]}: every entry must be finite")
    return array
