"""Trainings twice: by Flower's simulation with Ray, and in this process. Prints whether they are equal."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [sys.path[0], os.environ.get("PYTHONPATH", "")]
)  # for Ray's workers

import numpy as np
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import Krum
from flwr.simulation import run_simulation

import flower_apps as apps
from airfeel.flower import Air, AirAvg
from airfeel.flower.local import LocalGrid
from airfeel.radio.channels import FadingMAC

NODES, ROUNDS = 4, 3


QUIET = {"min_available_nodes": NODES, "fraction_evaluate": 0.0}
STRATEGIES = [
    lambda: AirAvg("tsa_ga", 0.5, FadingMAC(noise_var=0.1), **QUIET),
    lambda: AirAvg("scheduled", 0.5, bits=2, downlink=4, **QUIET),
    lambda: AirAvg("stc", **QUIET),
    lambda: Air(Krum(num_malicious_nodes=1, **QUIET), "common_k", 0.5, bits=8),
]


def train(grid):
    found = []
    for make in STRATEGIES:
        strategy = make()
        result = strategy.start(grid, apps.record(apps.model()), ROUNDS)
        found.append((apps.arrays(result.arrays), [len(report.heard) for report in strategy.rounds]))
    return found


def main():
    client, server, found = apps.app(apps.drift), ServerApp(), []

    @server.main()
    def simulate(grid, context):
        found.append(train(grid))

    run_simulation(server, client, NODES, backend_config={"client_resources": {"num_cpus": 1}})
    found.append(train(LocalGrid(client, NODES)))
    first, second = found
    equal = len(first) == len(second) == len(STRATEGIES)
    for (model, heard), (other, also) in zip(first, second, strict=True):
        same = heard == also == [NODES] * ROUNDS
        equal &= same and all(np.array_equal(model[name], other[name]) for name in model)
    print("equal" if equal else "different")


if __name__ == "__main__":
    main()
