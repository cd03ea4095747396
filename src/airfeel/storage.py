"""Arrays in files: frozen dataclasses of arrays as ``.npz``, and arrays that live in a file by memory map.

A state comes back bit for bit and without pickle. Its file holds the arrays, named by where they are in the
state, and a header in JSON that says how they are put together. Whatever a file says is checked before it is
believed: it can name only frozen dataclasses of modules that are imported already and that belong to airfeel
or are trusted by the caller, and its arrays cannot be longer than the file.

Of an array that is larger than the memory it deserves, the system keeps in memory as much as there is room
for, and the rest on disk.
"""

import dataclasses
import errno
import io
import json
import mmap
import os
import secrets
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _files

NamedArrays = dict[str, NDArray[Any]]
Forms = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]  # shapes and types by name

FORMAT = 2
HEADER = "header"
_PLAIN = (type(None), bool, int, float, str)
_NO_STATE = "is no state of airfeel: its header is missing or damaged"


def save_state(path: str | os.PathLike[str], state: Any) -> None:
    """Write a state to ``path`` (``.npz``), whole or not at all.

    A state is what a receiver or a scheme carries from round to round: a frozen dataclass of arrays, numbers,
    strings, None, tuples, lists, dictionaries by name, and such dataclasses.

    >>> import airfeel as af, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.npz")
    >>> af.save_state(path, af.TSAGA(activity=0.1).init(100))
    >>> af.load_state(path).size
    100
    """
    if not _is_record(type(state)):
        raise ValueError(f"state = {state!r}: must be a frozen dataclass, such as a receiver's state")
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    _files.write_atomically(Path(path), to_bytes(state))


