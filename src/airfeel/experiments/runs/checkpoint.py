"""One file that holds the whole state of a run, checked before anything in it is believed.

The file is an ``.npz`` archive (no pickle) followed by the SHA-256 of its bytes, so a single flipped bit is
noticed. The structure around the arrays is JSON; the only classes it can name are airfeel's own dataclasses.
"""

import dataclasses
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from airfeel.experiments.runs import files

_DIGEST_BYTES = 32


class Damaged(Exception):
    """A checkpoint that is not what was written."""


def save(path: Path, state: Any, facts: dict[str, Any]) -> None:
    """Write ``state`` (nested dataclasses, tuples, arrays and scalars) and ``facts`` (JSON) atomically.

    The checkpoint before this one stays beside it as ``<name>.previous``.
    """
    arrays: dict[str, np.ndarray] = {}
    header = json.dumps({"facts": facts, "state": _pack(state, arrays)}).encode()
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(header, dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    content = buffer.getvalue()
    fresh = path.with_name(path.name + ".new")
    files.write_atomically(fresh, content + hashlib.sha256(content).digest())
    if path.exists():
        path.replace(previous(path))
    fresh.replace(path)
    files.sync_folder(path.parent)


def load(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return state and facts; raise :class:`Damaged` if any byte is not the one written."""
    data = files.read_bytes(path)
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise Damaged(f"{path} is damaged: its checksum does not match")
    try:
        archive = files.read_arrays(content, name=str(path))
    except files.Unreadable as error:
        raise Damaged(str(error)) from None
    header = json.loads(archive["header"].tobytes())
    return _unpack(header["state"], archive), header["facts"]


def previous(path: Path) -> Path:
    """Return where the checkpoint before the newest one is kept."""
    return path.with_name(path.name + ".previous")


def _pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Describe ``value`` in JSON, moving every array into ``arrays``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"scalar" if isinstance(value, np.generic) else "array": name}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_pack(item, arrays) for item in value]}
    if dataclasses.is_dataclass(value):
        kind = type(value)
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        packed = {name: _pack(item, arrays) for name, item in fields.items()}
        return {"class": f"{kind.__module__}:{kind.__qualname__}", "fields": packed}
    raise TypeError(f"a run's state cannot hold a {type(value).__name__}")


def _unpack(node: Any, arrays: Any) -> Any:
    """Rebuild what :func:`_pack` described."""
    match node:
        case {"array": name}:
            return arrays[name]
        case {"scalar": name}:
            return arrays[name][()]
        case {"tuple": items}:
            return tuple(_unpack(item, arrays) for item in items)
        case {"list": items}:
            return [_unpack(item, arrays) for item in items]
        case {"class": name, "fields": fields}:
            return _own_dataclass(name)(**{key: _unpack(item, arrays) for key, item in fields.items()})
        case _:
            return node


def _own_dataclass(name: str) -> Any:
    """Find one of airfeel's dataclasses among the modules already imported."""
    module, _, qualname = name.partition(":")
    found = getattr(sys.modules.get(module), qualname, None) if module.startswith("airfeel.") else None
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise Damaged(f"a checkpoint names {name!r}, which is not part of airfeel's state")
    return found
