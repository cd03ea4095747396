"""Both directions in Flower: points lost against FedAvg, and bytes; ours and rivals.

    python benchmarks/study_flower.py tune --out DIR            # for short: on seed 11
    python benchmarks/study_flower.py sampled --out DIR         # or everybody, two, mlp, short, large
    python benchmarks/study_flower.py table keep --out DIR      # what there is, for docs/results

Seeds 1 to 3 are for reporting; ``--seeds`` names others, ``--methods`` some of METHODS. The CNN of
examples/flower-mnist (19,334 numbers) on MNIST, 120 images for a client, batches of 40, one epoch in a round,
100 rounds; all clients in this process (LocalGrid). Accuracy is the mean of those after rounds 85, 90, 95 and
100. Every run is one line of DIR/runs.jsonl, and a study that was interrupted goes on where it was.
"""

import argparse
import csv
import json
import logging
import random
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from study_field import known

from airfeel.flower import wire
from airfeel.flower.local import LocalGrid

ROOT = Path(__file__).resolve().parents[1]
APP = ROOT / "examples" / "flower-mnist"
sys.path.insert(0, str(APP))

from flower_mnist import client_app, server_app  # noqa: E402

SAMPLED = {"clients": 50, "fraction": 0.3, "alpha": 0.3}
SHORT = {"clients": 20, "fraction": 0.5, "alpha": 0.3, "samples": 240, "rounds": 30}
SETTINGS = {  # clients, fraction, data, model
    "tuning": SHORT,
    "sampled": SAMPLED,
    "everybody": SAMPLED | {"fraction": 1.0},
    "two": {"clients": 10, "classes": 2},
    "mlp": SAMPLED | {"hidden": 32},
    "short": SHORT,
    "large": {"clients": 10, "hidden": 640, "rounds": 5, "evaluate-every": 5},
}
WORDS = {
    "sampled": "CNN, 15 of 50 clients, Dirichlet 0.3",
    "everybody": "CNN, all 50 clients, Dirichlet 0.3",
    "two": "CNN, all 10 clients, two classes each",
    "mlp": "MLP of 25,450, 15 of 50 clients, Dirichlet 0.3",
    "short": "CNN, 10 of 20 clients with 240 images each, Dirichlet 0.3, 30 rounds",
    "large": "MLP of 508,810, 5 rounds",
}
METHODS = {
    "FedAvg": {"scheme": "fedavg"},
    "ours 25x": {"compression": 25.0},
    "ours 100x": {"compression": 100.0},
    "ours 106x": {"compression": 106.0},
    "ours 25x, 2 bits down": {"compression": 25.0, "downlink": 2},
    "ours 100x, 4 bits down": {"compression": 100.0, "downlink": 4},
    "ours 100x, 2 bits down": {"compression": 100.0, "downlink": 2},
    "EDEN": {"scheme": "eden"},
    "signs with memory": {"scheme": "sign_memory"},
    "STC 30x": {"scheme": "stc", "ratio": 0.23},
    "top-k 8 bits 30x": {"scheme": "top_k_coded", "ratio": 0.08},
    "STC 100x": {"scheme": "stc", "ratio": 0.043},
    "top-k 8 bits 100x": {"scheme": "top_k_coded", "ratio": 0.0204},
    "8 bits": {"scheme": "eight_bit"},
}
RATES = (0.1, 0.2)
TUNED = {  # beginnings of names, and the method whose best rate on the tuning seed they take in ``short``
    "FedAvg": "FedAvg",
    "ours": "ours 100x",
    "EDEN": "EDEN",
    "signs": "signs with memory",
    "STC": "STC 100x",
    "top-k": "top-k 8 bits 100x",
    "8 bits": "FedAvg",
}
TUNING = 11  # seed
LIMITS = {  # setting and method: points that may be lost, and how many times fewer bytes, up or in all
    ("sampled", "ours 25x"): (0.3, 25, "up"),
    ("sampled", "ours 100x"): (0.5, 100, "up"),
    ("sampled", "ours 25x, 2 bits down"): (0.8, 10, "all"),
    ("sampled", "ours 100x, 4 bits down"): (0.8, 10, "all"),
    ("sampled", "ours 100x, 2 bits down"): (0.8, 10, "all"),
    ("everybody", "ours 25x, 2 bits down"): (0.5, 15, "all"),
    ("everybody", "ours 100x, 2 bits down"): (0.5, 15, "all"),
    ("two", "ours 25x"): (0.5, 25, "up"),
    ("two", "ours 100x"): (0.8, 100, "up"),
    ("mlp", "ours 100x"): (0.5, 100, "up"),
    ("large", "ours 106x"): (None, 100, "messages up"),
}
COUNTS = ("arrays up", "messages up", "arrays down", "messages down")
LATE = 4  # evaluations, one in five rounds, of which the mean is taken


