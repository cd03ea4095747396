"""One file that holds the whole state of a run, checked before anything in it is believed.

The file is what :mod:`airfeel.storage` makes of the state (an ``.npz`` archive, no pickle) followed by the
SHA-256 of its bytes, so a single flipped bit is noticed.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airfeel import storage
from airfeel.lab.runs import files

_DIGEST_BYTES = 32


class Damaged(Exception):
    """A checkpoint that is not what was written."""


def save(path: Path, state: Any, facts: dict[str, Any]) -> None:
    """Write ``state`` and ``facts`` (numbers and text by name) atomically.

    The checkpoint before this one stays beside it as ``<name>.previous``.
    """
    content = storage.to_bytes({"state": state, "facts": facts})
    fresh = path.with_name(path.name + ".new")
    files.write_atomically(fresh, content, hashlib.sha256(content).digest())
    if path.exists():
        if previous(path).is_dir():  # which nothing can replace
            files.discard(previous(path))
        path.replace(previous(path))
    fresh.replace(path)
    files.sync_folder(path.parent)


def load(path: Path, trusted: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:
    """Return state and facts; raise :class:`Damaged` if any byte is not the one written.

    ``trusted`` names the modules beside airfeel whose dataclasses the state may hold.
    """
    try:
        data = files.read_bytes(path)
    except files.Unread:  # which may be mended
        raise
    except files.Unreadable as error:
        raise Damaged(f"{path} is damaged: it {error.strerror}") from None
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise Damaged(f"{path} is damaged: its checksum does not match")
    try:
        whole = storage.from_bytes(content, trusted)
    except ValueError as error:
        raise Damaged(f"{path}: {error}") from None
    match whole:
        case {"state": state, "facts": dict(facts)}:
            return state, facts
    raise Damaged(f"{path}: is no checkpoint of a run")


def previous(path: Path) -> Path:
    """Return where the checkpoint before the newest one is kept."""
    return path.with_name(path.name + ".previous")
