"""Data sets in files: folders of idx or .npy files, and .npz archives, as four arrays.

Headers are checked against the bytes that are there before memory is taken, and nothing is unpickled.
"""

import gzip
import io
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks, _files

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Train inputs, train labels, test inputs, test labels."""

NAMES = ("train_inputs", "train_labels", "test_inputs", "test_labels")
_OTHER_NAMES = ("x_train", "y_train", "x_test", "y_test")  # as many .npz files elsewhere have them
_STEMS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_folder(folder: Path) -> Arrays:
    """Return the arrays of a folder: memory maps of four .npy files, or the content of four idx files."""
    if any((folder / f"{name}.npy").exists() for name in NAMES):
        return npy_folder(folder)
    return idx_folder(folder)


def npy_folder(folder: Path) -> Arrays:
    """Map ``train_inputs.npy``, ``train_labels.npy``, ``test_inputs.npy`` and ``test_labels.npy``."""
    train, train_labels, test, test_labels = (_mapped(folder / f"{name}.npy") for name in NAMES)
    return train, train_labels, test, test_labels


def _mapped(path: Path) -> NDArray[Any]:
    try:
        return _files.map_array(path)
    except FileNotFoundError:
        raise _checks.reject("dataset", str(path.parent), f"has no file {path.name}") from None
    except _files.Unreadable as error:
        raise _checks.reject("dataset", str(path), str(error.strerror)) from None


def read_npz(path: Path) -> Arrays:
    """Return the four arrays of an .npz file, plain or compressed, in our names or as ``x_train``, ...."""
    try:
        found = _files.read_arrays(path, most=_files.memory())
    except OSError as error:
        raise _checks.reject("dataset", str(path), str(error.strerror)) from None
    for names in (NAMES, _OTHER_NAMES):
        if all(name in found for name in names):
            train, train_labels, test, test_labels = (found[name] for name in names)
            return train, train_labels, test, test_labels
    rule = f"must hold arrays named {', '.join(NAMES)}, not {', '.join(found) or 'nothing'}"
    raise _checks.reject("dataset", str(path), rule)


def idx_folder(folder: Path) -> Arrays:
    """Read ``{train,t10k}-{images-idx3,labels-idx1}-ubyte``, each plain or with ``.gz``."""
    train, train_labels, test, test_labels = (read_idx(_find(folder, stem)) for stem in _STEMS)
    return train, train_labels, test, test_labels


def _find(folder: Path, stem: str) -> Path:
    dotted = stem.replace("-idx", ".idx")
    for name in (stem, f"{stem}.gz", dotted, f"{dotted}.gz"):
        if (folder / name).is_file():
            return folder / name
    raise _checks.reject("dataset", str(folder), f"has no file {stem} or {stem}.gz, nor {NAMES[0]}.npy")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one idx file of unsigned bytes, plain or gzip.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension as a
    big-endian 32-bit number, then the bytes of the array.
    """
    try:
        with _files.opened(path) as file:
            return _read_idx(path, gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _checks.reject("dataset", str(path), f"is damaged: {error}") from None
    except _files.Unreadable as error:
        raise _checks.reject("dataset", str(path), str(error.strerror)) from None


def _read_idx(path: Path, stream: io.BufferedIOBase) -> NDArray[np.uint8]:
    """Read no more than the header promises, and one byte to see that nothing follows."""
    head = stream.read(4)
    ndim = head[3] if len(head) == 4 else 0
    sizes = stream.read(4 * ndim)
    if head[:3] != b"\0\0\x08" or not 1 <= ndim <= 4 or len(sizes) < 4 * ndim:
        raise _checks.reject("dataset", str(path), "is not an idx file of unsigned bytes")
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    promised = math.prod(shape)
    if promised > _files.memory():
        rule = f"promises {promised} bytes: must be at most this machine's memory, {_files.memory()}"
        raise _checks.reject("dataset", str(path), rule)
    body = _files.read_some(stream, promised + 1)
    if len(body) != promised:
        more = " or more" if len(body) > promised else ""
        rule = f"must hold {promised} bytes after its header, not {len(body)}{more}"
        raise _checks.reject("dataset", str(path), rule)
    return np.frombuffer(body, np.uint8).reshape(shape)
