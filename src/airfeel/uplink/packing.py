"""Signals as arrays that travel in a message, and back: the other side may send anything."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

LARGEST = np.array([0x7F7F], np.uint16)  # the largest finite number of 16 bits


def pack(signal: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Return a signal as arrays: as it is, or where most of it is zero, one bit for each place and the rest.

    >>> sorted(pack(np.array([0, 0, 3] + [0] * 61, dtype=np.float32)))
    ['places', 'values']
    """
    there = signal != 0
    if signal.size / 8 + 4 * np.count_nonzero(there) < 4 * signal.size:
        return {"places": np.packbits(there), "values": signal[there]}
    return {"signal": signal}


def unpack(arrays: Arrays, length: int) -> NDArray[np.float32]:
    """Undo :func:`pack` for a signal of known length; refuse everything else in a sentence."""
    if set(arrays) == {"signal"}:
        return require(arrays["signal"], np.float32, (length,))
    if set(arrays) != {"places", "values"}:
        raise ValueError(f"its signal has the arrays {sorted(arrays)}: must be signal, or places and values")
    places, values = arrays["places"], arrays["values"]
    if places.dtype != np.uint8 or places.shape != (-(-length // 8),) or values.dtype != np.float32:
        raise ValueError(f"its signal marks {8 * places.size} places: must be {length} of float32")
    there = np.unpackbits(places, count=length).astype(np.bool_)
    if values.shape != (np.count_nonzero(there),):
        marked = np.count_nonzero(there)
        raise ValueError(f"its signal has {values.size} values for {marked} places: must be as many")
    found = np.zeros(length, dtype=np.float32)
    found[there] = values
    return found


def require(array: NDArray[Any], dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array of a signal; refuse one of another type or shape."""
    if array.dtype != dtype or array.shape != shape:
        held = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"its signal is {held}: must be {np.dtype(dtype)} of shape {shape}")
    return array


def shorten(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to the 16 bits that begin a number in single precision: all of its range, three digits.

    >>> lengthen(shorten(np.array([1.0, 1e-30, 3.4e38], np.float32)))
    array([1.000000e+00, 1.001769e-30, 3.389531e+38], dtype=float32)
    """
    whole = np.minimum(values, lengthen(LARGEST), dtype=np.float32).view(np.uint32)
    return ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16).astype(np.uint16)


def lengthen(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Undo :func:`shorten`, but for what was rounded."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
