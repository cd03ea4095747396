"""What the files that a configuration names hold: their digests, which a run's folder notes.

Keys name files by their paths, and a run's hash knows no more than those. With the digests noted beside it, a
run that is continued can tell that a file is not the one it began with.
"""

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from airfeel import _files
from airfeel.config.parts import Chosen
from airfeel.registry import DATASETS

_DATA = (".npy", "-ubyte", "-ubyte.gz")  # how files in the folder of a data set end


def content_digests(chosen: Chosen, flat: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of every file or folder that a key names, as ``content.channel.source``.

    ``flat`` are all keys of the configuration by dotted name. What cannot be read has no digest.
    """
    found = {f"content.{key}": content_digest(path) for key, path in _paths(chosen, flat)}
    return {key: digest for key, digest in found.items() if digest}


def _paths(chosen: Chosen, flat: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys that name files: a data set without a name, and options of parts."""
    if flat["dataset"] not in DATASETS.names():
        yield "dataset", flat["dataset"]
    for key in chosen.files:
        if isinstance(path := flat.get(key), str):
            yield key, path


def content_digest(path: str) -> str:
    """Return the SHA-256 of a file of any size, or one of the data in a folder; empty without any."""
    try:
        place = Path(path).expanduser()
        return _folder_digest(place) if place.is_dir() else _digest(place, _files.version(place))
    except (OSError, ValueError, RuntimeError):  # such as a zero byte, or a user who has no home
        return ""


def _folder_digest(folder: Path) -> str:
    """Return a digest of the names and contents of a data set's files; others beside them do not count."""
    paths = sorted(path for path in folder.iterdir() if path.name.endswith(_DATA))
    told = [f"{_digest(path, _files.version(path))} {path.name}\n" for path in paths]
    return hashlib.sha256("".join(told).encode()).hexdigest() if told else ""


@lru_cache(maxsize=64)
def _digest(path: Path, version: tuple[int, int, int]) -> str:
    """Return the digest of a file, read once for each version of it."""
    return _files.digest_start(path, version[1])
