"""A model's arrays as one vector, and what a training carries at the server: a checkpoint is exactly this."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfeel import storage
from airfeel.learning.optimizers import ServerState
from airfeel.radio.power import Ledger
from airfeel.schemes import basis
from airfeel.uplink.scheme import Shapes, size_of

if TYPE_CHECKING:
    from airfeel.flower.replies import Reply

Array = NDArray[np.floating[Any]]
Arrays = Mapping[str, NDArray[Any]]
Vector = NDArray[np.float32]

FINEST = 2.0**-38  # of a power of 256 above the largest coefficient: so fine are coefficients counted


@dataclass(frozen=True, slots=True)
class ModelArray:
    """One array of a model: its name, shape and type; ``exact`` if it travels whole."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    exact: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays of a model in their order.

    >>> layout = Layout.of({"w": np.zeros((2, 3)), "steps": np.array(7)}, exact=["*running_*"])
    >>> layout.size, [tensor.name for tensor in layout.tensors if tensor.exact]
    (6, ['steps'])
    """

    tensors: tuple[ModelArray, ...]

    @classmethod
    def of(cls, arrays: Arrays, exact: Sequence[str]) -> "Layout":
        """Return the layout of a model; arrays that are not floating, or match a pattern, stay exact."""

        def stays(name: str, array: NDArray[Any]) -> bool:
            return array.dtype.kind != "f" or any(fnmatchcase(name, pattern) for pattern in exact)

        return cls(tuple(ModelArray(k, a.shape, str(a.dtype), stays(k, a)) for k, a in arrays.items()))

    @property
    def size(self) -> int:
        """N, the length of the flat vector."""
        return size_of(self.shapes)

    @property
    def shapes(self) -> Shapes:
        """What a scheme is told: the tensors of the flat vector, a single number as one of length 1."""
        return {tensor.name: tensor.shape or (1,) for tensor in self.tensors if not tensor.exact}

    @property
    def nbytes(self) -> int:
        """The bytes of the flat vector in the types of the model."""
        return sum(prod(t.shape) * np.dtype(t.dtype).itemsize for t in self.tensors if not t.exact)

    def typed(self, types: str) -> "Layout":
        """Return the layout with other types of the arrays that are not exact, one per line; "" for these."""
        if not types:
            return self
        left = types.split("\n")
        tensors = tuple(t if t.exact else replace(t, dtype=left.pop(0)) for t in self.tensors)
        if left or any(np.dtype(t.dtype).kind != "f" for t in tensors if not t.exact):
            raise ValueError(f"{types[:40]!r} are no types of this model")
        return Layout(tensors)

    def require(self, arrays: Arrays) -> None:
        """Refuse arrays that are not those of the model, by name or by shape."""
        known = [tensor.name for tensor in self.tensors]
        wrong = [(name, "is missing") for name in known if name not in arrays]
        wrong += [(name, "is not in the model") for name in arrays if name not in known]
        for name, what in wrong[:1]:
            raise ValueError(f"array {name!r} {what}: a reply must hold the arrays of the model")
        for tensor in self.tensors:
            if (shape := arrays[tensor.name].shape) != tensor.shape:
                raise ValueError(f"array {tensor.name!r} has shape {shape}: must be {tensor.shape}")

    def flat(self, arrays: Arrays, dtype: Any = np.float64) -> NDArray[Any]:
        """Return the vector of all arrays that are not exact, in double precision unless told otherwise."""
        parts = [arrays[t.name].reshape(-1) for t in self.tensors if not t.exact]
        return np.concatenate([np.zeros(0, dtype), *parts], dtype=dtype, casting="same_kind")

    def difference(self, first: Arrays, second: Arrays) -> NDArray[np.float32]:
        """Return the vector of one model less another one, rounded once to single precision."""
        found, start = np.empty(self.size, np.float32), 0
        for tensor in (tensor for tensor in self.tensors if not tensor.exact):
            part = found[start : start + prod(tensor.shape)].reshape(tensor.shape)
            one, other = first[tensor.name], second[tensor.name]
            wide = np.result_type(one, other, np.float32)
            np.subtract(one, other, out=part, dtype=wide, casting="same_kind")
            start += part.size
        return found

    def exact(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Return the arrays that travel whole."""
        return {tensor.name: arrays[tensor.name] for tensor in self.tensors if tensor.exact}

    def arrays(self, theta: Array, exact: Arrays, *, cast: bool = True) -> dict[str, NDArray[Any]]:
        """Undo :meth:`flat` and :meth:`exact`: every array in its place and shape, and cast to its type."""
        found, start = {}, 0
        for tensor in self.tensors:
            if tensor.exact:
                part = exact[tensor.name]
                if cast and np.dtype(tensor.dtype).kind in "iub" and part.dtype.kind == "f":
                    part = np.rint(part)  # a mean of whole numbers
            else:
                end = start + prod(tensor.shape)
                part, start = theta[start:end].reshape(tensor.shape), end
            found[tensor.name] = part.astype(tensor.dtype) if cast else part
        return found


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a model is a vector in single precision: in its parameters, or in a ``basis``, a text."""

    layout: Layout
    basis: str = ""

    def __post_init__(self) -> None:
        """Refuse a basis that is not one of this model: the other side may name any."""
        sizes = [tensor.size for tensor in basis.read(self.basis)]
        if self.basis and sizes != [t.size for t in basis.choose(self.layout.shapes, "identity")]:
            raise ValueError(f"the basis {self.basis[:40]!r} is not one of this model")

    def vector(self, theta: Array) -> Vector:
        """Return the vector of parameters."""
        if not self.basis:
            return self.settled(theta)
        found = basis.forward(basis.read(self.basis), np.asarray(theta, np.float64)[None])[0]
        above = -(-int(np.frexp(np.abs(found).max(initial=1e-30))[1]) // 8) * 8
        step = FINEST * 2.0**above  # above the noise of double precision: what did not change stays the same
        return np.asarray(step * np.rint(found / step) + 0.0, np.float32)  # no zeros below zero

    def settled(self, vector: Array) -> Vector:
        """Return what is left of a vector in the types of the arrays by which it is told."""
        if all(t.dtype == "float32" for t in self.single.tensors if not t.exact):
            return np.asarray(vector, np.float32)
        nothing = {t.name: np.zeros(()) for t in self.layout.tensors if t.exact}
        return self.layout.flat(self.told(vector, nothing), np.float32)

    def arrays(self, vector: Array, exact: Arrays) -> dict[str, NDArray[Any]]:
        """Return the model that a vector stands for."""
        if not self.basis:
            return self.layout.arrays(vector, exact)
        row = vector.astype(np.float64)[None]
        return self.layout.arrays(basis.backward(basis.read(self.basis), row)[0], exact)

    def told(self, vector: Array, exact: Arrays) -> dict[str, NDArray[Any]]:
        """Return the arrays by which a model is told and kept, in single precision where there is a basis."""
        return self.single.arrays(vector, exact)

    @property
    def single(self) -> Layout:
        """The layout of these arrays."""
        if not self.basis:
            return self.layout
        kept = (t if t.exact else replace(t, dtype="float32") for t in self.layout.tensors)
        return Layout(tuple(kept))

    def number(self, vector: Vector) -> int:
        """Return a number of 56 bits for a model, never 0: another model has another one."""
        found = hashlib.blake2b(repr((self.layout.tensors, self.basis)).encode(), digest_size=7)
        found.update(vector.astype("<f4", copy=False).data)
        return int.from_bytes(found.digest(), "big") or 1


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its row as a device, its client's number, its last weight, the last round it was heard in."""

    device: int
    client: int
    weight: float = 0.0
    heard: int = 0
    absent: int = 0  # rounds in a row in which it was asked in vain


