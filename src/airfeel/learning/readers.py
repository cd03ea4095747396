"""Data sets in files: folders of idx or .npy files, and .npz archives, as four arrays.

Headers are checked against the bytes that are there before memory is taken, and nothing is unpickled.
"""

import gzip
import io
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks, _files

Arrays = Sequence[NDArray[Any]]
"""Train inputs, train labels, test inputs, test labels."""

NAMES = ("train_inputs", "train_labels", "test_inputs", "test_labels")
_OTHER_NAMES = ("x_train", "y_train", "x_test", "y_test")  # as many .npz files elsewhere have them
IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_folder(folder: Path) -> Arrays:
    """Return the arrays of a folder: memory maps of four .npy files, or the content of four idx files."""
    paths = [folder / f"{name}.npy" for name in NAMES]
    if not any(path.exists() for path in paths):
        return idx_folder(folder)
    with _explained(folder):
        return [_files.map_array(path) for path in paths]


def read_npz(path: Path) -> Arrays:
    """Return the four arrays of an .npz file, plain or compressed, in our names or as ``x_train``, ...."""
    with _explained(path):
        found = _files.read_arrays(path, most=_files.memory())
    for names in (NAMES, _OTHER_NAMES):
        if all(name in found for name in names):
            return [found[name] for name in names]
    raise _refused(path, f"must hold arrays named {', '.join(NAMES)}, not {', '.join(found) or 'nothing'}")


def idx_folder(folder: Path) -> Arrays:
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
        if promised > _files.memory():
            rule = f"promises {promised} bytes: must be at most this machine's memory, {_files.memory()}"
            raise _refused(path, rule)
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
