"""The client's line, ``@app.train(mods=[air_mod])``, and what a client carries from round to round.

When a client sends, it does not know yet whether it will be heard. So it keeps both outcomes, and what
was before in case the server has to begin the round again; the next request says which one counts.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from airfeel import storage
from airfeel.flower import downlink, trust, wire
from airfeel.flower.report import LOG
from airfeel.flower.state import Layout
from airfeel.radio.link import energy_of
from airfeel.registry import SCHEMES
from airfeel.uplink.packing import Rounding, pack, unpack
from airfeel.uplink.scheme import Memory, Plan, Scheme, Sent, everywhere

Call = Callable[[Message, Context], Message]
Rows = dict[str, NDArray[Any]]  # what this client carries, by name

MEMORY = "airfeel-memory"  # record in the client's state; key of the node's configuration that names a file
WAITING = "airfeel-waiting."  # begins the names of records kept for the second message of an exchange of two
WORDS = ("client", "training", "session", "round")
WHEN = ("before", "heard", "unheard")
CLIPPING = "clipping_norm"  # Flower's word in the configuration of a round
SHORTER, ROUNDED = 1 - 1e-6, 1 - 2.0**-7  # what rounding numbers, or whole signals, may add to a length
DIVERGED = "the update is not finite: local training has diverged; lower the learning rate"


class AirMod:
    """A mod that sends the compressed update of a client in place of its model.

    It takes the difference to the global model, and runs the device half of the scheme that the server
    announces on it and on what this client carries. The reply holds the signal in single precision and the
    arrays that must stay exact; metrics of the app stay as they are. Requests of other strategies pass
    unchanged, so that one app serves all of them.

    Parameters
    ----------
    schemes
        Classes of your own that this client is willing to run, beside those that are registered. Whatever the
        server names, nothing else is imported or run.
    """

    def __init__(self, schemes: Sequence[type] = ()) -> None:
        self._schemes = tuple(SCHEMES.require(kind).target for kind in schemes)

    def __call__(self, message: Message, context: Context, call_next: Call) -> Message:
        """Answer a request of AirAvg; hand on any other."""
        if not message.has_content() or wire.BASE not in message.content:
            return self._answer(message, context, call_next, {})
        found = downlink.receive(message, context)
        if found is None:
            return Message(RecordDict({wire.BASE: MetricRecord({"here": 0})}), reply_to=message)
        message.content, model, number = found
        reply = self._answer(message, context, call_next, {"holds": number})
        if model is not None and not reply.has_error():
            context.state[wire.MODEL], context.state[wire.BASE] = model, ConfigRecord({"gives": number})
        return reply

    def _answer(
        self, message: Message, context: Context, call_next: Call, holds: Mapping[str, int]
    ) -> Message:
        """Answer a request that has the whole model; ``holds`` says which one stays here, if any does."""
        if not message.has_content() or wire.ROUND not in message.content:
            if holds:
                message.content = wire.without_ours(message.content)
            reply = call_next(message, context)
            if holds and not reply.has_error():
                reply.content = RecordDict({**reply.content, wire.ROUND: ConfigRecord(dict(holds))})
            return reply
        announced = wire.Announcement.read(message.content)
        if announced.step == "transmit":
            return _transmit(message, context, announced.round)
        content = message.content
        model = wire.from_record(content[announced.arrays])
        layout = Layout.of(model, announced.exact.split("\n"))
        scheme = wire.find(announced.scheme, announced.options, self._schemes)
        plan = wire.read_plan(content, trust.numbers(layout))
        trust.require_plan(plan, layout)
        fresh = scheme.memory(layout.shapes)
        known = None if scheme.stateless else recall(context, announced, fresh)
        client, memory = context.node_id if scheme.stateless else uuid.uuid4().int >> 65, fresh
        if known is not None:
            client, memory = known.client, known.at(announced, wire.last_heard(content, known.client))

        message.content = wire.without_ours(content)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        name, trained = _trained(reply.content, announced.arrays)
        layout.require(trained)
        update = layout.difference(model, trained)
        device = context.node_config.get("partition-id")
        device = device if isinstance(device, int) else -1  # of a node that has no number
        rounding = announced.rounds(device, client)
        if not np.isfinite(update).all():
            raise ValueError(DIVERGED)
        here, norm, truth = wire.plan_here(scheme, plan, content), _clipping_norm(content), None
        facts: dict[str, Any] = {
            "round": announced.round,
            "digest": wire.digest(announced, layout, plan),
            "device": device,
        }
        if scheme.stateless and not (scheme.uses_radio or announced.audit or rounding or norm < np.inf):
            arrays = scheme.message(here, update[None])
        else:
            sent, arrays, within, *outcomes = _encode(scheme, here, memory, update, rounding, norm)
            signal, truth = np.asarray(sent.signal[0], dtype=np.float32), sent.payload
            if not scheme.stateless:
                which = client, announced.training, announced.session, announced.round
                keep(context, ClientMemory(*which, dict(memory), *outcomes))
                facts |= {"client": client, "fresh": known is None}
            if scheme.uses_radio or norm < np.inf:
                facts["energy"] = float(energy_of(signal[None], np.ones(1))[0])
            if norm < np.inf:
                facts["within"] = within
        answer = wire.without_ours(reply.content)
        del answer[name]
        if exact := layout.exact(trained):
            answer[announced.arrays] = wire.to_record(exact)
        answer[wire.ROUND] = ConfigRecord({**facts, **holds, **wire.signal_words(arrays)})
        if announced.audit and truth is not None:
            answer[wire.TRUTH] = wire.to_record({"truth": truth[0]})
        reply.content = answer if announced.step == "send" else _put_aside(context, answer)
        return reply


air_mod = AirMod()


def _encode(
    scheme: Scheme[Any],
    plan: Plan,
    memory: Memory,
    update: NDArray[np.float32],
    rounding: Rounding | None,
    norm: float,
) -> tuple[Sent, Rows, bool, Any, Any]:
    """Return the signal as the server will read it, its arrays, and what is carried if it is heard or not.

    A signal longer than ``norm`` is made shorter, with all that it has from the memory and from rounding; the
    flag says that it was not. What that cuts off is lost: in the memory it would come back.
    """
    row, one = everywhere(memory, 1), update[None]
    sent = scheme.encode(plan, row, one)
    found, arrays = _packed(scheme, sent, rounding)
    if not np.isfinite(found.signal).all():
        raise ValueError(DIVERGED)
    within = norm == np.inf or trust.length_of(found.signal.astype(np.float32)) <= norm
    while norm < np.inf and (length := trust.length_of(found.signal.astype(np.float32))) > norm:
        if type(scheme).pack is not Scheme.pack:
            raise ValueError(
                f"what {type(scheme).__name__} sends cannot be clipped to clipping_norm = {norm:g}"
            )
        shorter = norm / length * (SHORTER if rounding is None else ROUNDED)
        sent = replace(sent, signal=np.asarray(shorter * sent.signal, np.float32))
        found, arrays = _packed(scheme, sent, rounding)
    sent = found
    outcomes = [scheme.settle(plan, row, one, sent, np.array([heard])) for heard in (1.0, 0.0)]
    heard, unheard = ({k: np.asarray(after[k][0], memory[k].dtype) for k in memory} for after in outcomes)
    if memory:
        trust.require_memory(memory, update, (heard, unheard))
    return sent, arrays, within, heard, unheard


def _packed(scheme: Scheme[Any], sent: Sent, rounding: Rounding | None) -> tuple[Sent, Rows]:
    """Return the signal as the server will read it, and its arrays."""
    if rounding is None:
        return sent, scheme.pack(sent)
    arrays = pack(np.asarray(sent.signal[0], np.float32), rounding)
    return replace(sent, signal=unpack(arrays, sent.signal.shape[1], rounding)[None]), arrays


def _clipping_norm(content: RecordDict) -> float:
    """Return the norm to which Flower's clippings ask to clip what is sent; infinite where none does."""
    found = [record[CLIPPING] for record in content.config_records.values() if CLIPPING in record]
    if any(isinstance(norm, bool) or not isinstance(norm, int | float) or not norm > 0 for norm in found):
        raise ValueError(f"{CLIPPING} = {str(found[0])[:40]}: must be a number > 0")
    return float(min(found, default=np.inf))


