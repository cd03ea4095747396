"""Numbers with a range, as the types of options and configuration keys.

Quantities with a unit keep inside sixty orders of magnitude: products of a few of them stay finite.
"""

import dataclasses
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator, Field

from airfeel import _checks, _foreign

SMALLEST, LARGEST = 1e-30, 1e30
LEAST, GREATEST = 1e-150, 1e150  # of what a few of them make together
MOST = 10**15

# No Field here: pydantic 2.7 writes the default of the first key with such a type into it, for all others.
Positive = Annotated[float, Ge(SMALLEST), Le(LARGEST)]
NonNegative = Annotated[float, Ge(0), Le(LARGEST)]
Fraction = Annotated[float, Gt(0), Le(1)]
Share = Annotated[float, Ge(0), Le(1)]
Decibels = Annotated[float, Ge(-300), Le(300)]
RadioLevel = Annotated[float, Ge(-400.0), Le(400.0)]  # of radio units, in dB: products of a few stay finite
Probability = Annotated[float, Gt(0), Lt(1)]
Count = Annotated[int, Ge(1), Le(MOST)]
Several = Annotated[int, Ge(2), Le(MOST)]
RateRule = Literal["constant", "step", "cosine", "inverse"]  # how a learning rate falls


def _sizes(value: Any) -> tuple[int, ...]:
    """Accept a list of whole numbers >= 1; anything else is refused by the rule of its field."""
    whole = isinstance(value, list | tuple) and all(type(n) is int and 1 <= n <= MOST for n in value)
    if not whole:
        raise ValueError("not a list of sizes")
    return tuple(value)


Sizes = Annotated[
    tuple[int, ...],
    BeforeValidator(_sizes),
    Field(json_schema_extra={"rule": "must be a list of whole numbers >= 1, such as [100, 50]"}),
]


def require(part: Any) -> None:
    """Refuse a dataclass one of whose fields leaves the range, or the words, that its type declares."""
    for name, kind, limits, optional in _declared(part.__class__):
        value = getattr(part, name)
        if optional and value is None:
            continue
        if kind is Literal:
            _checks.choice(name, value, **limits)
        else:
            (_checks.integer if kind is int else _checks.real)(name, value, **limits)


class Checked:
    """A dataclass whose fields keep inside the ranges that their types declare."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse what leaves them."""
        require(self)


@cache
def _declared(kind: type) -> list[tuple[str, Any, dict[str, Any], bool]]:
    """Return the fields of a dataclass with a range: name, type, limits, and whether it may be None."""
    hints, found = _foreign.hints(kind), []
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        options = (hint,) if get_origin(hint) in (None, Annotated, Literal) else get_args(hint)
        for option in options:
            if get_origin(option) is Literal:
                found.append((field.name, Literal, {"allowed": get_args(option)}, type(None) in options))
            elif get_origin(option) is Annotated and get_args(option)[0] in (int, float):
                found.append((field.name, get_args(option)[0], _limits(option), type(None) in options))
    return found


def _limits(hint: Any) -> dict[str, Any]:
    words = {"gt": "above", "ge": "at_least", "lt": "below", "le": "at_most"}
    rules = (rule for item in get_args(hint)[1:] for rule in getattr(item, "metadata", (item,)))
    return {words[key]: getattr(rule, key) for rule in rules for key in words if hasattr(rule, key)}
