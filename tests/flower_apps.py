"""Client apps for Flower in one process, and grids on which messages are lost, late, doubled or spoiled."""

import os
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from airfeel.flower import air_mod, wire
from airfeel.flower.local import LocalGrid

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "flower-mnist"


@contextmanager
def example():
    """The modules of the example app: client, server, task."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        from flower_mnist import client_app, server_app, task

        yield client_app, server_app, task
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in [name for name in sys.modules if name.startswith("flower_mnist")]:
            del sys.modules[name]


def example_settings(**given):
    """Return the settings of the example app, some of them others."""
    return tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"] | given


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def arrays(found):
    return {name: array.numpy() for name, array in found.items()}


def signal(reply):
    """Return the arrays of the signal in a reply."""
    return wire.signal_arrays(reply.content[wire.ROUND])


def with_signal(reply, **sent):
    """Return the reply with another signal."""
    facts = {k: value for k, value in reply.content[wire.ROUND].items() if not k.startswith(wire.SIGNAL)}
    reply.content[wire.ROUND] = ConfigRecord({**facts, **wire.signal_words(sent)})
    return reply


def app(step, *, mod=air_mod, metrics=lambda device, round: {}):
    """Return an app that trains by ``step(model, device, round)`` and weighs devices by their number."""
    made = ClientApp()

    @made.train(mods=[mod] if mod else [])
    def train(message, context):
        device, round = context.node_config["partition-id"], message.content["config"]["server-round"]
        model = step(arrays(message.content["arrays"]), device, round)
        facts = {"num-examples": 10 * (device + 1), **metrics(device, round)}
        content = RecordDict({"arrays": record(model), "metrics": MetricRecord(facts)})
        return Message(content, reply_to=message)

    return made


def drift(model, device, round):
    """Move every floating array by steps that differ between devices, rounds and entries."""
    moved = {}
    for name, array in model.items():
        if array.dtype.kind != "f":
            moved[name] = array + device
            continue
        draw = np.random.default_rng([device, round, len(moved)])
        moved[name] = (array - 0.1 * array + 0.05 * draw.standard_normal(array.shape)).astype(array.dtype)
    return moved


def model(**more):
    """Return a model of several arrays and shapes."""
    draw = np.random.default_rng(3)
    shapes = {"weight": (12, 20), "bias": (12,), "scale": (), "kernel": (4, 2, 3, 3)}
    found = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: np.asarray(array) for name, array in {**found, **more}.items()}


class Faulty(LocalGrid):
    """A grid on which a function of (round, node, reply) decides what arrives: a list of replies."""

    def __init__(self, app, nodes, fault, **more):
        super().__init__(app, nodes, **more)
        self.fault, self.round = fault, 0

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.round = max([self.round] + [_round(message) for message in messages])
        found = []
        for message in messages:
            found += self.fault(self.round, message.metadata.dst_node_id, self.answer(message))
        return found


def _round(message):
    return message.content["airfeel"]["round"] if "airfeel" in message.content else 0