class Counting(LocalGrid):
    """A grid that counts bytes for any strategy."""

    up = down = payload = payload_down = 0

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.down += sum(wire.message_bytes(message) for message in messages)
        self.payload_down += sum(wire.payload(message.content) for message in messages)
        replies = super().send_and_receive(messages)
        assert not any(reply.has_error() for reply in replies)
        self.up += sum(wire.message_bytes(reply) for reply in replies)
        self.payload += sum(wire.payload(reply.content) for reply in replies)
        return replies


def settings(**given):
    app = tomllib.loads((APP / "pyproject.toml").read_text())
    return app["tool"]["flwr"]["app"]["config"] | {"downlink": 32} | given  # one thing at a time


def run(setting, method, rate, seed):
    """Train once; return accuracies in per cent by round, bytes, and how often a client was scaled down."""
    random.seed(seed)  # whom Flower asks: the same clients for every method
    given = {"rounds": 100, "samples": 120, "evaluate-every": 5, "downlink": 32}
    given |= SETTINGS[setting] | METHODS[method]
    config = settings(**{k: v for k, v in given.items() if k != "clients"})
    config |= {"learning-rate": rate, "seed": seed}
    counting = Counting if method == "FedAvg" else LocalGrid  # ours counts by itself
    grid, found = counting(client_app.app, given["clients"], run_config=config), {}
    try:
        result, strategy = server_app.train(grid, config)
    except ValueError as error:
        if "finite" not in str(error):
            raise
        return {"accuracy": {str(config["rounds"]): 10.0}, "diverged": True}
    for round, metrics in result.evaluate_metrics_serverapp.items():
        if round:
            found[str(round)] = round_off(100 * metrics["accuracy"])
    if method == "FedAvg":
        return {"accuracy": found, "bytes": (grid.payload, grid.up, grid.payload_down, grid.down)}
    parts = ("up", "up_message", "down", "down_message")
    counts = [sum(getattr(report.traffic, part) for report in strategy.rounds) for part in parts]
    assert all(len(report.heard) == len(report.asked) for report in strategy.rounds)
    clipped = sum(len(report.clipped) for report in strategy.rounds)
    return {"accuracy": found, "bytes": counts, "clipped": clipped}


def round_off(value):
    return round(float(value), 2)


def once(done, out, setting, method, rate, seed):
    """Compute a run unless it is there."""
    name = f"{setting} | {method} | {rate:g} | {seed}"
    if name not in done:
        began = time.process_time()
        done[name] = {"key": name, **run(setting, method, rate, seed)}
        done[name]["seconds"] = round(time.process_time() - began, 1)
        with (out / "runs.jsonl").open("a") as file:
            file.write(json.dumps(done[name]) + "\n")
        print(done[name], flush=True)
    return done[name]


def late(line):
    """Return the mean accuracy of the last evaluations."""
    return float(np.mean(list(line["accuracy"].values())[-LATE:]))


def rate_of(done, setting, method):
    """Return a method's best rate on the tuning seed, for ``short``; elsewhere the example's."""
    tried = next(other for name, other in TUNED.items() if method.startswith(name))
    lines = {rate: done.get(f"tuning | {tried} | {rate:g} | {TUNING}") for rate in RATES}
    scores = {rate: late(line) for rate, line in lines.items() if line}
    return max(scores, key=scores.get) if scores and setting == "short" else 0.1


def compute(names, methods, seeds, out):
    """Compute what is missing, seed by seed."""
    out.mkdir(parents=True, exist_ok=True)
    done = known(out)
    for setting in (name for name in names if name in WORDS):
        for seed in seeds:
            for method in methods:
                once(done, out, setting, method, rate_of(done, setting, method), seed)


def tune(methods, out):
    """Try the same rates for everybody, where clients are sampled; print them as a table."""
    out.mkdir(parents=True, exist_ok=True)
    done = known(out)
    for method in dict.fromkeys(TUNED.values()):
        for rate in RATES if method in methods else ():
            once(done, out, "tuning", method, rate, TUNING)
    tuning(done)


