"""Numbers with a range, as the types of options and configuration keys.

Quantities with a unit keep inside sixty orders of magnitude: products of a few of them stay finite.
"""

from typing import Annotated

from pydantic import Field

SMALLEST, LARGEST = 1e-30, 1e30
MOST = 10**15

Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=MOST)]