def load_state(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Read a state written by :func:`save_state`; whoever saved it goes on from it bit for bit.

    Parameters
    ----------
    path
        The file.
    trusted
        Modules, or packages, beside airfeel whose dataclasses the file may name. Nothing is imported because
        a file names it: import the module yourself.

    Raises
    ------
    ValueError
        Where the file is not a state, or names a class that is not trusted.
    OSError
        Where there is no such file, or something in its place that is none, such as a device.
    """
    content = _files.read_bytes(path)
    try:
        return from_bytes(content, trusted)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def to_bytes(value: Any) -> bytes:
    """Return ``value`` as the content of an ``.npz`` file."""
    buffer = io.BytesIO()
    np.savez(buffer, **pack(value))  # type: ignore[arg-type]
    return buffer.getvalue()


def from_bytes(content: bytes, trusted: Sequence[str] = ()) -> Any:
    """Undo :func:`to_bytes`; whatever else the content is, there is one ValueError."""
    try:
        arrays = _files.read_arrays(content)
    except _files.Unreadable as error:
        raise ValueError(f"is no state of airfeel: it {error.strerror}") from None
    return unpack(arrays, trusted)


def pack(value: Any) -> NamedArrays:
    """Return ``value`` as named arrays, which :func:`unpack` turns back bit for bit."""
    arrays: NamedArrays = {}
    try:
        header = {"format": FORMAT, "state": _describe("state", value, arrays)}
    except RecursionError:
        raise ValueError("state: must not be nested so deeply, or contain itself") from None
    return {HEADER: np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays}


def unpack(arrays: Mapping[str, NDArray[Any]], trusted: Sequence[str] = ()) -> Any:
    """Return the value that :func:`pack` took apart; see :func:`load_state`."""
    try:
        header = _files.parse_json(arrays[HEADER].tobytes())
    except (KeyError, ValueError):
        raise ValueError(_NO_STATE) from None
    match header:
        case {"format": version, "state": _} if version != FORMAT:
            raise ValueError(f"has format {version!r}: this version of airfeel reads {FORMAT}")
        case {"format": _, "state": node}:
            try:
                return _build(node, arrays, trusted)
            except RecursionError:
                pass
    raise ValueError(_NO_STATE)


def _describe(name: str, value: Any, arrays: NamedArrays) -> Any:
    """Describe ``value`` in JSON, moving every array into ``arrays``."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is np.ndarray or isinstance(value, np.generic):
        if value.dtype.hasobject or not value.dtype.itemsize:
            raise ValueError(f"{name} has dtype {value.dtype}: must hold numbers or text, no Python objects")
        arrays[name] = np.asarray(value)
        return {"array" if kind is np.ndarray else "scalar": name}
    if kind in (tuple, list):
        return {kind.__name__: [_describe(f"{name}.{i}", item, arrays) for i, item in enumerate(value)]}
    if kind is dict and all(type(key) is str for key in value):
        # By number: a key may be anything, the name of an array in a file may not.
        items = enumerate(value.items())
        return {"dict": {key: _describe(f"{name}.{i}", item, arrays) for i, (key, item) in items}}
    if _is_record(kind):
        _find(f"{kind.__module__}:{kind.__qualname__}", (kind.__module__,))
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        parts = {key: _describe(f"{name}.{key}", item, arrays) for key, item in fields.items()}
        return {"class": f"{kind.__module__}:{kind.__qualname__}", "fields": parts}
    rule = "must be an array, a number, text, None, a frozen dataclass, or a tuple, list or dict of these"
    raise ValueError(f"{name} is a {kind.__name__}: {rule}")


def _build(node: Any, arrays: Mapping[str, NDArray[Any]], trusted: Sequence[str]) -> Any:
    """Rebuild what :func:`_describe` described."""
    match node:
        case None | bool() | int() | float() | str():
            return node
        case {"array": str(name), **rest} | {"scalar": str(name), **rest} if not rest:
            if name not in arrays:
                raise ValueError(f"has no array {name!r}: the state is not complete")
            return arrays[name] if "array" in node else arrays[name][()]
        case {"tuple": list(items), **rest} if not rest:
            return tuple(_build(item, arrays, trusted) for item in items)
        case {"list": list(items), **rest} if not rest:
            return [_build(item, arrays, trusted) for item in items]
        case {"dict": dict(items), **rest} if not rest:
            return {key: _build(item, arrays, trusted) for key, item in items.items()}
        case {"class": str(name), "fields": dict(parts), **rest} if not rest:
            values = {key: _build(part, arrays, trusted) for key, part in parts.items()}
            return _make(_find(name, trusted), values)
    raise ValueError(_NO_STATE)


def _find(name: str, trusted: Sequence[str]) -> type:
    """Return the frozen dataclass ``module:Name`` if its module is imported already and trusted."""
    module, _, qualname = name.partition(":")
    if not any(module == known or module.startswith(f"{known}.") for known in ("airfeel", *trusted)):
        raise ValueError(f"names the class {name}, which is not trusted: say trusted=[{module!r}] if it is")
    # Not getattr: a module may import others when it is asked for a name.
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    own = isinstance(found, type) and (found.__module__, found.__qualname__) == (module, qualname)
    if not (own and _is_record(found)):
        raise ValueError(f"names the class {name}: must be a frozen dataclass of a module imported already")
    return found  # type: ignore[no-any-return]


def _is_record(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def _make(kind: Any, values: dict[str, Any]) -> Any:
    """Make a dataclass of its fields, all of which must be there."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if fields.keys() != values.keys():
        wrong = ", ".join(sorted(fields.keys() ^ values.keys()))
        raise ValueError(f"does not have the fields of {kind.__name__} ({wrong}): another version wrote it")
    try:
        made = kind(**{name: value for name, value in values.items() if fields[name].init})
    except Exception as error:  # raised by the class, which may check its values as it likes
        raise ValueError(f"{kind.__name__} refuses what the file holds ({error})") from None
    for name, value in values.items():
        if not fields[name].init:
            object.__setattr__(made, name, value)
    return made


# --- arrays that live in files ------------------------------------------------------------------------------


def create_map(path: Path, forms: Forms, mode: int = 0o666) -> NamedArrays:
    """Return arrays of zeros that are the content of a new file; what is written to one is in the other.

    The disk space is taken at once: a full disk is an error here, and later it would end the process.
    """
    length = _length(forms)
    try:
        with _files.created(path, os.O_RDWR, mode) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, length)
            else:
                os.ftruncate(file.fileno(), length)
            content = mmap.mmap(file.fileno(), length)
    except OSError as error:
        path.unlink(missing_ok=True)
        rule = f"has no room for {length / 1e9:.3g} GB ({error.strerror or error})"
        raise _files.refuse(path, rule, _files.Unwritable) from error
    return _parts(content, forms)


def temporary_map(forms: Forms) -> NamedArrays:
    """Return arrays in a file that has no name any more, in the system's folder for temporary files.

    It ends with the arrays, or with the process, however that ends. ``TMPDIR`` chooses the folder.
    """
    path = Path(tempfile.gettempdir()) / f"airfeel-{secrets.token_hex(8)}.tmp"
    arrays = create_map(path, forms, mode=0o600)
    path.unlink()
    return arrays


def checked_map(path: Path, forms: Forms, crc32: int) -> NamedArrays:
    """Return the content of a file as arrays that cannot be written to, if it is what it was."""
    length = _length(forms)
    with _files.opened(path) as file:
        there = os.fstat(file.fileno()).st_size
        if there != length:
            raise _files.refuse(path, f"is damaged: it has {there} bytes and should have {length}")
        content = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ)
    if zlib.crc32(content) != crc32:
        raise _files.refuse(path, "is damaged: its checksum does not match")
    return _parts(content, forms)


def settle_map(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Make what was written to such arrays durable, and return the checksum of their file."""
    owner: Any = next(iter(arrays.values()))
    while not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    owner.flush()
    return zlib.crc32(owner)


def _length(forms: Forms) -> int:
    return sum(_padded(prod(shape) * dtype.itemsize) for shape, dtype in forms.values())


def _padded(length: int) -> int:
    """Return a length at which an array of any type may begin."""
    return -(-length // 16) * 16 if length else 16


def _parts(content: mmap.mmap, forms: Forms) -> NamedArrays:
    """Return the arrays that stand one after another in a file."""
    found, start = {}, 0
    for name, (shape, dtype) in forms.items():
        found[name] = np.frombuffer(content, dtype, prod(shape), start).reshape(shape)
        start += _padded(prod(shape) * dtype.itemsize)
    return found
