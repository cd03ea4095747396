"""The files of a run: whole or absent, never through a link, and trouble with them in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airfeel._files import (
    LIST,
    Unreadable,
    append_line,
    cut,
    digest_lines,
    digest_start,
    locked,
    read_arrays,
    read_bytes,
    read_lines,
    read_text,
    refuse,
    sync,
    sync_folder,
    write_atomically,
)

__all__ = [
    "LIST",
    "RunError",
    "Stamp",
    "Unreadable",
    "append_line",
    "cut",
    "digest_lines",
    "digest_start",
    "explained",
    "locked",
    "read_arrays",
    "read_bytes",
    "read_lines",
    "read_text",
    "refuse",
    "remove_leftovers",
    "stamp",
    "sync",
    "sync_folder",
    "write_atomically",
]

Stamp = tuple[int, ...]


class RunError(Exception):
    """A run cannot go on for a reason the user can mend; the message is one clear sentence."""


def stamp(*paths: Path) -> Stamp | None:
    """Return what changes whenever one of these files is written anew; None where one is missing."""
    try:
        facts = [path.stat() for path in paths]
    except OSError:
        return None
    return tuple(number for fact in facts for number in (fact.st_mtime_ns, fact.st_size, fact.st_ino))


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove what killed writers of files called ``name`` left; the caller holds the lock on the folder."""
    for pattern in (f"{name}.tmp", f"{name}.new"):
        for leftover in folder.glob(pattern):
            leftover.unlink()


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
