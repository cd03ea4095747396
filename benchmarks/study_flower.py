"""Accuracy against bytes: FedAvg and compressed uplinks in Flower, on the CNN of examples/flower-mnist.

    python benchmarks/study_flower.py [--rounds 100] [--samples 120] [--clients 25] [--seed 1] [--classes 0]

All clients run in this process (LocalGrid). One line of a table for each method, printed when it is done.
"""

import argparse
import logging
import sys
import tomllib
from pathlib import Path

import torch

from airfeel.flower import wire
from airfeel.flower.local import LocalGrid

APP = Path(__file__).resolve().parents[1] / "examples" / "flower-mnist"
sys.path.insert(0, str(APP))

from flower_mnist import client_app, server_app  # noqa: E402

CELLS = (
    ("FedAvg", "fedavg", 1.0),
    ("top-k alone", "error_free", 0.1),
    ("TSA-GA", "tsa_ga", 0.1),
    ("scheduled", "scheduled", 0.1),
    ("top-k alone", "error_free", 0.04),
    ("TSA-GA", "tsa_ga", 0.04),
    ("scheduled", "scheduled", 0.04),
)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("rounds", 100), ("samples", 120), ("clients", 25), ("seed", 1), ("classes", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    print("| method | s/N | accuracy after half | after all | arrays up | messages up | messages down |")
    print("|---|---|---|---|---|---|---|", flush=True)
    half = asked.rounds // 2
    for name, scheme, ratio in CELLS:
        given = {"rounds": asked.rounds, "samples": asked.samples, "seed": asked.seed}
        given |= {"classes": asked.classes, "scheme": scheme, "ratio": ratio, "evaluate-every": half}
        config = settings(**given)
        grid = Counting(client_app.app, asked.clients, run_config=config)
        result, _ = server_app.train(grid, config)
        found = result.evaluate_metrics_serverapp
        scores = (f"{100 * found[round]['accuracy']:.1f} %" for round in (half, 2 * half))
        bytes_ = (f"{count / 1e6:.2f} MB" for count in (grid.payload, grid.up, grid.down))
        print(f"| {name} | {ratio:g} | {' | '.join((*scores, *bytes_))} |", flush=True)


if __name__ == "__main__":
    main()
