"""A few devices at a time: what a round gathers from block to block of rows.

Only the error memories are arrays (M, N). Updates, what is kept of them and what goes into the signals exist
for one block of devices at a time.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel.radio.link import weighted_sum
from airfeel.schemes.sparsification import require_shape

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

# Returns the updates of some devices, the same whenever it is asked, in an array that is nobody else's.
Producer = Callable[[slice], Array]
# Returns an array to be filled, such as one that is kept in a file.
Room = Callable[[tuple[int, int], np.dtype[Any]], Array]

# Coefficients in a block: 256 MiB in single precision. A sum over devices is one sum where they fit into one
# block, else a sum of sums. So this number decides the last bits of results with more coefficients than that,
# and is neither an option nor dependent on the machine.
BLOCK = 2**26


def blocks(shape: tuple[int, ...], computing: Mask) -> list[slice]:
    """Return the rows of an (M, N) array in blocks of equal height.

    Blocks in which nobody computes come last: they cannot tell the precision of the updates.
    """
    devices, size = shape
    step = height(devices, size)
    found = [slice(first, min(first + step, devices)) for first in range(0, devices, step)]
    return sorted(found, key=lambda rows: not computing[rows].any())


def height(devices: int, size: int) -> int:
    """Return how many devices of N = ``size`` are in a block, at least one."""
    number = -(-devices // max(1, BLOCK // size))
    return -(-devices // number)


def producer(updates: Array | Producer, shape: tuple[int, ...]) -> Producer:
    """Return what gives the updates of some devices, given all of them or just that."""
    if callable(updates):
        return updates
    require_shape(updates, shape)
    return updates.__getitem__


class Gathered(Protocol):
    """What becomes of the rows of all devices, given block by block."""

    def put(self, rows: slice, part: Array) -> None:
        """Take the rows of some devices."""
        ...

    @property
    def value(self) -> Array:
        """All of it."""
        ...


class Rows:
    """All rows, one below the other; a block that is all of them stays the array it is."""

    def __init__(self, count: int, room: Room | None = None) -> None:
        self._count, self._room = count, room
        self._whole: Array | None = None

    def put(self, rows: slice, part: Array) -> None:
        """Take the rows of some devices."""
        if self._whole is None and self._room is None and len(part) == self._count:
            self._whole = part
            return
        if self._whole is None:
            shape = (self._count, part.shape[1])
            self._whole = np.empty(shape, part.dtype) if self._room is None else self._room(shape, part.dtype)
        self._whole[rows] = part

    @property
    def value(self) -> Array:
        """The array (M, n)."""
        assert self._whole is not None  # there is at least one block
        return self._whole


class Mean:
    """The weighted mean x = (1/W) sum of w_m row_m in double precision; zeros when nobody computed."""

    def __init__(self, weights: Array, whole: float) -> None:
        self._shares = weights / whole if whole else np.zeros(len(weights))
        self._sum: Array | None = None

    def put(self, rows: slice, part: Array) -> None:
        """Add the rows of some devices."""
        added = weighted_sum(self._shares[rows], part)
        self._sum = added if self._sum is None else self._sum + added

    @property
    def value(self) -> Array:
        """The vector (n,)."""
        assert self._sum is not None
        return self._sum
