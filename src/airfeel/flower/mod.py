"""The client's line: ``@app.train(mods=[air_mod])``."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from airfeel.flower import naming, wire
from airfeel.flower.memory import ClientMemory, keep, recall
from airfeel.flower.tensors import Layout
from airfeel.registry import SCHEMES
from airfeel.uplink.memory import everywhere
from airfeel.uplink.scheme import Memory, Plan, Scheme, Sent

Call = Callable[[Message, Context], Message]

WAITING = (
    "airfeel-waiting"  # in an exchange of two messages: begins the names of the records kept for the second
)


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
        if not message.has_content() or wire.ROUND not in message.content:
            return call_next(message, context)
        announced = wire.Announcement.read(message.content)
        if announced.step == "transmit":
            return _transmit(message, context)
        content = message.content
        model = wire.from_record(content[announced.arrays])
        layout = Layout.of(model, announced.exact.split("\n"))
        scheme = naming.find(announced.scheme, announced.options, self._schemes)
        plan = wire.read_plan(content)
        fresh = scheme.memory(layout.shapes)
        known = recall(context, announced, fresh)
        client, memory = uuid.uuid4().int >> 65, fresh
        if known is not None:
            client, memory = known.client, known.at(announced, wire.last_heard(content, known.client))

        message.content = wire.without_ours(content)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        name, trained = _trained(reply.content, announced.arrays)
        layout.require(trained)
        update = (layout.flat(model) - layout.flat(trained)).astype(np.float32)
        sent, if_heard, if_not = _encode(scheme, plan, memory, update)
        signal = np.asarray(sent.signal[0], dtype=np.float32)
        told = client, announced.training, announced.session, announced.round
        keep(context, ClientMemory(*told, dict(memory), if_heard, if_not))
        facts = _facts(announced, context, wire.digest(announced, layout, plan), signal)
        facts["client"], facts["fresh"] = client, int(known is None)
        answer = wire.without_ours(reply.content)
        del answer[name]
        if exact := layout.exact(trained):
            answer[name] = wire.to_record(exact)
        answer[wire.ROUND] = facts
        answer[wire.SIGNAL] = wire.to_record(wire.pack(signal))
        if announced.audit and sent.payload is not None:
            answer[wire.TRUTH] = wire.to_record({"truth": sent.payload[0]})
        reply.content = answer if announced.step == "send" else _put_aside(context, answer)
        return reply


air_mod = AirMod()


def _encode(
    scheme: Scheme[Any], plan: Plan, memory: Memory, update: NDArray[np.float32]
) -> tuple[Sent, Any, Any]:
    """Return the signal, and what is carried after it if it is heard and if it is not."""
    row, one = everywhere(memory, 1), update[None]
    sent = scheme.encode(plan, row, one)
    if not (np.isfinite(update).all() and np.isfinite(sent.signal).all()):
        raise ValueError("the update is not finite: local training has diverged; lower the learning rate")
    outcomes = [scheme.settle(plan, row, one, sent, np.array([heard])) for heard in (1.0, 0.0)]
    heard, unheard = ({k: np.asarray(after[k][0], memory[k].dtype) for k in memory} for after in outcomes)
    return sent, heard, unheard


def _facts(
    announced: wire.Announcement, context: Context, digest: int, signal: NDArray[np.float32]
) -> MetricRecord:
    """Return what the server has to know of a signal; device -1 stands for a node that has no number."""
    energy = float(np.sum(signal.astype(np.float64) ** 2))
    device = _number(context.node_config.get("partition-id", -1))
    return MetricRecord(
        {
            "round": announced.round,
            "digest": digest,
            "energy": energy,
            "device": device,
        }
    )


def _trained(content: RecordDict, name: str) -> tuple[str, Mapping[str, NDArray[Any]]]:
    """Return the record of the app's reply that holds the trained model."""
    records: dict[str, ArrayRecord] = dict(content.array_records)
    if name not in records and len(records) != 1:
        rule = f"holds the records of arrays {sorted(records)}: must hold one, the trained model"
        raise ValueError(f"the reply {rule}")
    name = name if name in records else next(iter(records))
    return name, wire.from_record(records[name])


def _put_aside(context: Context, answer: RecordDict) -> RecordDict:
    """Keep an answer until the server asks to transmit it; return what announces it: its numbers alone."""
    for name in [name for name in context.state if name.startswith(WAITING)]:
        del context.state[name]
    for name, record in answer.items():
        context.state[f"{WAITING}.{name}"] = record
    return RecordDict({name: record for name, record in answer.items() if isinstance(record, MetricRecord)})


def _transmit(message: Message, context: Context) -> Message:
    """Send the signal that was announced in the first of two messages."""
    announced = wire.Announcement.read(message.content)
    facts = context.state.get(f"{WAITING}.{wire.ROUND}")
    if facts is None or facts["round"] != announced.round:
        raise ValueError(f"no signal of round {announced.round} is waiting here to be transmitted")
    start = len(WAITING) + 1
    kept = {name[start:]: record for name, record in context.state.items() if name.startswith(WAITING)}
    return Message(RecordDict(kept), reply_to=message)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1
