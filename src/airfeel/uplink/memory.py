"""What all devices carry, as named rows: in memory or in files, a few devices at a time.

Only these rows are arrays of all devices. Updates, what is kept of them and what goes into the signals exist
for one block of the devices that compute.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.arrays import Array
from airfeel.uplink.scheme import Memory

Devices = NDArray[np.intp]  # their numbers, in order

# Returns arrays of these shapes and types to be filled, such as those that are kept in a file.
Allocate = Callable[[Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]], dict[str, Array]]

# Coefficients in a block: 256 MiB in single precision. A sum over devices is one sum where they fit into one
# block, else a sum of sums. So this number decides the last bits of results with more coefficients than that,
# and is neither an option nor dependent on the machine.
BLOCK = 2**26


def height(devices: int, size: int) -> int:
    """Return how many devices of N = ``size`` are in a block, at least one."""
    number = -(-devices // max(1, BLOCK // size))
    return -(-devices // number)


def blocks(devices: Devices, size: int) -> list[Devices]:
    """Return devices with rows of N = ``size`` in blocks of equal height."""
    step = height(max(1, len(devices)), size)
    return [devices[first : first + step] for first in range(0, len(devices), step)]


def take(memory: Memory, devices: Devices) -> Memory:
    """Return the rows of some devices."""
    return {name: part[place(devices)] for name, part in memory.items()}


def require_finite(devices: Devices, rows: Array) -> None:
    """Refuse rows that are not real and finite, and name the device."""
    if np.iscomplexobj(rows):
        rule = "must be real: of a complex model, send the real and the imaginary parts side by side"
        raise ValueError(f"gradients have dtype {rows.dtype}: {rule}")
    finite = np.isfinite(rows)
    if not finite.all():
        device = int(devices[np.flatnonzero(~finite.all(axis=1))[0]])
        raise ValueError(
            f"gradients[{device}] is not finite: the training has diverged; lower the learning rate"
        )


class NextMemory:
    """The rows of all devices after a round, in which those of ``computing`` may get new ones."""

    def __init__(self, before: Memory, computing: Devices, allocate: Allocate | None = None) -> None:
        self._before, self._computing, self._allocate = before, computing, allocate
        self._count = max((len(part) for part in before.values()), default=0)
        self._value: dict[str, Array] = {}

    def put(self, devices: Devices, rows: Memory) -> None:
        """Take the next rows of some devices."""
        if (told := _widths(rows)) != (known := _widths(self._before)):
            raise ValueError(f"settle returned memories of widths {told}: must be {known}, those of memory")
        if self._allocate is None and len(devices) == self._count:
            self._value = dict(rows)  # all of them: they stay the arrays they are
            return
        self._value = self._value or self._opened(rows)
        for name, part in rows.items():
            self._value[name][place(devices)] = part

    @property
    def value(self) -> Memory:
        """All rows."""
        if not self._value and self._allocate is not None:
            self._value = self._opened(self._before)
        return self._value or self._before

    def _opened(self, like: Memory) -> dict[str, Array]:
        """Return arrays of the types of ``like`` that hold the rows of all who did not compute."""
        wanted = {name: (self._before[name].shape, part.dtype) for name, part in like.items()}
        if self._allocate is not None and wanted:
            found = self._allocate(wanted)
        else:
            found = {name: np.empty(*form) for name, form in wanted.items()}
        others = np.setdiff1d(np.arange(self._count), self._computing, assume_unique=True)
        for name, part in self._before.items():
            for some in blocks(others, max(1, part[:1].size)):
                found[name][place(some)] = part[place(some)]
        return found


def _widths(memory: Memory) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(part)[1:] for name, part in memory.items()}


def place(devices: Devices) -> slice | Devices:
    """Return devices as a slice where they are neighbours: a view takes no memory."""
    first, last = (int(devices[0]), int(devices[-1])) if len(devices) else (0, -1)
    return slice(first, last + 1) if last - first + 1 == len(devices) else devices