def _trained(content: RecordDict, name: str) -> tuple[str, Mapping[str, NDArray[Any]]]:
    """Return the record of the app's reply that holds the trained model."""
    records: dict[str, ArrayRecord] = dict(content.array_records)
    if name not in records:
        if len(records) != 1:
            rule = "must hold one, the trained model"
            raise ValueError(f"the reply holds the records of arrays {sorted(records)}: {rule}")
        (name,) = records
    return name, wire.from_record(records[name])


def _put_aside(context: Context, answer: RecordDict) -> RecordDict:
    """Keep an answer until the server asks to transmit it; return what announces it: no arrays, no signal."""
    for name in [name for name in context.state if name.startswith(WAITING)]:
        del context.state[name]
    for name, record in answer.items():
        context.state[f"{WAITING}{name}"] = record
    facts = answer.config_records[wire.ROUND]
    facts = {k: value for k, value in facts.items() if not k.startswith(wire.SIGNAL)}
    return RecordDict({**answer.metric_records, wire.ROUND: ConfigRecord(facts)})


def _transmit(message: Message, context: Context, round: int) -> Message:
    """Send the signal that was announced in the first of two messages."""
    facts = context.state.get(f"{WAITING}{wire.ROUND}")
    if facts is None or facts["round"] != round:
        raise ValueError(f"no signal of round {round} is waiting here to be transmitted")
    kept = {k.removeprefix(WAITING): r for k, r in context.state.items() if k.startswith(WAITING)}
    return Message(RecordDict(kept), reply_to=message)


