"""What a run is: the keys that determine its result, and their hash, which names its folder.

Every key that the run and its parts read is hashed with its value, so that a default may change without two
different runs sharing a hash. A part whose unchanged options give other results raises its revision, which is
hashed from 2 on. The table ``[identity]`` of ``config.toml`` lists the hashed keys, so that the hash can be
recomputed from the file alone.

Keys name files by their paths, and the hash knows no more than those. With digests of their contents noted
beside it, a run that is continued can tell that a file is not the one it began with.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from airfeel import _files
from airfeel.config.parts import Chosen
from airfeel.registry import DATASETS

_DATA = (".npy", "-ubyte", "-ubyte.gz")  # how files in the folder of a data set end


def digest(identity: Mapping[str, Any]) -> str:
    """Return the short hash of the keys and values that determine a result."""
    text = json.dumps(dict(identity), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def recorded_digest(settings: Mapping[str, Any]) -> str | None:
    """Return the hash of the settings of a ``config.toml``, given by dotted key, by its own ``[identity]``.

    None where that does not say which keys were hashed.
    """
    keys = settings.get("identity.keys")
    if not isinstance(keys, list):
        return None
    revisions = {
        key.removeprefix("identity."): value
        for key, value in settings.items()
        if key.startswith("identity.revision.")
    }
    return digest({key: settings.get(key) for key in keys} | revisions)


def table(identity: Mapping[str, Any], chosen: Chosen, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table ``[identity]``: hash, hashed keys and revisions, digests of own sources and of files.

    ``flat`` are all keys of the configuration by dotted name. What cannot be read has no digest.
    """
    revisions = {key: value for key, value in identity.items() if key.startswith("revision.")}
    found: dict[str, Any] = {"hash": digest(identity), "keys": sorted(identity.keys() - revisions.keys())}
    sources = {
        f"source.{seam}": part.source_digest()
        for seam, part in chosen.items()
        if not str(getattr(part.target, "__module__", "")).startswith("airfeel.")
    }
    contents = {f"content.{key}": content_digest(path) for key, path in _paths(chosen, flat)}
    return found | revisions | sources | {key: text for key, text in contents.items() if text}


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
