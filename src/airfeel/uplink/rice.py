"""Whole numbers in Rice's code: the low bits of each as they are, what is left as so many zeros and a one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

HEAD = 5  # bytes before the code: how many low bits, how many numbers
WIDEST = 31  # bits of a number that is coded here


def code(numbers: NDArray[Any], low: int) -> NDArray[np.uint8]:
    """Return the bits of numbers >= 0: first the low ones of all, then the zeros and ones of all."""
    lows = numbers[:, None] >> np.arange(low) & 1
    ends = np.cumsum((numbers >> low) + 1)
    high = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    high[ends - 1] = 1
    return np.concatenate([part.astype(np.uint8).reshape(-1) for part in (lows, high)])


def decode(bits: NDArray[np.bool_], low: int, count: int, what: str) -> NDArray[np.intp]:
    """Undo :func:`code` for so many numbers; refuse other bits, with a word for what they are."""
    head, high = np.split(bits, [count * low])
    found = int(np.count_nonzero(high))  # before anything is as large as what a sender made up
    ends = np.flatnonzero(high) if found == count else np.zeros(0, np.intp)
    if found != count or (count and len(high) - int(ends[-1]) > 8):
        raise ValueError(f"{what} has {found} places: must have {count}")
    numbers = np.diff(ends, prepend=-1)
    numbers -= 1
    for bit in reversed(range(low)):
        numbers <<= 1
        numbers |= head[bit::low]
    return numbers


def write(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Return numbers from 0 to 2^31 - 1 in bytes, with as many low bits as make it short.

    Gaps between places of which many are taken have no low bits, and their code is one bit for each place.

    >>> places = np.array([3, 4, 9, 200])
    >>> coded = write(gaps(places))
    >>> len(coded), places_of(read(coded, most=4))
    (9, array([  3,   4,   9, 200]))
    """
    numbers = np.asarray(numbers, np.int64)
    mean = int(numbers.mean()).bit_length() if len(numbers) else 0
    sizes = {
        low: len(numbers) * low + int((numbers >> low).sum()) for low in range(max(0, mean - 2), mean + 2)
    }
    low = min(sizes, key=lambda low: sizes[low])
    head = np.array([len(numbers)], "<u4").view(np.uint8)
    return np.concatenate((np.array([low], np.uint8), head, np.packbits(code(numbers, low))))


def read(coded: NDArray[Any], most: int) -> NDArray[np.intp]:
    """Undo :func:`write`; refuse what it cannot have written, and more numbers than ``most``."""
    if coded.dtype != np.uint8 or coded.ndim != 1 or len(coded) < HEAD or coded[0] > WIDEST:
        raise ValueError(f"coded numbers are {coded.dtype} of shape {coded.shape}: must be bytes of a code")
    count = int(coded[1:HEAD].view("<u4")[0])
    if count > most:
        raise ValueError(f"there are {count} coded numbers: must be at most {most}")
    return decode(np.unpackbits(coded[HEAD:]).view(np.bool_), int(coded[0]), count, "a code")


def gaps(places: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers of untaken places before each of these, which rise."""
    before = np.concatenate((np.array([-1]), places[:-1]))
    return np.asarray(places - before - 1, np.int64)


def places_of(gaps: NDArray[np.intp]) -> NDArray[np.intp]:
    """Undo :func:`gaps`."""
    return np.cumsum(gaps + 1) - 1
