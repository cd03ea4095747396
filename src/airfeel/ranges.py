"""Numbers with a range, as the types of options and configuration keys.

Quantities with a unit keep inside sixty orders of magnitude: products of a few of them stay finite.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

SMALLEST, LARGEST = 1e-30, 1e30
LEAST, GREATEST = 1e-150, 1e150  # of what a few of them make together
MOST = 10**15

Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Several = Annotated[int, Field(ge=2, le=MOST)]


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
