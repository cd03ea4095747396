"""What travels in Flower's messages: a scheme by name, the announcement of a round, its plan, and signals.

The announcement is the same for all clients of a round; beside it may stand a record for each node, which
says which of its signals was heard last, or which place it has among those asked.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from airfeel import _checks, _files
from airfeel.flower.state import Arrays, Layout, Nodes
from airfeel.registry import SCHEMES, Part, has_fields
from airfeel.uplink import rice
from airfeel.uplink.packing import Rounding, value_bits
from airfeel.uplink.scheme import Plan, Scheme, placed

ROUND = "airfeel"  # what is announced; in a reply, facts and signal
PLAN = "airfeel-plan"  # arrays and texts of the plan
NODE = "airfeel-node"  # what only one node is told
SIGNAL = "."  # begins the names of a signal's arrays in a reply
NUMBERS = 2**26  # in a code, where nobody says how many there may be
HEADER = 128  # bytes before the numbers of an array in a record of arrays
DESCRIPTION = 16  # about so many before those of a signal's array
TRUTH = "airfeel-truth"  # what a signal stands for, for an audit
BASE = "airfeel-base"  # which model a request builds on; in a reply, that it is not there
MODEL = "airfeel-model"  # how the model differs from it; in the state of a client, the model it has
CLIENTS_COME_AND_GO = {"scheduled": {"memory": "none"}}  # options of schemes that are others here
OURS = (ROUND, PLAN, NODE, TRUTH, BASE, MODEL)


@dataclass(frozen=True, slots=True)
class Announcement:
    """What all clients of a round are told beside model and plan.

    ``training`` stays the same when a training is resumed, ``session`` does not. ``step`` is ``"send"``; in
    an exchange of two messages it is ``"announce"`` in the first and ``"transmit"`` in the second, which
    tells ``alpha``. ``arrays`` is the name of the record that holds the model, ``exact`` the patterns of
    names that travel whole, one per line. Values travel in ``bits``, rounded by the seed ``rounding``.
    """

    training: str
    session: str
    round: int
    scheme: str
    options: str
    arrays: str
    exact: str
    step: str = "send"
    audit: bool = False
    alpha: float = 0.0
    bits: int = 32
    rounding: int = 0

    def record(self) -> ConfigRecord:
        """Return the announcement as Flower's record."""
        return words(**asdict(self))

    @classmethod
    def read(cls, content: RecordDict) -> "Announcement":
        """Undo :meth:`record`; refuse a record of another version."""
        given: dict[str, Any] = {"exact": "", **content[ROUND]}
        if given.keys() != {field.name for field in fields(cls)}:
            raise ValueError(f"the record {ROUND!r} is of another version of airfeel than the one here")
        value_bits("bits", given["bits"])
        return cls(**given)

    def rounds(self, device: int, client: int) -> Rounding | None:
        """Return how a client rounds its values: by the number of its node, else by its own."""
        key = device if device >= 0 else client
        return Rounding(self.bits, self.rounding, key) if self.bits < 32 else None


def words(**given: Any) -> ConfigRecord:
    """Return a record of what is not empty: mods that weigh messages end in an error at empty texts."""
    return ConfigRecord({name: value for name, value in given.items() if value != ""})


def build(scheme: str | Scheme[Any], options: Mapping[str, Any]) -> Scheme[Any]:
    """Return a scheme given as an object, or by name (package.module:Name of one's own) and options."""
    if not isinstance(scheme, str):
        if options:
            rule = "must not be given beside a scheme that is an object"
            raise _checks.reject("options", dict(options), rule)
        given: Scheme[Any] = SCHEMES.given(scheme)
        return given
    part, options = SCHEMES.get(scheme), {**CLIENTS_COME_AND_GO.get(scheme, {}), **options}
    known = {option.name: option.annotation for option in part.options}
    for key, value in options.items():
        rule = f"{scheme} has the options {', '.join(known) or 'none'}{_checks.suggestion(key, known)}"
        if key not in known:
            raise _checks.reject(f"options[{key!r}]", value, rule)
        if known[key] is bool and not isinstance(value, bool):
            raise _checks.reject(f"options[{key!r}]", value, "must be True or False")
    return build(part.build({**part.complete({**part.defaults(), **options}), **options}), {})


def describe(scheme: Scheme[Any]) -> tuple[str, str]:
    """Return the name of a scheme, and its options in JSON: what a client needs to build it."""
    if scheme.leads:
        rule = "needs a message of one client before the others send, and a round here has none"
        raise _checks.reject("scheme", type(scheme).__name__, rule)
    part = Part(SCHEMES.name_of(type(scheme)), type(scheme))
    if part.options and not has_fields(type(scheme)):
        raise _checks.reject("scheme", scheme, "must be a dataclass, whose fields a message can name")
    options = {option.field: getattr(scheme, option.field) for option in part.options}
    for key, value in options.items():
        if not isinstance(value, str | bool | int | float | None):
            rule = "must be a number, a text, true, false or None, to be told to the clients"
            raise _checks.reject(f"{type(scheme).__qualname__}.{key}", value, rule)
    return part.name, json.dumps(options, sort_keys=True)


