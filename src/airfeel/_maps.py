"""Arrays that live in files, by memory map: for what is larger than the memory it deserves.

The system keeps in memory as much of such an array as there is room for, and the rest on disk.
"""

import mmap
import os
import secrets
import tempfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _files

Array = NDArray[Any]


def create(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], mode: int = 0o666) -> Array:
    """Return an array of zeros that is the content of a new file; what is written to one is in the other.

    The disk space is taken at once: a full disk is an error here, and later it would end the process.
    """
    length = prod(shape) * dtype.itemsize
    try:
        with _files.created(path, os.O_RDWR, mode) as file:
            _reserve(file.fileno(), length)
            content = mmap.mmap(file.fileno(), length)
    except OSError as error:
        path.unlink(missing_ok=True)
        rule = f"has no room for {length / 1e9:.3g} GB ({error.strerror or error})"
        raise _files.refuse(path, rule, _files.Unwritable) from error
    return np.frombuffer(content, dtype).reshape(shape)


def temporary(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Return an array in a file that has no name any more, in the system's folder for temporary files.

    It ends with the array, or with the process, however that ends. ``TMPDIR`` chooses the folder.
    """
    path = Path(tempfile.gettempdir()) / f"airfeel-{secrets.token_hex(8)}.tmp"
    array = create(path, shape, dtype, mode=0o600)
    path.unlink()
    return array


def checked(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], crc32: int) -> Array:
    """Return the content of a file as an array that cannot be written to, if it is what it was."""
    length = prod(shape) * dtype.itemsize
    with _files.opened(path) as file:
        there = os.fstat(file.fileno()).st_size
        if there != length:
            raise _files.refuse(path, f"is damaged: it has {there} bytes and should have {length}")
        content = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ)
    if zlib.crc32(content) != crc32:
        raise _files.refuse(path, "is damaged: its checksum does not match")
    return np.frombuffer(content, dtype).reshape(shape)


def settle(array: Array) -> int:
    """Make what was written to an array of :func:`create` durable, and return its checksum."""
    owner: Any = array
    while not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    owner.flush()
    return zlib.crc32(owner)


def _reserve(handle: int, length: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, length)
    else:
        os.ftruncate(handle, length)
