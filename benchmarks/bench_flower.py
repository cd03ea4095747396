"""Bytes of one reply, and the cost of a round, beside FedAvg's in the same process.

python benchmarks/bench_flower.py [--rounds 8]
"""

import argparse
import logging
import time

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from study_flower import Counting, client_app, server_app, settings

from airfeel.flower import AirAvg, air_mod

SIZES = {
    "softmax, N = 7,850": {"w": (784, 10), "b": (10,)},
    "CNN of the example, N = 19,334": {
        "0.weight": (8, 1, 5, 5),
        "0.bias": (8,),
        "2.weight": (16, 8, 5, 5),
        "2.bias": (16,),
        "5.weight": (20, 784),
        "5.bias": (20,),
        "7.weight": (10, 20),
        "7.bias": (10,),
    },
    "two layers, N = 507,850": {"w1": (500, 1000), "b1": (500,), "w2": (14, 500), "b2": (350,)},
}

app = ClientApp()


@app.train(mods=[air_mod])
def train(message, context):
    draw = np.random.default_rng(context.node_id)
    model = {name: array.numpy() for name, array in message.content["arrays"].items()}
    moved = {k: Array(a + draw.standard_normal(a.shape).astype(np.float32)) for k, a in model.items()}
    content = RecordDict({"arrays": ArrayRecord(moved), "metrics": MetricRecord({"num-examples": 10})})
    return Message(content, reply_to=message)


def reply(strategy, shapes):
    """Return the bytes of one reply: its arrays, and the whole message."""
    grid = Counting(app, 2)
    model = ArrayRecord({name: Array(np.zeros(shape, np.float32)) for name, shape in shapes.items()})
    strategy.start(grid, model, 1)
    return grid.payload / 2, grid.up / 2


class Timed(Counting):
    """A grid that notes the processor time at every exchange of messages."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.times = []

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        if messages:
            self.times.append(time.process_time())
        return super(Counting, self).send_and_receive(messages)


def round_times(scheme, rounds):
    """Return processor times from one round's messages to the next one's, without evaluation."""
    config = settings(scheme=scheme, rounds=rounds) | {"evaluate-every": 10 * rounds}
    grid = Timed(client_app.app, 10, run_config=config)
    server_app.train(grid, config)
    return list(np.diff(grid.times[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    print("| one reply at s/N = 0.1, float32 | FedAvg | arrays | of FedAvg's | message | of FedAvg's |")
    print("|---|---|---|---|---|---|")
    for name, shapes in SIZES.items():
        plain = reply(FedAvg(fraction_evaluate=0.0), shapes)
        ours = reply(AirAvg("common_k", 0.1, fraction_evaluate=0.0), shapes)
        shares = [
            f"{mine:,.0f} B | {100 * mine / theirs:.1f} %" for mine, theirs in zip(ours, plain, strict=True)
        ]
        print(f"| {name} | {plain[0]:,.0f} B, {plain[1]:,.0f} B | {' | '.join(shares)} |", flush=True)
    print()
    print("| a round of the example app, 10 clients | processor time (least of all rounds) over FedAvg's |")
    print("|---|---|")
    times = {scheme: [] for scheme in ("fedavg", "common_k", "scheduled", "tsa_ga", "error_free")}
    for _ in range(3):  # in turns, so that all meet the same machine; what others do on it only adds
        for scheme, found in times.items():
            found += round_times(scheme, rounds)
    for scheme, found in times.items():
        print(f"| {scheme} | {min(found) / min(times['fedavg']):.2f} |", flush=True)


if __name__ == "__main__":
    main()
