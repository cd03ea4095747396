"""Arrays that live in files, by memory map: for what is larger than the memory it deserves.

The system keeps in memory as much of such an array as there is room for, and the rest on disk.
"""

import mmap
import os
import secrets
import tempfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _files

Array = NDArray[Any]
Forms = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]  # shapes and types by name


def create(path: Path, forms: Forms, mode: int = 0o666) -> dict[str, Array]:
    """Return arrays of zeros that are the content of a new file; what is written to one is in the other.

    The disk space is taken at once: a full disk is an error here, and later it would end the process.
    """
    length = _length(forms)
    try:
        with _files.created(path, os.O_RDWR, mode) as file:
            _reserve(file.fileno(), length)
            content = mmap.mmap(file.fileno(), length)
    except OSError as error:
        path.unlink(missing_ok=True)
        rule = f"has no room for {length / 1e9:.3g} GB ({error.strerror or error})"
        raise _files.refuse(path, rule, _files.Unwritable) from error
    return _parts(content, forms)


def temporary(forms: Forms) -> dict[str, Array]:
    """Return arrays in a file that has no name any more, in the system's folder for temporary files.

    It ends with the arrays, or with the process, however that ends. ``TMPDIR`` chooses the folder.
    """
    path = Path(tempfile.gettempdir()) / f"airfeel-{secrets.token_hex(8)}.tmp"
    arrays = create(path, forms, mode=0o600)
    path.unlink()
    return arrays


def checked(path: Path, forms: Forms, crc32: int) -> dict[str, Array]:
    """Return the content of a file as arrays that cannot be written to, if it is what it was."""
    length = _length(forms)
    with _files.opened(path) as file:
        there = os.fstat(file.fileno()).st_size
        if there != length:
            raise _files.refuse(path, f"is damaged: it has {there} bytes and should have {length}")
        content = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ)
    if zlib.crc32(content) != crc32:
        raise _files.refuse(path, "is damaged: its checksum does not match")
    return _parts(content, forms)


def settle(arrays: Mapping[str, Array]) -> int:
    """Make what was written to arrays of :func:`create` durable, and return the checksum of their file."""
    owner: Any = next(iter(arrays.values()))
    while not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    owner.flush()
    return zlib.crc32(owner)


def _length(forms: Forms) -> int:
    return sum(_padded(prod(shape) * dtype.itemsize) for shape, dtype in forms.values())


def _padded(length: int) -> int:
    """Return a length at which an array of any type may begin."""
    return -(-length // 16) * 16 if length else 16


def _parts(content: mmap.mmap, forms: Forms) -> dict[str, Array]:
    """Return the arrays that stand one after another in a file."""
    found, start = {}, 0
    for name, (shape, dtype) in forms.items():
        found[name] = np.frombuffer(content, dtype, prod(shape), start).reshape(shape)
        start += _padded(prod(shape) * dtype.itemsize)
    return found


def _reserve(handle: int, length: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, length)
    else:
        os.ftruncate(handle, length)
