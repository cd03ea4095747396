"""One training twice: by Flower's simulation with Ray, and in this process. Prints whether they are equal."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [sys.path[0], os.environ.get("PYTHONPATH", "")]
)  # for Ray's workers

import numpy as np
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

import flower_apps as apps
from airfeel.flower import AirAvg
from airfeel.flower.local import LocalGrid
from airfeel.radio.channels import FadingMAC

NODES, ROUNDS = 4, 3


def train(grid):
    strategy = AirAvg(
        "tsa_ga", 0.5, FadingMAC(noise_var=0.1), min_available_nodes=NODES, fraction_evaluate=0.0
    )
    result = strategy.start(grid, apps.record(apps.model()), ROUNDS)
    return apps.arrays(result.arrays), [len(report.heard) for report in strategy.rounds]


def main():
    client, server, found = apps.app(apps.drift), ServerApp(), []

    @server.main()
    def simulate(grid, context):
        found.append(train(grid))

    run_simulation(server, client, NODES, backend_config={"client_resources": {"num_cpus": 1}})
    found.append(train(LocalGrid(client, NODES)))
    (first, heard), (second, also) = found
    equal = heard == also and all(np.array_equal(first[name], second[name]) for name in first)
    print("equal" if equal else "different")


if __name__ == "__main__":
    main()
