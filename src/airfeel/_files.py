"""Files in folders that others may write to: bounded reading, writing that follows no link, locks.

Every file is opened here. What is read must be a regular file of a size it can have, so that a link to an
endless device, a pipe nobody writes to or a header that promises terabytes ends in one sentence. What is
written is whole or absent, and a link in the place of a file never leads elsewhere.
"""

import errno
import fcntl
import hashlib
import io
import json
import math
import os
import secrets
import stat
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from airfeel._checks import visible

SETTINGS = 4 * 2**20  # bytes of a configuration or summary at most: a hundred thousand devices one by one
LIST = 64 * 2**20  # bytes of a list of runs at most: some hundred thousand of them
LINE = 2**20  # bytes of one line of records at most
_CHUNK = 2**20
_DEEPEST = 32  # tables within tables
_TOKEN_BYTES = 8
_ODD = "is not a regular file"
_LINK = "is a symbolic link, and nothing is written through links"


class Unreadable(OSError):
    """A file that is not what it should be; the message is one clear sentence."""

    def __str__(self) -> str:
        return visible(f"{self.filename}: {self.strerror}")


class Unread(Unreadable):
    """A file that could not be read, for a reason of the system's such as a missing permission."""

    def __str__(self) -> str:
        return visible(f"{self.filename}: cannot be read ({self.strerror})")


class Unwritable(Unreadable):
    """Something in the place of a file that nothing is written to, such as a link."""


def refuse(path: str | os.PathLike[str], rule: str, kind: type[Unreadable] = Unreadable) -> Unreadable:
    """Build the error for a file that breaks ``rule``."""
    return kind(errno.EINVAL, rule, os.fspath(path))


# --- reading -----------------------------------------------------------------------------------------------


@contextmanager
def opened(path: str | os.PathLike[str], most: int = 2**63) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading; links are followed, but devices, pipes and folders are refused."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(_regular(handle, path), "rb") as file:
            if os.fstat(handle).st_size > most:
                raise refuse(path, f"is larger than {most} bytes, which it cannot be")
            yield file
    except (Unreadable, FileNotFoundError):
        raise
    except OSError as error:  # named as what it is, so that nobody takes it for a failure to write
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise refuse(path, _ODD) from None
        reason = error.strerror or str(error)
        raise Unread(error.errno or errno.EIO, reason, os.fspath(path)) from error


