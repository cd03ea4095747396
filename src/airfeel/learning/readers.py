"""Data as arrays: what they may hold, and how they are read from files and from map-style data sets.

Headers are checked against the bytes that are there before memory is taken, and nothing is unpickled.
"""

import gzip
import io
import math
import zlib
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airfeel import _checks, _files, _foreign

SplitArrays = Sequence[NDArray[Any]]
"""Train inputs, train labels, test inputs, test labels."""

LARGEST_LABEL = 2**31 - 1
NAMES = ("train_inputs", "train_labels", "test_inputs", "test_labels")
_OTHER_NAMES = ("x_train", "y_train", "x_test", "y_test")  # as many .npz files elsewhere have them
IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_folder(folder: Path) -> SplitArrays:
    """Return the arrays of a folder: memory maps of four .npy files, or the content of four idx files."""
    paths = [folder / f"{name}.npy" for name in NAMES]
    if not any(path.exists() for path in paths):
        return idx_folder(folder)
    with _explained(folder):
        return [_files.map_array(path) for path in paths]


def read_npz(path: Path) -> SplitArrays:
    """Return the four arrays of an .npz file, plain or compressed, in our names or as ``x_train``, ...."""
    with _explained(path):
        found = _files.read_arrays(path, most=_files.memory())
    for names in (NAMES, _OTHER_NAMES):
        if all(name in found for name in names):
            return [found[name] for name in names]
    raise _refused(path, f"must hold arrays named {', '.join(NAMES)}, not {', '.join(found) or 'nothing'}")


def idx_folder(folder: Path) -> SplitArrays:
    """Read ``{train,t10k}-{images-idx3,labels-idx1}-ubyte``, each plain or with ``.gz``."""
    return [read_idx(_found(folder, name)) for name in IDX_NAMES]


def _found(folder: Path, name: str) -> Path:
    dotted = name.replace("-idx", ".idx")
    for path in (folder / name, folder / f"{name}.gz", folder / dotted, folder / f"{dotted}.gz"):
        if path.is_file():
            return path
    raise _refused(folder, f"has no file {name} or {name}.gz, nor {NAMES[0]}.npy")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one idx file of unsigned bytes, plain or gzip.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension as a
    big-endian 32-bit number, then the bytes of the array. No more is read than the header promises, and one
    byte to see that nothing follows.
    """
    with _explained(path), _files.opened(path) as file:
        stream: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        head = stream.read(4)
        ndim = head[3] if len(head) == 4 else 0
        sizes = stream.read(4 * ndim)
        if head[:3] != b"\0\0\x08" or not 1 <= ndim <= 4 or len(sizes) < 4 * ndim:
            raise _refused(path, "is not an idx file of unsigned bytes")
        shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
        promised = math.prod(shape)
        if excess := _excess(promised):
            raise _refused(path, f"promises {excess}")
        body = _files.read_some(stream, promised + 1)
    if len(body) != promised:
        more = " or more" if len(body) > promised else ""
        raise _refused(path, f"must hold {promised} bytes after its header, not {len(body)}{more}")
    return np.frombuffer(body, np.uint8).reshape(shape)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Make one sentence of whatever is wrong with a file."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _refused(path, f"is damaged: {error}") from None
    except OSError as error:
        raise _refused(error.filename or path, str(error.strerror)) from None


def _refused(path: str | Path, rule: str) -> ValueError:
    return _checks.reject("dataset", str(path), rule)


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
    if excess := _excess(count * sum(first.nbytes for first in firsts)):
        raise _checks.reject(f"len({argument})", count, f"needs {excess}")
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


def _excess(size: int) -> str:
    """Say that so many bytes are more than there can be; empty where they are not."""
    most = _files.memory()
    return f"{size} bytes: must be at most this machine's memory, {most}" if size > most else ""
