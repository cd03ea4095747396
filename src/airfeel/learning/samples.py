"""What a data set may hold: the rules for inputs and labels, and map-style data sets as arrays."""

from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airfeel import _checks, _files, _foreign

LARGEST_LABEL = 2**31 - 1


def checked_inputs(argument: str, value: ArrayLike) -> NDArray[Any]:
    """Return samples as a read-only array (count, ...) of whole or floating numbers.

    Floating numbers must be finite. A memory map is not looked through: it may be larger than any memory.
    """
    inputs = _numbers(argument, value)
    if inputs.ndim < 2 or inputs.size == 0:
        rule = "must be (count, ...) with at least one axis for a sample, none of them 0"
        raise _checks.reject(f"{argument}.shape", inputs.shape, rule)
    if inputs.dtype.kind == "f" and not isinstance(value, np.memmap):
        _require_finite(argument, inputs)
    return _frozen(inputs)


def checked_labels(argument: str, value: ArrayLike) -> NDArray[Any]:
    """Return labels as a read-only array (count, ...): classes as int64, or floating targets."""
    labels = _numbers(argument, value)
    if labels.ndim < 1 or labels.size == 0:
        raise _checks.reject(f"{argument}.shape", labels.shape, "must be (count, ...), none of them 0")
    if labels.dtype.kind == "f":
        _require_finite(argument, labels)
        return _frozen(labels)
    if labels.min() < 0:
        raise _checks.reject(f"min({argument})", int(labels.min()), "must be >= 0")
    if labels.max() > LARGEST_LABEL:
        raise _checks.reject(f"max({argument})", int(labels.max()), f"must be <= {LARGEST_LABEL}")
    return _frozen(labels.astype(np.int64))


def gathered(argument: str, items: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the samples and labels of a map-style data set, whose items are pairs, as two arrays."""
    if not (isinstance(items, Sized) and hasattr(items, "__getitem__")):
        rule = "must have a length and items by index, each a pair of sample and label"
        raise _checks.reject(argument, type(items).__name__, rule)
    count = _checks.integer(f"len({argument})", len(items), at_least=1)
    firsts = _pair(argument, items, 0)
    promised = count * sum(first.nbytes for first in firsts)
    if promised > _files.memory():
        rule = f"needs {promised} bytes: must be at most this machine's memory, {_files.memory()}"
        raise _checks.reject(f"len({argument})", count, rule)
    inputs, labels = (np.empty((count, *first.shape), first.dtype) for first in firsts)
    for index in range(count):
        for array, entry in zip((inputs, labels), _pair(argument, items, index), strict=True):
            if (entry.dtype, entry.shape) != (array.dtype, array.shape[1:]):
                found = f"{entry.dtype} of shape {entry.shape}"
                rule = f"must be {array.dtype} of shape {array.shape[1:]} as in {argument}[0]"
                raise _checks.reject(f"{argument}[{index}]", found, rule)
            array[index] = entry
    return inputs, labels


def _pair(argument: str, items: Any, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        item = items[index]
    except Exception as error:  # of somebody's data set
        rule = f"cannot be read ({_foreign.told(error)})"
        raise _checks.reject(f"{argument}[{index}]", type(items).__name__, rule) from error
    if not isinstance(item, tuple | list) or len(item) != 2:
        rule = "must be a pair of sample and label"
        raise _checks.reject(f"{argument}[{index}]", type(item).__name__, rule)
    return _numbers(f"{argument}[{index}]", item[0]), _numbers(f"{argument}[{index}]", item[1])


def _numbers(argument: str, value: ArrayLike) -> NDArray[Any]:
    """Return an array of whole or floating numbers in this machine's byte order."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # unequal lengths, or a tensor that is no array
        raise _checks.reject(argument, type(value).__name__, f"must be an array ({error})") from None
    if array.dtype.kind not in "iuf":
        raise _checks.reject(f"{argument}.dtype", str(array.dtype), "must be of whole or floating numbers")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _require_finite(argument: str, array: NDArray[Any]) -> None:
    finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    if not finite.all():
        raise ValueError(f"{argument}[{finite.argmin()}] holds nan or infinity: every value must be finite")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
