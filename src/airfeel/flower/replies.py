"""Which replies of a round count: each is read and held against what was asked, or left out by name."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from airfeel.flower import wire
from airfeel.flower.state import Layout
from airfeel.radio.link import energy_of
from airfeel.uplink.packing import unpack
from airfeel.uplink.scheme import Plan, Scheme, placed

LARGEST = 1e60  # energy of a signal: products with weights and costs stay finite
HEAVIEST = 1e15  # weight of a client
TOLERANCE = 1e-6  # of an announced energy: sums in double precision of the same numbers


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a reply must fit to: the nodes that were asked, and what they were told."""

    announced: wire.Announcement
    digest: int
    symbols: int
    layout: Layout
    weighted_by: str
    asked: Sequence[int]
    scheme: Scheme[Any]
    plan: Plan

    @property
    def round(self) -> int:
        """The number of the round."""
        return self.announced.round

    def told(self, nodes: Sequence[int]) -> Plan:
        """Return the plan as these nodes have it."""
        return placed(self.scheme, self.plan, [self.asked.index(node) for node in nodes], len(self.asked))


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """One usable reply; ``device`` is the number its node has by itself, -1 for none.

    ``within`` says that what it sent was no longer than a clipping norm that it was told, and is whole.
    """

    node: int
    client: int
    device: int
    weight: float
    energy: float
    fresh: bool
    metrics: RecordDict
    signal: NDArray[np.float32]
    exact: dict[str, NDArray[Any]]
    truth: NDArray[np.floating[Any]] | None
    within: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Replies:
    """The replies of a round: usable ones, errors and refusals with their reasons, by node.

    ``notes`` are errors that the SuperLink reports itself, which do not say of which node.
    """

    usable: list[Reply]
    failed: dict[int, str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def sort(replies: Iterable[Message], question: Question, *, signals: bool = True) -> Replies:
    """Read the replies of a round; without ``signals`` they are those that only announce theirs."""
    usable: dict[int, Reply] = {}
    found = Replies([])
    for message in replies:
        node = int(message.metadata.src_node_id)
        if message.has_error():
            reason = _last_line(str(message.error.reason))
            if node in question.asked:
                found.failed[node] = reason
            else:
                found.notes.append(reason)
        elif node not in question.asked:
            found.refused[node] = "it was not asked"
        elif node in usable:
            found.refused[node] = "it answered twice, and its first answer counts"
        else:
            try:
                usable[node] = read(message, question, signals)
            except Exception as error:  # whatever a client sends, the round goes on without it
                found.refused[node] = _last_line(str(error)) or type(error).__name__
    failed = {node: reason for node, reason in found.failed.items() if node not in usable}
    return replace(found, usable=list(usable.values()), failed=failed)


def read(message: Message, question: Question, signals: bool) -> Reply:
    """Read one reply; raise ValueError with the reason where it does not fit."""
    content = message.content
    if wire.ROUND not in content:
        raise ValueError("its reply is not from air_mod: add mods=[air_mod] to its train function")
    facts, metrics = content[wire.ROUND], wire.without_ours(content)
    if not isinstance(facts, ConfigRecord):
        raise ValueError("its reply is of another version of airfeel than the server's")
    if facts["round"] != question.round:
        raise ValueError(f"its reply is of round {facts['round']}: must be of round {question.round}")
    if facts["digest"] != question.digest:
        raise ValueError("its signal was made with another plan")
    node = int(message.metadata.src_node_id)
    ids = node, int(facts.get("client", node)), int(facts["device"])
    weight = _weight(metrics, question.weighted_by)
    signal, exact, truth, energy = np.zeros(0, np.float32), {}, None, float(facts.get("energy", 0))
    if not 0 <= energy <= LARGEST:
        raise ValueError(f"its energy is {energy}: must be between 0 and {LARGEST:g}")
    if signals:
        plan, arrays = question.told([node]), wire.signal_arrays(facts)
        if (rounding := question.announced.rounds(ids[2], ids[1])) is None:
            signal = question.scheme.unpack(plan, arrays, question.symbols)
        else:
            signal = unpack(arrays, question.symbols, rounding)
        if not np.isfinite(signal).all():
            raise ValueError("its signal is not finite")
        found = float(energy_of(signal[None], np.ones(1))[0])
        if not math.isclose(facts.get("energy", found), found, rel_tol=TOLERANCE):
            raise ValueError(f"its signal does not have the energy {energy:g} that it announced")
        if not (energy := found) <= LARGEST:
            raise ValueError(f"its energy is {energy}: must be at most {LARGEST:g}")
        exact = _exact(metrics, question)
        truth = wire.from_record(content[wire.TRUTH])["truth"] if wire.TRUTH in content else None
        if truth is not None and (truth.dtype.kind != "f" or not np.isfinite(truth).all()):
            raise ValueError("what its signal stands for is not finite")
    named = RecordDict({name: r for name, r in metrics.items() if isinstance(r, MetricRecord)})
    within = facts.get("within", 1) == 1
    return Reply(*ids, weight, energy, bool(facts.get("fresh", 0)), named, signal, exact, truth, within)


def _weight(content: RecordDict, name: str) -> float:
    found = [record[name] for record in content.metric_records.values() if name in record]
    if len(found) != 1:
        raise ValueError(f"its reply has {len(found)} metrics {name!r}: must have one, its weight")
    weight = found[0]
    if isinstance(weight, list) or not 0 <= weight <= HEAVIEST:
        raise ValueError(
            f"its weight {name!r} is {str(weight)[:40]}: must be a number >= 0, at most {HEAVIEST:g}"
        )
    return float(weight)


def _exact(content: RecordDict, question: Question) -> dict[str, NDArray[Any]]:
    """Return the arrays that travelled whole, of the names and shapes they have in the model."""
    wanted = {tensor.name: tensor for tensor in question.layout.tensors if tensor.exact}
    name = question.announced.arrays
    found = wire.from_record(content[name]) if name in content else {}
    if set(found) != set(wanted):
        raise ValueError(f"its exact arrays are {sorted(found)}: must be {list(wanted)}")
    for name, array in found.items():
        if array.shape != wanted[name].shape:
            raise ValueError(f"its array {name!r} has shape {array.shape}: must be {wanted[name].shape}")
        _require_number(array, name, wanted[name].dtype)
    return found


def _require_number(array: NDArray[Any], name: str, dtype: str) -> None:
    """Refuse an array of other kinds of numbers than the model's, or not finite in its type."""
    kind, wanted = array.dtype.kind, np.dtype(dtype)
    if kind not in "biuf" or (kind == "f") != (wanted.kind == "f"):
        raise ValueError(f"its array {name!r} is {array.dtype}: must be {dtype}")
    with np.errstate(over="ignore"):
        if not np.isfinite(array.astype(wanted)).all():
            raise ValueError(f"its array {name!r} is not finite")


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()[:200]