def tuning(done):
    """Print what every method reached with every rate on the tuning seed."""
    print(
        "| method | "
        + " | ".join(f"rate {rate:g}" for rate in RATES)
        + " |\n|---"
        + "|---" * len(RATES)
        + "|"
    )
    for method in dict.fromkeys(TUNED.values()):
        lines = [done.get(f"tuning | {method} | {rate:g} | {TUNING}") for rate in RATES]
        if any(lines):
            scores = [late(line) if line else np.nan for line in lines]
            told = [f"{score:.1f}" if score < np.nanmax(scores) else f"**{score:.1f}**" for score in scores]
            print(f"| {method} | {' | '.join(told)} |")


def lost(done, setting, method, seeds):
    """Return points lost against FedAvg on every seed that both have, and the runs."""
    keys = (f"{setting} | {name} | {rate_of(done, setting, name):g} | " for name in (method, "FedAvg"))
    own, free = ([done.get(f"{key}{seed}") for seed in seeds] for key in keys)
    pairs = [(a, b) for a, b in zip(own, free, strict=True) if a and b]
    return np.array([late(free) - late(own) for own, free in pairs]), pairs


def ratios(pairs):
    """Return how many times fewer bytes there are than with FedAvg: arrays and messages, up and in all."""
    own, free = (np.sum([one[place]["bytes"] for one in pairs], axis=0) for place in (0, 1))
    return {
        "up": free[0] / own[0],
        "messages up": free[1] / own[1],
        "all": (free[0] + free[2]) / (own[0] + own[2]),
        "messages in all": (free[1] + free[3]) / (own[1] + own[3]),
    }


def interval(points):
    """Return a mean with its interval of 95 %; fewer than three seeds as they are."""
    if len(points) < 3:
        return ", ".join(f"{round(one, 2) + 0:.2f}" for one in points)
    half = stats.t.ppf(0.975, len(points) - 1) * points.std(ddof=1) / np.sqrt(len(points))
    return f"{points.mean():.2f} ± {half:.2f}"


def table(seeds, out):
    """Print every setting: points lost, ratios of bytes, and beside them what was to be reached."""
    done = known(out)
    for setting, words in WORDS.items():
        rows = []
        for method in METHODS:
            points, pairs = lost(done, setting, method, seeds)
            pairs = [pair for pair in pairs if "bytes" in pair[0]]
            if not pairs:
                continue
            times = ratios(pairs)
            limit = LIMITS.get((setting, method))
            told = goal = ""
            if limit:
                most, least, which = limit
                reached = times[which] >= least and (most is None or points.mean() <= most)
                allowed = "" if most is None else f"{most:g} lost, "
                goal = f"{allowed}{least}x {which}: " + ("reached" if reached else "**missed**")
                goal += f" ({len(pairs)} of {len(seeds)} seeds)" if len(pairs) < len(seeds) else ""
            if setting != "large":
                level = f"({np.mean([late(own) for own, _ in pairs]):.1f} %)"
                told = level if method == "FedAvg" else interval(points)
            rows.append(
                (
                    method,
                    f"{rate_of(done, setting, method):g}",
                    told,
                    *(f"{n:.1f}" for n in times.values()),
                    goal,
                )
            )
        if rows:
            print(
                f"\n*{words}*\n\n| method | rate | points lost | {' | '.join(times)} | to reach |\n|---"
                + "|---" * 7
                + "|"
            )
            for row in rows:
                print("| " + " | ".join(row) + " |")


def keep(out, path):
    """Write all numbers as a table with one line for each run."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["setting", "method", "rate", "seed", "rounds", "accuracies", *COUNTS, "clipped"])
        for line in known(out).values():
            found, counts = line["accuracy"], line.get("bytes", [""] * 4)
            numbers = " ".join(found), " ".join(map(str, found.values()))
            writer.writerow([*line["key"].split(" | "), *numbers, *counts, line.get("clipped", "")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", choices=[*WORDS, "tune", "table", "keep"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    if "tune" in options.what:
        tune(options.methods, options.out)
    compute(options.what, options.methods, options.seeds, options.out)
    if "table" in options.what:
        table(options.seeds, options.out)
    if "keep" in options.what:
        keep(options.out, ROOT / "docs/results/flower.csv")


if __name__ == "__main__":
    main()