def find(name: str, options: str, own: Sequence[type]) -> Scheme[Any]:
    """Return the scheme that a message names, from those which this process has registered itself.

    Nothing is imported because a message names it: the scheme is built in, or the client's own code has
    registered it or handed its class to the mod.
    """
    given = {SCHEMES.name_of(kind): kind for kind in own}
    target = given[name] if name in given else SCHEMES.registered(name).target
    scheme: Scheme[Any] = SCHEMES.given(target(**_files.parse_json(options)))
    return scheme


def plan_records(plan: Plan) -> dict[str, ArrayRecord]:
    """Return a plan as records: one array record, whose last array holds numbers and texts in JSON.

    Whole numbers travel in a code where that is shorter: places that rise by the gaps between them.
    """
    arrays = {name: value for name, value in plan.items() if isinstance(value, np.ndarray)}
    rest = {name: _plain(value) for name, value in plan.items() if name not in arrays}
    coded = {name: found for name, value in arrays.items() if (found := _coded(value)) is not None}
    kinds = {name: (arrays[name].dtype.str, rises) for name, (rises, _) in coded.items()}
    words = np.frombuffer(json.dumps({"plan": rest, "coded": kinds}).encode(), dtype=np.uint8)
    sent = {**arrays, **{name: found for name, (_, found) in coded.items()}}
    return {PLAN: to_record({**{f"plan.{name}": value for name, value in sent.items()}, "words": words})}


def _coded(array: NDArray[Any]) -> tuple[bool, NDArray[np.uint8]] | None:
    """Return whether numbers are places that rise, and their code; None where it is not shorter."""
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        return None
    if not 0 <= array.min() <= array.max() < 2**rice.WIDEST:
        return None
    steps = rice.gaps(array)
    rises = bool((steps >= 0).all())
    found = rice.write(steps if rises else array)
    return (rises, found) if found.nbytes < array.nbytes else None


def read_plan(content: RecordDict, most: int = NUMBERS) -> dict[str, Any]:
    """Undo :func:`plan_records`; refuse a plan in which more numbers than ``most`` are coded."""
    arrays = from_record(content[PLAN])
    words = _files.parse_json(arrays.pop("words").tobytes())
    found = {name.removeprefix("plan."): value for name, value in arrays.items()}
    for name, (kind, rises) in words["coded"].items():
        if np.dtype(kind).kind not in "iu":
            raise ValueError(f"the plan has numbers of type {str(kind)[:40]!r} in a code: must be whole ones")
        numbers = rice.read(found[name], most)
        found[name] = (rice.places_of(numbers) if rises else numbers).astype(kind)
    return {**words["plan"], **found}


def node_record(
    scheme: Scheme[Any], asked: Sequence[int], node: int, nodes: Nodes
) -> dict[str, ConfigRecord]:
    """Return what only one node is told, as far as its scheme wants it: its place, when it was heard last.

    A node that is not known may be a client that was restarted: it is told of all clients, and finds itself.
    """
    told: dict[str, Any] = {"place": asked.index(node), "asked": len(asked)} if scheme.splits else {}
    if node in nodes and not scheme.stateless:
        told["heard"] = nodes[node].heard
    elif nodes and not scheme.stateless:  # Flower cannot weigh empty lists
        known = list(nodes.values())
        told |= {"clients": [one.client for one in known], "rounds": [one.heard for one in known]}
    return {NODE: ConfigRecord(told)} if told else {}


def plan_here(scheme: Scheme[Any], plan: Plan, content: RecordDict) -> Plan:
    """Return the plan as this client sees it, at the place that it was told."""
    if not scheme.splits:
        return plan
    record: Any = content[NODE]
    return placed(scheme, plan, [record["place"]], record["asked"])


def last_heard(content: RecordDict, client: int) -> int:
    """Return the last round in which a client was heard, 0 for never: undo :func:`node_record`."""
    record: Any = content.get(NODE, {})
    if "heard" in record:
        return int(record["heard"])
    return int(dict(zip(record.get("clients", []), record.get("rounds", []), strict=True)).get(client, 0))


def digest(announcement: Announcement, layout: Layout, plan: Plan) -> int:
    """Return a number of 56 bits for scheme, model and plan: a client that knew others has another one."""
    found = hashlib.blake2b(digest_size=7)
    found.update(repr((announcement.scheme, announcement.options, layout.tensors)).encode())
    for name in sorted(plan):
        value = plan[name]
        array = isinstance(value, np.ndarray)
        found.update(f"{name}:{(value.dtype, value.shape) if array else _plain(value)!r};".encode())
        if array:
            found.update(np.ascontiguousarray(value).tobytes())
    return int.from_bytes(found.digest(), "big")


