"""One sentence for a user's mistake: argument, value and the rule it breaks; and text fit to be shown."""

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # only a vector takes NumPy, and what prints help has none
    from numpy.typing import ArrayLike, NDArray

LONGEST = 200  # characters of a value in a message
# What steers a terminal or turns the direction of writing, ends a line, or cannot stand in UTF-8 or XML.
_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def reject(argument: str, value: object, rule: str) -> ValueError:
    """Build the error for ``argument`` having ``value`` where ``rule`` must hold."""
    return ValueError(f"{argument} = {shown(value)}: {rule}")


def shown(value: object) -> str:
    """Return a value as a message shows it: as Python writes it, but of what is long only the beginning.

    >>> shown("ratio"), shown(10**5000)
    ("'ratio'", 'a whole number of about 5001 digits')
    """
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST:  # Python refuses to write very long ones
        return f"a whole number of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    try:
        text = re.sub(r"\s*\n\s*", " ", repr(value))  # arrays are written in several lines
    except (RecursionError, ValueError):  # lists in lists without end, or such a number inside
        return f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... ({len(text)} characters)"


def visible(text: str, keep: str = "") -> str:
    r"""Return a text in which control characters are written out, but for those in ``keep``.

    They are written as JSON and TOML write them, so that what was valid there still is.

    >>> print(visible("a\x1b[31m red\nlabel"))
    a\u001b[31m red\u000alabel
    """
    return _STEERING.sub(lambda found: found[0] if found[0] in keep else f"\\u{ord(found[0]):04x}", text)


def integer(argument: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return ``value`` as an int inside the given range."""
    rule = f"must be a whole number >= {at_least}" + ("" if at_most is None else f" and <= {at_most}")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise reject(argument, value, rule)
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        raise reject(argument, number, rule)
    return number


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
    fits = isinstance(value, Real) and not isinstance(value, bool)
    try:
        number = float(value) if fits else math.nan
    except OverflowError:  # a whole number beyond all floats
        number = math.inf if value > 0 else -math.inf
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
    told = number if fits and (math.isfinite(number) or not isinstance(value, int)) else value
    raise reject(argument, told, f"must be a finite number {stated}".rstrip())


def choice(argument: str, value: Any, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of the ``allowed`` words."""
    if value not in allowed:
        raise reject(argument, value, "must be one of " + ", ".join(repr(a) for a in allowed))
    return str(value)


def suggestion(word: Any, words: Iterable[str]) -> str:
    """Return the end of a sentence that names the most similar of some words; empty where none is."""
    close = difflib.get_close_matches(word, list(words), n=1) if isinstance(word, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def listed(words: Sequence[str], mark: str = ", ") -> str:
    """Return "x", "x and y" or "x, y and z"; empty of nothing."""
    return " and ".join(filter(None, [mark.join(words[:-1]), *words[-1:]]))


def returned(of: object, method: str, value: Any, kind: type) -> Any:
    """Return what a method of somebody's object returned, if it is of the right kind."""
    if not isinstance(value, kind):
        call = f"{type(of).__name__}.{method}"
        raise ValueError(f"{call} returned a {type(value).__name__}: must return a {kind.__name__}")
    return value


def vector(argument: str, value: "ArrayLike", size: int | None = None) -> "NDArray[Any]":
    """Return ``value`` as a finite real floating vector (float32 stays float32, all else is float64)."""
    import numpy as np

    array = np.asarray(value)
    if array.ndim != 1 or (size is not None and array.shape != (size,)):
        raise ValueError(f"{argument} has shape {array.shape}: must be a vector of length {size or 'N'}")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{argument} has dtype {array.dtype}: must hold real numbers")
    if array.dtype != np.float32:
        with np.errstate(over="ignore"):  # what only a longer type can hold is told as infinite
            array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{argument}[{bad}] = {array[bad]}: every entry must be finite")
    return array
