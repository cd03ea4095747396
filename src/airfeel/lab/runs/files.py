"""The files of a run: whole or absent, never through a link, and trouble with them in one sentence."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airfeel._files import (
    LIST,
    SETTINGS,
    Unread,
    Unreadable,
    Unwritable,
    append_line,
    below,
    cut,
    digest,
    digest_lines,
    digest_start,
    discard,
    locked,
    parse_json,
    parse_toml,
    read_arrays,
    read_bytes,
    read_lines,
    read_text,
    refuse,
    remove_abandoned,
    sync,
    sync_folder,
    version,
    write_atomically,
)

__all__ = [
    "LIST",
    "SETTINGS",
    "RunError",
    "Stamp",
    "Unread",
    "Unreadable",
    "Unwritable",
    "append_line",
    "below",
    "cut",
    "digest",
    "digest_lines",
    "digest_start",
    "discard",
    "explained",
    "locked",
    "parse_json",
    "parse_toml",
    "read_arrays",
    "read_bytes",
    "read_lines",
    "read_text",
    "refuse",
    "remove_abandoned",
    "remove_leftovers",
    "stamp",
    "sync",
    "sync_folder",
    "write_atomically",
]

Stamp = tuple[int, ...]


class RunError(Exception):
    """A run cannot go on for a reason the user can mend; the message is one clear sentence."""


def stamp(*paths: Path, others: Sequence[Path] = ()) -> Stamp | None:
    """Return what changes whenever a file is written anew; None where one is missing that is in ``paths``."""
    facts = [_facts(path) for path in paths]
    if not all(facts):
        return None
    return tuple(number for found in (*facts, *map(_facts, others)) for number in found or (0, 0, 0))


def _facts(path: Path) -> Stamp | None:
    try:
        return version(path)
    except OSError:
        return None


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove what killed writers of files called ``name`` left; the caller holds the lock on the folder."""
    for pattern in (f"{name}.tmp", f"{name}.new"):
        for leftover in folder.glob(pattern):
            discard(leftover)


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn a full disk, a read-only folder, a file that cannot be read and their like into one sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, Unreadable) and not isinstance(error, Unwritable):
            raise RunError(str(error)) from error
        reason = error.strerror or str(error)
        where = error.filename or folder
        raise RunError(
            f"cannot write to {where}: {reason}; what was saved before is kept, "
            "and the same command continues from there"
        ) from error
