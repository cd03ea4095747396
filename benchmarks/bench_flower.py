"""Bytes of one reply, and the cost of a round, beside FedAvg's.

python benchmarks/bench_flower.py [--rounds 20]
python benchmarks/bench_flower.py --large [--rounds 6]    # 5e6 parameters, every method a process of its own
"""

import argparse
import json
import logging
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from study_flower import Counting, client_app, server_app, settings

from airfeel.flower import AirAvg, air_mod
from airfeel.flower.local import LocalGrid

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
    moved = {k: Array(a + draw.standard_normal(a.shape, np.float32)) for k, a in model.items()}
    content = RecordDict({"arrays": ArrayRecord(moved), "metrics": MetricRecord({"num-examples": 10})})
    return Message(content, reply_to=message)


LARGE = {"w1": (2000, 2000), "b1": (2000,), "w2": (499, 2000)}  # 4,998,000 + 2,000
METHODS = {
    "FedAvg": None,
    "compression=25": {"compression": 25},
    "compression=100": {"compression": 100},
    "compression=100, downlink=8": {"compression": 100, "downlink": 8},
    "scheduled 0.1": {"scheme": "scheduled", "ratio": 0.1},
    "scheduled 0.1, bits=8": {"scheme": "scheduled", "ratio": 0.1, "bits": 8},
    "scheduled 0.1, downlink='changed'": {"scheme": "scheduled", "ratio": 0.1, "downlink": "changed"},
    "common_k 0.1": {"scheme": "common_k", "ratio": 0.1},
}


class Clocked(LocalGrid):
    """A grid that notes the processor's time whenever clients are asked to train."""

    times = ()

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        if messages:
            self.times = (*self.times, time.process_time())
        return super().send_and_receive(messages)


def large(name, rounds):
    """Return the processor's seconds of a round, and the most bytes of memory, of this process."""
    given = METHODS[name]
    strategy = FedAvg(fraction_evaluate=0.0) if given is None else AirAvg(**given, fraction_evaluate=0.0)
    grid = Clocked(app, 3)
    model = {k: Array(np.full(shape, 0.01, np.float32)) for k, shape in LARGE.items()}
    strategy.start(grid, ArrayRecord(model), rounds + 1)
    return float(np.median(np.diff(grid.times))), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def large_table(rounds):
    print("| 5e6 parameters, 3 clients | processor seconds a round | FedAvg's | memory, MB | FedAvg's |")
    print("|---|---|---|---|---|")
    first = None
    for name in METHODS:
        command = [sys.executable, __file__, "--one", name, "--rounds", str(rounds)]
        seconds, memory = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        first = first or (seconds, memory)
        times, more = seconds / first[0], memory / first[1]
        print(f"| {name} | {seconds:.2f} | {times:.1f} | {memory / 1e6:.0f} | {more:.1f} |", flush=True)


def reply(strategy, shapes):
    """Return the bytes of one reply: its arrays, and the whole message."""
    grid = Counting(app, 2)
    model = ArrayRecord({name: Array(np.zeros(shape, np.float32)) for name, shape in shapes.items()})
    strategy.start(grid, model, 1)
    return grid.payload / 2, grid.up / 2


class InTurns(LocalGrid):
    """A grid that notes its thread's processor time at every request, and lets another training go on.

    So trainings go round by round together, and what others do on the machine meets all of them.
    """

    def __init__(self, own, after, config):
        super().__init__(client_app.app, 10, run_config=config)
        self.own, self.after, self.times = own, after, []

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        if messages:  # an evaluation asks nobody
            self.times.append(time.thread_time())
            self.after.release()
            self.own.acquire()
        return super().send_and_receive(messages)


def round_times(schemes, rounds):
    """Return processor times (schemes, rounds) from one round's messages to the next one's."""
    turns = [threading.Semaphore(0) for _ in schemes]
    grids, threads = [], []
    for i, scheme in enumerate(schemes):
        config = settings(scheme=scheme, rounds=rounds + 2) | {"evaluate-every": 10 * rounds}
        grids.append(InTurns(turns[i], turns[(i + 1) % len(turns)], config))
        threads.append(threading.Thread(target=train_in_turn, args=(grids[i], config)))
        threads[i].start()
    turns[0].release()
    for thread in threads:
        thread.join()
    return np.array([np.diff(grid.times[1:]) for grid in grids])  # the first round fills caches


def train_in_turn(grid, config):
    grid.own.acquire()
    server_app.train(grid, config)
    grid.after.release()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--large", action="store_true", help="time and memory with 5e6 parameters")
    parser.add_argument("--one", choices=METHODS, help="one method of these, as JSON")
    given = parser.parse_args()
    rounds = given.rounds
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    if given.one or given.large:
        print(json.dumps(large(given.one, rounds))) if given.one else large_table(rounds)
        return
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
    print("| a round of the example app, 10 clients | processor time over FedAvg's | in half of the rounds |")
    print("|---|---|---|")
    schemes = ("fedavg", "common_k", "error_free", "scheduled", "tsa_ga")
    times = round_times(schemes, rounds)
    for scheme, ratios in zip(schemes, times / times[0], strict=True):
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        print(f"| {scheme} | {middle:.2f} | {low:.2f} to {high:.2f} |", flush=True)


if __name__ == "__main__":
    main()