Nodes = Mapping[int, Node]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All of it: ``round`` is the last one completed, ``identity`` names scheme and settings in one line.

    ``theta`` holds the parameters in double precision, whatever the model's own types: updates that are too
    small for these are not lost.
    """

    training: str
    identity: str
    round: int
    layout: Layout
    theta: Array
    exact: dict[str, NDArray[Any]]
    scheme: Any
    server: ServerState
    ledger: Ledger
    nodes: dict[int, Node]
    lengths: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # medians of the last rounds

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, whole or not at all, without pickle."""
        named: Any = {str(node): facts for node, facts in self.nodes.items()}  # in a file, keys are texts
        storage.save_state(path, replace(self, nodes=named))

    @classmethod
    def load(cls, path: str | os.PathLike[str], identity: str, trusted: Sequence[str]) -> "State":
        """Read the state of a training with the same scheme and settings."""
        state = storage.load_state(path, trusted=trusted)
        if not isinstance(state, cls):
            raise ValueError(f"{os.fspath(path)}: is no checkpoint of AirAvg")
        if state.identity != identity:
            raise ValueError(
                f"{os.fspath(path)}: is of another training ({state.identity}); this one is {identity}: "
                "name another file, or remove this one to begin anew"
            )
        return replace(state, nodes={int(k): node for k, node in state.nodes.items()})


def welcome(nodes: Nodes, replies: "Iterable[Reply]") -> dict[int, Node]:
    """Return the nodes after some replies: newcomers have the next numbers, all have their new weights.

    Node ids are drawn by chance, so newcomers stand in the order of the numbers they have by themselves, and
    equal trainings have equal sums. A client that was restarted may come back as another node: it keeps its
    number, and with it the account of its energy.
    """
    known, here = dict(nodes), list(replies)
    gone = {node.client: key for key, node in nodes.items() if key not in {reply.node for reply in here}}
    for reply in sorted(here, key=lambda reply: (reply.device < 0, reply.device, reply.node)):
        if reply.node in known:
            old = known[reply.node]
        elif reply.client in gone:
            old = known.pop(gone.pop(reply.client))
        else:
            old = Node(len(known), reply.client)
        known[reply.node] = replace(old, weight=reply.weight, client=reply.client, absent=0)
    return known


def in_order(nodes: Nodes, ids: Iterable[int]) -> tuple[int, ...]:
    """Return nodes in the order of their numbers as devices, unknown ones by their ids after them.

    Flower asks them in an order of chance, on which nothing shall depend.
    """
    return tuple(sorted(ids, key=lambda node: (nodes[node].device if node in nodes else len(nodes), node)))


def after(
    nodes: Nodes, round: int, heard: Iterable[int], asked: Iterable[int], there: "Iterable[Reply]"
) -> dict[int, Node]:
    """Return the nodes after a round in which some were ``asked``, ``there`` replied, and some were heard."""
    gone = {*asked} - {reply.node for reply in there}
    found = {key: replace(n, absent=n.absent + 1) if key in gone else n for key, n in nodes.items()}
    return found | {node: replace(found[node], heard=round) for node in heard}
