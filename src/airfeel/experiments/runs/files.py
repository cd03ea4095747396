"""Files that are whole or absent, and locks that die with their process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Stamp = tuple[int, ...]


class RunError(Exception):
    """A run cannot go on for a reason the user can mend; the message is one clear sentence."""


def write_atomically(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``: after a crash the old or the new content is there, whole."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def stamp(*paths: Path) -> Stamp | None:
    """Return what changes whenever one of these files is written anew; None where one is missing."""
    try:
        facts = [path.stat() for path in paths]
    except OSError:
        return None
    return tuple(number for fact in facts for number in (fact.st_mtime_ns, fact.st_size, fact.st_ino))


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the system drops it when the process ends, however it ends.

    Without ``wait`` a lock held elsewhere raises ``BlockingIOError``.
    """
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn a full disk, a read-only folder and their like into one clear sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        where = error.filename or folder
        raise RunError(
            f"cannot write to {where}: {reason}; what was saved before is kept, "
            "and the same command continues from there"
        ) from error
