"""The files of a run: whole or absent, never through a link, and trouble with them in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airfeel._files import (
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
    "RunError",
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
    "sync",
    "sync_folder",
    "write_atomically",
]


class RunError(Exception):
    """A run cannot go on for a reason the user can mend; the message is one clear sentence."""


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