def read_bytes(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Return the content of a file of at most ``most`` bytes; None: of what this machine can hold."""
    with opened(path, memory() if most is None else most) as file:
        return file.read()


def read_some(stream: io.BufferedIOBase, most: int) -> bytearray:
    """Return the next bytes of a stream, at most ``most`` of them, without taking memory for more."""
    content = bytearray()
    while chunk := stream.read(min(_CHUNK, most - len(content))):
        content += chunk
    return content


def read_text(path: str | os.PathLike[str], most: int = SETTINGS) -> str:
    """Return the content of a text file of at most ``most`` bytes."""
    return read_bytes(path, most).decode()


def read_lines(path: str | os.PathLike[str], longest: int = LINE) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, none of them above ``longest`` bytes."""
    with opened(path, memory()) as file:
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise refuse(path, f"has a line of more than {longest} bytes, which no record has")
            yield line


def parse_json(content: bytes | str) -> Any:
    """Return what a text in JSON says; whatever is wrong with it, brackets without end too: a ValueError."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"is not valid JSON: {reason}") from None


def parse_toml(content: bytes | str) -> dict[str, Any]:
    """Return what a text in TOML says; whatever is wrong with it, tables without end too: a ValueError."""
    try:
        tree = tomllib.loads(content.decode() if isinstance(content, bytes) else content)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"is not valid TOML: {reason}") from None
    level: list[Any] = [tree]
    for _ in range(_DEEPEST):
        level = [item for table in level for item in table.values() if isinstance(item, Mapping)]
        if not level:
            return tree
    raise ValueError(f"has tables within tables, more than {_DEEPEST} of them")


def read_shipped(package: str, name: str) -> str:
    """Return a text file that comes with a package."""
    with resources.as_file(resources.files(package) / name) as path:
        return read_text(path)


def digest(path: str | os.PathLike[str], most: int | None = None) -> str:
    """Return the SHA-256 of a file of at most ``most`` bytes; None: of what this machine can hold."""
    with opened(path, memory() if most is None else most) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_start(path: str | os.PathLike[str], length: int) -> str:
    """Return the SHA-256 of the first ``length`` bytes of a file, or of all of it where it is shorter."""
    digest = hashlib.sha256()
    with opened(path) as file:
        while length > 0 and (chunk := file.read(min(length, _CHUNK))):
            digest.update(chunk)
            length -= len(chunk)
    return digest.hexdigest()


def version(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    """Return what changes whenever a file is written anew, so that what was made of it can be kept."""
    there = os.stat(path)
    return there.st_mtime_ns, there.st_size, there.st_ino


def read_arrays(
    source: str | os.PathLike[str] | bytes, most: int | None = None, name: str = "archive"
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file, or of its bytes that messages call ``name``, without pickle.

    Nothing is allocated before every array's header agrees with the bytes that are there. All arrays together
    have at most ``most`` bytes; None: those of the file, which is right where nothing is compressed.
    """
    if not isinstance(source, bytes):
        with opened(source, memory()) as file:
            return _unzipped(
                file, os.fstat(file.fileno()).st_size if most is None else most, os.fspath(source)
            )
    return _unzipped(io.BytesIO(source), len(source) if most is None else most, name)


def _unzipped(file: io.BufferedIOBase, most: int, path: str) -> dict[str, NDArray[Any]]:
    found = {}
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > most:
                raise refuse(path, "promises more bytes than it can hold")
            for member in archive.infolist():
                with archive.open(member) as stream:
                    _header(stream, member.file_size, member.filename)
                with archive.open(member) as stream:
                    array = np.asarray(npy.read_array(stream, allow_pickle=False))
                found[member.filename.removesuffix(".npy")] = array
    except Unreadable:
        raise
    except Exception as error:  # the readers of archives and of headers have many ways to stumble
        raise refuse(path, f"is no whole archive of arrays ({str(error) or type(error).__name__})") from None
    return found


def map_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of an ``.npy`` file as a read-only memory map, if its header tells what is there."""
    with opened(path) as file:
        try:
            shape, fortran, dtype = _header(file, os.fstat(file.fileno()).st_size, "it")
            if dtype.hasobject:
                raise ValueError("it holds objects")
            order: Any = "F" if fortran else "C"
            return np.memmap(file, dtype, "r", file.tell(), shape, order)
        except Exception as error:  # the reader of headers has many ways to stumble
            reason = str(error) or type(error).__name__
            raise refuse(path, f"is no whole array ({reason})") from None


def _header(stream: IO[bytes], size: int, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of the array in a stream of ``size`` bytes, which must be all of it."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} has an unknown version")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    entries, there = math.prod(map(int, shape)), size - stream.tell()
    promised = entries * dtype.itemsize
    if promised != there or min(shape, default=0) < 0 or (entries and not dtype.itemsize):
        raise ValueError(f"{name} promises {promised} bytes and has {there}")
    return shape, fortran, dtype


def memory() -> int:
    """Return the bytes of this machine's memory: nothing larger can be read as a whole."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# --- writing -----------------------------------------------------------------------------------------------


def write_atomically(path: Path, data: bytes, *more: bytes) -> None:
    """Replace ``path`` by ``data`` (and ``more``): after a crash the old or the new content is there, whole.

    A link in its place is itself replaced. What is written first is locked until it has its final name, so
    that :func:`remove_abandoned` leaves it alone.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(_TOKEN_BYTES)}.tmp")
    try:
        with created(temporary) as file:
            with suppress(OSError):  # some network file systems know no locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if not os.fstat(file.fileno()).st_nlink:  # taken for abandoned in the moment before it was locked
                return write_atomically(path, data, *more)
            for part in (data, *more):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def below(folder: Path, *steps: str) -> Path:
    """Return a folder to write or remove something in, if no step below the user's own is a link."""
    for step in steps:
        folder = folder / step
        if folder.is_symlink():
            raise refuse(folder, _LINK, Unwritable)
    return folder


def created(path: Path, access: int = os.O_WRONLY, mode: int = 0o666) -> io.BufferedWriter:
    """Open a file that was not there before, neither as a link."""
    flags = access | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, mode), "wb")


def remove_abandoned(folder: Path) -> None:
    """Remove what killed processes left of the files they were writing in ``folder``.

    Whoever is still writing holds a lock, which the system drops when the process ends, however it ends.
    """
    for path in folder.glob(f"*.{'[0-9a-f]' * 2 * _TOKEN_BYTES}.tmp"):
        with suppress(OSError), _own(path, os.O_RDWR) as file:  # in use, gone meanwhile, or not our file
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def append_line(path: Path, line: str) -> None:
    """Add one line in a single write."""
    with _own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        file.write(line.encode() + b"\n")


def sync(path: Path) -> int:
    """Make what was written to ``path`` durable and return its length."""
    with _own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def cut(path: Path, length: int) -> None:
    """Shorten a file to ``length`` bytes."""
    with _own(path, os.O_WRONLY) as file:
        os.ftruncate(file.fileno(), length)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, which ends with the process; BlockingIOError without ``wait``.

    Something else in its place, such as a link, is removed: a lock has no content that could be lost.
    """
    try:
        file = lock_file(path)
    except (Unwritable, PermissionError):
        path.unlink()
        file = lock_file(path)
    with file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def lock_file(path: Path) -> io.FileIO:
    """Open the file that stands for a lock, made if need be, with whatever is in it left alone."""
    return _own(path, os.O_RDWR | os.O_CREAT)


def _own(path: Path, flags: int) -> io.FileIO:
    """Open a regular file for writing, unbuffered; a link in its place is refused, whatever it leads to."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise refuse(path, _LINK, Unwritable) from None
        if error.errno == errno.ENXIO:  # a pipe without a reader
            raise refuse(path, _ODD, Unwritable) from None
        raise
    mode = "r+b" if flags & os.O_RDWR else "ab" if flags & os.O_APPEND else "wb"
    return io.FileIO(_regular(handle, path, Unwritable), mode)


def _regular(handle: int, path: str | os.PathLike[str], kind: type[Unreadable] = Unreadable) -> int:
    """Return the open file if it is a regular one, else close it and refuse it."""
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise refuse(path, _ODD, kind)