@dataclass(frozen=True, slots=True, eq=False)
class ClientMemory:
    """The memory of a client around its last signal.

    ``before`` is what it was when ``round`` began, ``heard`` what it is if the signal of that round was
    heard, ``unheard`` what it is if not. ``client`` is a number by which the server knows this client again
    when it comes back as another node.
    """

    client: int
    training: str
    session: str
    round: int
    before: Rows
    heard: Rows
    unheard: Rows

    def at(self, announced: wire.Announcement, heard: int) -> Rows:
        """Return what is carried when another round begins, given the last round of this node that was heard.

        Another session of the same training has gone back to its last checkpoint, and may ask again for a
        round that was answered, or for an earlier one: then what was sent since counts for nothing.

        Raises
        ------
        ValueError
            For a round of the same session that was answered already: it would be counted twice.
        """
        if self.round < announced.round:
            return self.heard if heard == self.round else self.unheard
        if self.session == announced.session:
            raise ValueError(f"round {announced.round} is asked again: round {self.round} was answered")
        return self.before


def recall(context: Context, announced: wire.Announcement, fresh: Memory) -> ClientMemory | None:
    """Return what this client remembers of a training, or None: from its state, else from its file.

    ``fresh`` is what the scheme begins with, whose names, shapes and types it must have.
    """
    if MEMORY in context.state:
        words: Any = context.state[f"{MEMORY}-of"]
        rows = wire.from_record(context.state[MEMORY])
        named = ({k.partition(".")[2]: rows[k] for k in rows if k.startswith(f"{w}.")} for w in WHEN)
        found: Any = ClientMemory(*(words[name] for name in WORDS), *named)
    else:
        found = _from_file(context.node_config.get(MEMORY))
    if not isinstance(found, ClientMemory) or found.training != announced.training:
        return None
    return found if all(_forms(getattr(found, when)) == _forms(fresh) for when in WHEN) else None


def keep(context: Context, outcomes: ClientMemory) -> None:
    """Keep the memory in the client's state, and in a file where the node's configuration names one."""
    rows = {f"{when}.{name}": row for when in WHEN for name, row in getattr(outcomes, when).items()}
    context.state[MEMORY] = wire.to_record(rows)
    context.state[f"{MEMORY}-of"] = ConfigRecord({name: getattr(outcomes, name) for name in WORDS})
    if (path := context.node_config.get(MEMORY)) is not None:
        storage.save_state(str(path), outcomes)


def _from_file(path: Any) -> Any:
    if path is None or not Path(str(path)).exists():
        return None
    try:
        return storage.load_state(str(path))
    except (OSError, ValueError) as error:
        LOG.warning("airfeel: the memory of this client starts empty: %s", error)
        return None


def _forms(rows: Any) -> list[tuple[Any, ...]]:
    """Return names, shapes and types."""
    return sorted((name, row.shape, row.dtype.str) for name, row in rows.items())
