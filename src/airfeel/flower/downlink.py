"""The model on its way to the clients: whole, or what is to change in the one that a client has.

Two forms, of which each client gets the smaller one: the difference in few bits, w += Q(theta - w), where
what a message leaves over is in the next one; and the numbers that changed, where a scheme changes few. Both
sides compute w alike and compare its number. Who has no model any more gets it whole in the same round.
"""

from __future__ import annotations  # Flower need not be installed where the documentation is built

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.flower import wire
from airfeel.flower.report import Traffic
from airfeel.flower.state import Array, Arrays, Coordinates, Layout, Vector
from airfeel.streams import bits
from airfeel.uplink import rice
from airfeel.uplink.packing import Rounding, require, value_bits

EXACT = "exact."  # begins the names of arrays that travel whole beside a form
FORMS = {"rounded": ("difference",), "changed": ("places", "values")}  # the arrays of a message
NUMBERS = 2**26  # in all models of clients that a server keeps, a quarter of a gigabyte

Record = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Current:
    """The global model: its record, as apps without the mod get it, and as clients are told it."""

    record: ArrayRecord
    told: ArrayRecord
    where: Coordinates
    vector: Vector
    exact: Arrays
    number: int


@dataclass(slots=True, eq=False)
class Downlink:
    """The server's side: which node has which model, by numbers, and what is sent to whom.

    Clients with equal models get equal messages, so there are as many models as ways through the rounds, at
    most one for each node. Of too many the oldest are forgotten, and their nodes get the whole model.
    """

    bits: int
    changed: bool
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
    _now: Current | None = None
    _version: int = 0

    def model(self, layout: Layout, basis: str, theta: Array, exact: Arrays) -> ArrayRecord:
        """Return the record of a model, the global one from now on, as it is in everybody's coordinates.

        It follows from theta alone: a server that goes on from a checkpoint has the same one.
        """
        where = Coordinates(layout, basis if self.changed else "")
        vector = where.vector(theta)
        record = wire.to_record(where.arrays(vector, exact))
        told = wire.to_record(where.told(vector, exact)) if where.basis else record
        self._now = Current(record, told, where, vector, exact, where.number(vector))
        self._version += 1
        return record

    def address(self, messages: Sequence[Message], round: int, grid: Grid) -> None:
        """Put into each message the smaller one: the whole model, or a form of what its node lacks."""
        if self._now is None:  # nobody was asked to train so far
            return
        self._grid, self._told, self._asked, made = grid, {}, {}, dict[int, RecordDict]()
        self._keep(self._now.number, self._now.vector)
        for message in messages:
            node, self._kind = int(message.metadata.dst_node_id), message.metadata.message_type
            reads = self._kind == MessageType.TRAIN or node in self._mods
            content = RecordDict({**message.content, **self._whole(reads)})
            self._asked[node] = content
            base = self._has.get(node, 0)
            if base in self.models and reads:
                if base not in made:
                    made[base] = self._less(base, round)
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

    def _whole(self, reads: bool) -> dict[str, Any]:
        """Return the whole model as who has the mod ``reads`` it; who may have none gets what all apps read.

        In a basis that is no model to build on: 0 stands for its number.
        """
        now = self._now
        assert now is not None
        if reads or not now.where.basis:
            return {self.arrays: now.told, wire.BASE: self._words(now, gives=now.number)}
        return {self.arrays: now.record, wire.BASE: self._words(now, gives=0)}

    def _less(self, base: int, round: int) -> dict[str, Any]:
        """Return the records that make the model out of a base; none where the whole model is smaller."""
        now, had = self._now, self.models[base]
        assert now is not None
        exact = {EXACT + name: array for name, array in now.exact.items()}
        sent, words = exact, self._words(now, base=base, gives=base)
        if self._made[base] != self._version:
            seed = int(bits(self.seed, "model", round).random_raw() >> 1)
            rounding, names = Rounding(self.bits, seed, 0), ["rounded"] * (self.bits < 32)
            names += ["changed"] * self.changed
            found = {name: _written(name, had, now.vector, rounding) for name in names}
            name = min(found, key=lambda name: _bytes(found[name]))
            if _bytes(found[name]) >= now.where.single.nbytes:
                return {}
            made = now.where.settled(_read(name, found[name], had, rounding))
            words = self._words(now, base=base, gives=now.where.number(made), form=name, seed=seed)
            self._keep(words["gives"], made)
            sent = {**found[name], **exact}
        return {wire.BASE: words} | ({wire.MODEL: wire.to_record(sent)} if sent else {})

    def _words(self, now: Current, **given: Any) -> ConfigRecord:
        """Return what a client is told of the model beside its arrays."""
        same = {"base": 0, "form": "", "bits": self.bits, "seed": 0, "arrays": self.arrays}
        types = [t.dtype for t in now.where.layout.tensors if not t.exact] if now.where.basis else []
        same |= {"exact": "\n".join(self.exact), "basis": now.where.basis, "types": "\n".join(types)}
        return wire.words(**same | given)

    def _keep(self, name: int, vector: Vector) -> None:
        self.models[name], self._made[name] = vector, self._version

    def _note(self, message: Message) -> None:
        """Believe that a node has what it was told, if it says so, and take that out of its reply."""
        if not message.has_content():
            return
        node, facts = _node(message), message.content.config_records.get(wire.ROUND, {})
        if node in self._told and facts.get("holds") == self._told[node]:
            if self._told[node]:
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


