"""What a run's folder says of its configuration: TOML, and the hash that names the folder.

Every key that the run and its parts read is hashed with its value, so that a default may change without two
different runs sharing a hash. A part whose unchanged options give other results raises its revision, which is
hashed from 2 on. The table ``[identity]`` of ``config.toml`` lists the hashed keys, so that the hash can be
recomputed from the file alone.

Keys name files by their paths, and the hash knows no more than those. With digests of their contents noted
beside it, a run that is continued can tell that a file is not the one it began with.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from airfeel import _files

_DATA = (".npy", "-ubyte", "-ubyte.gz")  # how files in the folder of a data set end
_SOURCE = 2**26  # bytes of a module's source at most


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
    revisions = {key: value for key, value in settings.items() if key.startswith("identity.revision.")}
    hashed = {key.removeprefix("identity."): value for key, value in revisions.items()}
    return digest({key: settings.get(key) for key in keys} | hashed)


def source_digest(thing: Any) -> str:
    """Return the SHA-256 of the source file of a class, a function or a module; empty without one."""
    try:
        path = inspect.getsourcefile(thing)
        content = b"" if path is None else _files.read_bytes(path, _SOURCE)
    except (TypeError, OSError):  # such as one that is built in
        content = b""
    return hashlib.sha256(content).hexdigest() if content else ""


def content_digest(path: str) -> str:
    """Return the SHA-256 of a file of any size, or one of the data in a folder; empty without any."""
    try:
        place = Path(path).expanduser()
        if not place.is_dir():
            return _digest(place, _files.version(place))
        # Other files beside those of a data set do not count.
        paths = sorted(path for path in place.iterdir() if path.name.endswith(_DATA))
        told = "".join(f"{_digest(path, _files.version(path))} {path.name}\n" for path in paths)
        return hashlib.sha256(told.encode()).hexdigest() if told else ""
    except (OSError, ValueError, RuntimeError):  # such as a zero byte, or a user who has no home
        return ""


@lru_cache(maxsize=64)
def _digest(path: Path, version: tuple[int, int, int]) -> str:
    """Return the digest of a file, read once for each version of it."""
    return _files.digest_start(path, version[1])


def dumps(
    tree: Mapping[str, Any],
    notes: Mapping[str, str] | None = None,
    others: Mapping[str, tuple[Any, str]] | None = None,
) -> str:
    """Return ``tree`` (scalars, lists of scalars and one level of tables) as TOML.

    Parameters
    ----------
    tree
        Keys whose value is None are left out: TOML has no null.
    notes
        Comments by dotted key, printed behind the value.
    others
        Keys that could be there, by dotted name: value and comment. They are printed as comments.
    """
    notes, others = notes or {}, others or {}
    tables = {key: item for key, item in tree.items() if isinstance(item, Mapping)}
    scalars = {key: item for key, item in tree.items() if key not in tables}
    lines = _lines(scalars, "", notes, others)
    for section, table in tables.items():
        body = _lines(table, f"{section}.", notes, others)
        lines += ["", f"[{section}]", *body] if body else []
    return "\n".join(lines).removeprefix("\n") + "\n"


def _lines(
    table: Mapping[str, Any], prefix: str, notes: Mapping[str, str], others: Mapping[str, tuple[Any, str]]
) -> list[str]:
    """Return one line per key that has a value, then, as comments, those that could have one."""
    given = {key: item for key, item in table.items() if item is not None}
    lines = [(f"{key} = {value(item)}", notes.get(prefix + key)) for key, item in given.items()]
    for dotted, (item, note) in others.items():
        key = dotted.removeprefix(prefix)
        if dotted.startswith(prefix) and "." not in key and key not in given:
            lines.append((f"# {key} = {'...' if item is None else value(item)}", note))
    return [f"{text:<24} # {note}" if note else text for text, note in lines]


def value(item: Any) -> str:
    """Return one value as TOML; a float keeps every digit."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        # JSON strings are TOML strings but for DEL, which TOML wants escaped.
        return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(item, list | tuple):
        return "[" + ", ".join(value(entry) for entry in item) + "]"
    return repr(item)
