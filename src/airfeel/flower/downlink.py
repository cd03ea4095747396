"""The model on its way to the clients: whole, or what it differs in, in few bits, from one that a client has.

Each client is brought nearer to the model from what it has: w += Q(theta - w). What a message leaves over is
in the next difference, so nothing is lost for good. Both sides compute w alike and compare its number.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from airfeel.flower import wire
from airfeel.flower.report import Traffic
from airfeel.flower.state import Arrays, Layout
from airfeel.streams import bits
from airfeel.uplink.packing import Rounding, value_bits

Vector = NDArray[np.float32]

DIFFERENCE = "difference"  # array of the rounded difference
EXACT = "exact."  # begins the names of arrays that travel whole beside it
NUMBERS = 2**26  # in all models of clients that a server keeps, a quarter of a gigabyte


@dataclass(slots=True, eq=False)
class Downlink:
    """The server's side: which node has which model, by numbers, and what is sent to whom.

    Clients with equal models get equal messages, so there are as many models as ways through the rounds, at
    most one for each node. Of too many the oldest are forgotten, and their nodes get the whole model.
    """

    bits: int
    seed: int
    arrays: str
    exact: Sequence[str]
    models: dict[int, Vector] = field(default_factory=dict)
    _has: dict[int, int] = field(default_factory=dict)  # by node: the number of the model that it has
    _told: dict[int, int] = field(default_factory=dict)  # and of the one that it has if it answers
    _made: dict[int, int] = field(default_factory=dict)  # by model: which global model it stands for
    _mods: set[int] = field(default_factory=set)  # nodes whose evaluation has the mod
    _asked: dict[int, RecordDict] = field(default_factory=dict)
    _kind: str = ""
    _grid: Any = None
    _current: tuple[ArrayRecord, Layout, Arrays, int] | None = None
    _version: int = 0

    def address(self, messages: Sequence[Message], arrays: ArrayRecord, round: int, grid: Grid) -> None:
        """Put into each message the smaller one: the whole model, or a difference to what its node has."""
        layout, model, whole = self._open(arrays)
        self._grid, self._told, self._asked, made = grid, {}, {}, dict[int, RecordDict]()
        for message in messages:
            node, self._kind = int(message.metadata.dst_node_id), message.metadata.message_type
            told = {"base": 0, "gives": whole, "bits": self.bits, "seed": 0, "arrays": self.arrays}
            told["exact"] = "\n".join(self.exact)
            content = RecordDict({**message.content, wire.BASE: ConfigRecord(told)})
            self._asked[node], self._told[node] = content, whole
            base = self._has.get(node, 0)
            if base in self.models and (self._kind == MessageType.TRAIN or node in self._mods):
                if base not in made:
                    made[base] = self._difference(base, layout, model, told, round)
                if made[base]:
                    content = RecordDict({k: r for k, r in content.items() if k != self.arrays} | made[base])
                    self._told[node] = int(content[wire.BASE]["gives"])
            message.content = content

    def complete(
        self, replies: Iterable[Message], traffic: Traffic, timeout: float
    ) -> tuple[list[Message], Traffic]:
        """Return the replies, after those who had lost their model were asked again with the whole one."""
        first = list(replies)
        traffic, lost = traffic.received(first), {_node(one) for one in first if _lost(one)} & {*self._asked}
        second = [Message(self._asked[node], node, self._kind) for node in sorted(lost)]
        found = [one for one in first if _node(one) not in lost]
        if second:
            for node in lost:
                self._told[node] = int(self._asked[node][wire.BASE]["gives"])
            traffic = traffic.sent(second)  # before it is sent: clients in this process change the messages
            answers = list(self._grid.send_and_receive(second, timeout=timeout))
            traffic, found = traffic.received(answers), [*found, *answers]
        for one in found:
            self._note(one)
        self._forget()
        return found, traffic

    def _open(self, arrays: ArrayRecord) -> tuple[Layout, Arrays, int]:
        """Return layout, arrays and number of the global model, which is known from now on."""
        if self._current is None or self._current[0] is not arrays:
            given = wire.from_record(arrays)
            layout = Layout.of(given, self.exact)
            self._version += 1
            self._current = arrays, layout, given, number(layout, flat(layout, given))
        _, layout, model, whole = self._current
        self._keep(whole, flat(layout, model))
        return layout, model, whole

    def _difference(self, base: int, layout: Layout, model: Arrays, told: dict[str, Any], round: int) -> Any:
        """Return the records that make the model out of a base; none where the whole model is smaller."""
        exact = {EXACT + name: array for name, array in layout.exact(model).items()}
        told = {**told, "base": base, "gives": base}
        if self._made[base] != self._version:
            seed = int(bits(self.seed, "model", round).random_raw() >> 1)
            rounding, had = Rounding(self.bits, seed, 0), self.models[base]
            message = rounding.write(flat(layout, model) - had)
            if message.nbytes >= layout.nbytes:
                return {}
            made = flat(layout, layout.arrays(had + rounding.read(message, layout.size), layout.exact(model)))
            told |= {"gives": number(layout, made), "seed": seed}
            self._keep(told["gives"], made)
            exact = {DIFFERENCE: message, **exact}
        found: dict[str, Any] = {wire.BASE: ConfigRecord(told)}
        return found | ({wire.MODEL: wire.to_record(exact)} if exact else {})

    def _keep(self, name: int, vector: Vector) -> None:
        self.models[name], self._made[name] = vector, self._version

    def _note(self, message: Message) -> None:
        """Believe that a node has what it was told, if it says so, and take that out of its reply."""
        if not message.has_content():
            return
        node, facts = _node(message), message.content.metric_records.get(wire.ROUND, {})
        if node in self._told and facts.get("holds") == self._told[node]:
            self._has[node] = self._told[node]
            if self._kind == MessageType.EVALUATE:
                self._mods.add(node)
        if self._kind == MessageType.EVALUATE:
            message.content = wire.without_ours(message.content)  # Flower expects the app's metrics alone

    def _forget(self) -> None:
        """Drop the models that nobody has, and the oldest of too many."""
        used = {*self._has.values(), *self._told.values()}
        kept = sorted((name for name in self.models if name in used), key=lambda name: self._made[name])
        size = max((len(vector) for vector in self.models.values()), default=1)
        kept = kept[-max(2, NUMBERS // max(1, size)) :]
        self.models = {name: self.models[name] for name in kept}
        self._made = {name: self._made[name] for name in kept}


def receive(message: Message, context: Context) -> tuple[RecordDict, int] | None:
    """Return a request with the whole model in it, and its number; None if the model it builds on is gone.

    The other side may send anything: a difference is read as one of the model that is here, or refused.
    """
    content = message.content
    told: Any = content[wire.BASE]
    patterns = str(told["exact"]).split("\n")
    if not told["base"]:
        whole = wire.from_record(content[told["arrays"]])
        layout = Layout.of(whole, patterns)
        return content, number(layout, flat(layout, whole))
    if wire.MODEL not in context.state:
        return None
    had = wire.from_record(context.state[wire.MODEL])
    layout = Layout.of(had, patterns)
    vector = flat(layout, had)
    if number(layout, vector) != told["base"]:
        return None
    sent = wire.from_record(content[wire.MODEL]) if wire.MODEL in content else {}
    if DIFFERENCE in sent:
        rounding = Rounding(value_bits("bits", told["bits"]), told["seed"], 0)
        vector = vector + rounding.read(sent.pop(DIFFERENCE), layout.size)
    exact = {name.removeprefix(EXACT): array for name, array in sent.items()}
    if exact.keys() != layout.exact(had).keys():
        raise ValueError(f"beside the difference are the arrays {sorted(exact)}: must be the exact ones")
    arrays = layout.arrays(vector, exact)
    layout.require(arrays)
    if (found := number(layout, flat(layout, arrays))) != told["gives"]:
        return None
    records = {told["arrays"]: wire.to_record(arrays), **content}
    return RecordDict(records), found


def flat(layout: Layout, arrays: Arrays) -> Vector:
    """Return the arrays that are not exact as one vector in single precision."""
    parts = (arrays[t.name].reshape(-1).astype(np.float32) for t in layout.tensors if not t.exact)
    return np.concatenate([np.zeros(0, np.float32), *parts])


def number(layout: Layout, vector: Vector) -> int:
    """Return a number of 56 bits for a model, never 0: another model has another one."""
    found = hashlib.blake2b(repr(layout.tensors).encode(), digest_size=7)
    found.update(vector.astype("<f4", copy=False).data)
    return int.from_bytes(found.digest(), "big") or 1


def _node(message: Message) -> int:
    return int(message.metadata.src_node_id)


def _lost(message: Message) -> bool:
    """Tell whether a reply says nothing but that the model it should build on is not there."""
    return message.has_content() and wire.BASE in message.content