def told_in(downlink: int | str, few: bool) -> int | str:
    """Return the bits of a parameter on the way down, or the word for what changed, if that is ``few``."""
    if not isinstance(downlink, str):
        return value_bits("downlink", downlink)
    if downlink != "changed":
        raise _checks.reject("downlink", downlink, "must be 'changed', or 1, 2, 4, 8, 16 or 32 bits")
    if not few:
        rule = (
            "needs a scheme in which all clients send the same coefficients, such as 'scheduled', and plain"
        )
        raise _checks.reject("downlink", downlink, f"{rule} gradient descent at the server: else all changes")
    return downlink


def receive(message: Message, context: Context) -> tuple[RecordDict, ArrayRecord | None, int] | None:
    """Return a request with the whole model in it, what to keep of that, and its number.

    None if the model it builds on is gone. The other side may send anything: it is read as a form of the
    model that is here, or refused.
    """
    content = message.content
    words: Any = {"form": "", "exact": "", "basis": "", "types": "", **content[wire.BASE]}
    if not words["gives"]:
        return content, None, 0
    state: Any = context.state  # where the number of a model stands beside it
    if words["base"] and (wire.MODEL not in state or state[wire.BASE]["gives"] != words["base"]):
        return None
    held = state[wire.MODEL] if words["base"] else content[words["arrays"]]
    had = wire.from_record(held)
    single = Layout.of(had, str(words["exact"]).split("\n"))
    where = Coordinates(single.typed(str(words["types"])), str(words["basis"]))
    vector, exact = single.flat(had, np.float32), single.exact(had)
    if words["base"]:
        sent = wire.from_record(content[wire.MODEL]) if wire.MODEL in content else {}
        rounding = Rounding(value_bits("bits", words["bits"]), words["seed"], 0)
        told = {name: sent.pop(name) for name in FORMS[words["form"]]} if words["form"] else {}
        exact = {name.removeprefix(EXACT): array for name, array in sent.items()}
        if exact.keys() != single.exact(had).keys():
            raise ValueError(f"beside the difference are the arrays {sorted(exact)}: must be the exact ones")
        if told:
            vector = where.settled(_read(words["form"], told, vector, rounding))
        held = wire.to_record(where.told(vector, exact))
        single.require(wire.from_record(held))
    if (found := where.number(vector)) != words["gives"]:  # what was kept is damaged
        return None
    whole = wire.to_record(where.arrays(vector, exact)) if where.basis else held
    return RecordDict({**content, words["arrays"]: whole}), held, found


def _written(form: str, had: Vector, wanted: Vector, rounding: Rounding) -> dict[str, NDArray[Any]]:
    """Return the arrays of a message to somebody who has one vector and shall have another one.

    ``"rounded"``: the difference in few bits; what rounding leaves over is in the next difference.
    ``"changed"``: the numbers that are others, and where they stand; after missed rounds that is all that
    changed in any of them, with the newest values.
    """
    if form == "rounded":
        return {"difference": rounding.write(wanted - had)}
    places = np.flatnonzero(had.view(np.uint32) != wanted.view(np.uint32))
    return {"places": rice.write(rice.gaps(places)), "values": wanted[places]}


def _read(form: str, message: Mapping[str, NDArray[Any]], had: Vector, rounding: Rounding) -> Vector:
    """Return what these arrays make of the vector that was had; refuse others."""
    if form == "rounded":
        return had + rounding.read(message["difference"], len(had))
    places = rice.places_of(rice.read(message["places"], most=len(had)))
    if len(places) and not 0 <= places.min() <= places.max() < len(had):
        raise ValueError(f"the model has {len(had)} numbers, and another one is told")
    found = had.copy()
    found[places] = require(message["values"], np.float32, (len(places),))
    return found


def _bytes(arrays: Record) -> int:
    return sum(array.nbytes for array in arrays.values())


def _node(message: Message) -> int:
    return int(message.metadata.src_node_id)


def _lost(message: Message) -> bool:
    """Tell whether a reply says nothing but that the model it should build on is not there."""
    return message.has_content() and wire.BASE in message.content