def signal_words(arrays: Arrays) -> dict[str, bytes]:
    """Return the arrays of a signal as entries of a reply's record.

    An array of its own in a message has 600 bytes beside its numbers: names, types, and hashes of 64 letters.

    >>> signal_words({"blocks": np.zeros((1, 2), np.uint8)})
    {'.blocks': b'|u1 1 2\\n\\x00\\x00'}
    """
    return {f"{SIGNAL}{name}": _described(np.asarray(array)) for name, array in arrays.items()}


def signal_arrays(record: Any) -> dict[str, NDArray[Any]]:
    """Undo :func:`signal_words`, as views; refuse what it cannot have written."""
    words = {name: word for name, word in record.items() if name.startswith(SIGNAL)}
    return {name.removeprefix(SIGNAL): _undescribed(word) for name, word in words.items()}


def _described(array: NDArray[Any]) -> bytes:
    sides = "".join(f" {side}" for side in array.shape)
    return b"".join((f"{array.dtype.str}{sides}\n".encode(), np.ascontiguousarray(array).data))


def _undescribed(word: Any) -> NDArray[Any]:
    if not isinstance(word, bytes) or not (end := word.find(b"\n", 0, HEADER) + 1):
        raise ValueError("its signal has no description")
    kind, *sides = word[:end].decode("ascii").split()
    dtype, shape = np.dtype(kind), tuple(map(int, sides))
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ValueError(f"its signal is {str(dtype)[:40]} of shape {shape}: must be numbers")
    return np.frombuffer(word, dtype, prod(shape), end).reshape(shape)


def to_record(arrays: Arrays) -> ArrayRecord:
    """Return named NumPy arrays as Flower's record."""
    return ArrayRecord({name: Array.from_numpy_ndarray(np.asarray(a)) for name, a in arrays.items()})


def from_record(record: Any) -> dict[str, NDArray[Any]]:
    """Return Flower's record as named NumPy arrays, which cannot be written to."""
    if not isinstance(record, ArrayRecord):
        raise ValueError(f"a record of arrays is expected, not a {type(record).__name__}")
    return {name: _numbers(array) for name, array in record.items()}


def _numbers(array: Array) -> NDArray[Any]:
    """Return what ``array.numpy()`` does, as a view.

    Messages hold many small arrays with few different headers, and to read a header takes longer than most
    schemes: each is read once.
    """
    data = array.data
    start = 10 + int.from_bytes(data[8:10], "little")  # magic, version, length of the header, header
    if array.stype != "numpy.ndarray" or data[:8] != b"\x93NUMPY\x01\x00":
        return np.asarray(array.numpy())
    shape, fortran, dtype = _header(data[:start])
    return np.frombuffer(data, dtype, prod(shape), start).reshape(shape, order="F" if fortran else "C")


@lru_cache(maxsize=256)
def _header(start: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    stream = BytesIO(start)
    npy.read_magic(stream)
    return npy.read_array_header_1_0(stream)


def without_ours(content: RecordDict) -> RecordDict:
    """Return the records that are the app's own."""
    return RecordDict({name: record for name, record in content.items() if name not in OURS})


def payload(content: RecordDict) -> int:
    """Return the bytes of the arrays in a message, those of a signal too, without those of an audit."""
    records = (r for name, r in content.items() if name != TRUTH and isinstance(r, ArrayRecord))
    signal = (word for name, word in content.get(ROUND, {}).items() if name.startswith(SIGNAL))
    whole = sum(len(array.data) for record in records for array in record.values())
    return whole + sum(len(word) for word in signal if isinstance(word, bytes))


def beside(message: Message) -> int:
    """Return the bytes of a message beside :func:`payload`, without those of an audit.

    Flower names every part by a hash of all it holds: to weigh a message that way takes longer than a round.
    """
    light, more = copy(message), 0
    content = dict(message.content)
    content.pop(TRUTH, None)
    for name, record in message.content.array_records.items():
        forms = {key: (one.dtype, tuple(one.shape), one.stype, len(one.data)) for key, one in record.items()}
        empty = {key: Array(*form[:3], b"") for key, form in forms.items()}
        if name in content:
            content[name] = ArrayRecord(empty)
            more += sum(_array_bytes(*forms[key]) - message_bytes(empty[key]) for key in forms)
    light.content = RecordDict(content)
    return message_bytes(light) + more - payload(light.content)


@lru_cache(maxsize=1024)
def _array_bytes(dtype: str, shape: tuple[int, ...], stype: str, size: int) -> int:
    """Return the bytes of an array in a message beside its data."""
    data = np.arange(size // 4 + 1, dtype=np.uint32).tobytes()[:size]  # no two parts alike: they count once
    return message_bytes(Array(dtype, shape, stype, data)) - size


def message_bytes(item: Any) -> int:
    """Return the bytes of a message, or a part of it, as Flower puts them on the wire."""
    children = (item.children or {}).values()
    return len(item.deflate()) + sum(message_bytes(child) for child in children)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
