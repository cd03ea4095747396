"""One sentence for a user's mistake: the argument, its value and the rule it breaks."""

import math
import operator
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
    bounds = [
        (above, ">", operator.gt),
        (at_least, ">=", operator.ge),
        (below, "<", operator.lt),
        (at_most, "<=", operator.le),
    ]
    stated = " and ".join(f"{sign} {bound:g}" for bound, sign, _ in bounds if bound is not None)
    rule = f"must be a finite number {stated}".rstrip()
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise reject(argument, value, rule)
    number = float(value)
    if not math.isfinite(number) or not all(
        holds(number, bound) for bound, _, holds in bounds if bound is not None
    ):
        raise reject(argument, number, rule)
    return number


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
