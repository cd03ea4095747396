"""Accuracy against bytes: FedAvg and compressed uplinks in Flower, on the CNN of examples/flower-mnist.

    python benchmarks/study_flower.py [--rounds 100] [--samples 120] [--clients 25] [--seed 1 2 3]
        [--classes 0] [--fraction 1] [--alpha 0] [--methods 3]

All clients run in this process (LocalGrid). One line of a table for each method, printed when it is done.
"""

import argparse
import logging
import random
import sys
import tomllib
from pathlib import Path

import numpy as np
import torch

from airfeel.flower import wire
from airfeel.flower.local import LocalGrid

APP = Path(__file__).resolve().parents[1] / "examples" / "flower-mnist"
sys.path.insert(0, str(APP))

from flower_mnist import client_app, server_app  # noqa: E402

CELLS = [("FedAvg", {"scheme": "fedavg"})]
CELLS += [(f"compression={times}", {"compression": float(times)}) for times in (25, 100)]
CELLS += [("8 bits", {"scheme": "eight_bit"}), ("signs with error memory", {"scheme": "sign_memory"})]
CELLS += [("EDEN, one bit", {"scheme": "eden"}), ("STC, k/N = 0.04", {"scheme": "stc", "ratio": 0.04})]
CELLS += [("top-k in 8 bits, k/N = 0.02", {"scheme": "top_k_coded", "ratio": 0.02})]
CELLS += [
    (f"{name}, s/N = {ratio:g}", {"scheme": scheme, "ratio": ratio})
    for ratio in (0.1, 0.04)
    for name, scheme in (("top-k alone", "error_free"), ("TSA-GA", "tsa_ga"), ("scheduled", "scheduled"))
]


class Counting(LocalGrid):
    """A grid that counts bytes for any strategy."""

    up = down = payload = 0

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.down += sum(wire.message_bytes(message) for message in messages)
        replies = super().send_and_receive(messages)
        assert not any(reply.has_error() for reply in replies)
        self.up += sum(wire.message_bytes(reply) for reply in replies)
        self.payload += sum(wire.payload(reply.content) for reply in replies)
        return replies


def settings(**given):
    app = tomllib.loads((APP / "pyproject.toml").read_text())
    return app["tool"]["flwr"]["app"]["config"] | given


def study(asked, seed, cell):
    """Return accuracies in per cent after half and after all rounds, and megabytes."""
    random.seed(seed)  # whom Flower asks: the same clients for every method
    half = asked.rounds // 2
    given = {name: getattr(asked, name) for name in ("rounds", "samples", "classes", "fraction", "alpha")}
    config = settings(**given, **cell, seed=seed, **{"evaluate-every": half})
    grid = Counting(client_app.app, asked.clients, run_config=config)
    result, _ = server_app.train(grid, config)
    found = result.evaluate_metrics_serverapp
    scores = [100 * found[round]["accuracy"] for round in (half, 2 * half)]
    return [*scores, *(count / 1e6 for count in (grid.payload, grid.up, grid.down))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("rounds", 100), ("samples", 120), ("clients", 25), ("classes", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="the table has means over these")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the clients, asked in every round")
    parser.add_argument("--alpha", type=float, default=0.0, help="Dirichlet shares of the classes; 0: none")
    parser.add_argument("--methods", type=int, default=len(CELLS), help="how many, from the first on")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    print("| method | accuracy after half | after all | arrays up | messages up | messages down |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, cell in CELLS[: asked.methods]:
        means = np.mean([study(asked, seed, cell) for seed in asked.seed], axis=0)
        words = [f"{value:.1f} %" for value in means[:2]] + [f"{value:.3f} MB" for value in means[2:]]
        print(f"| {name} | {' | '.join(words)} |", flush=True)


if __name__ == "__main__":
    main()
