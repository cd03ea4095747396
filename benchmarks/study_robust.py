"""Flower's strategies alone and with 25x fewer bytes: ten clients, of whom three are hostile in four ways.

    python benchmarks/study_robust.py [--rounds 60] [--seed 1 2]          # robust ones among the hostile
    python benchmarks/study_robust.py gaps [--rounds 20] [--seed 1 2]     # all others, nobody hostile

An MLP of 25,450 numbers in NumPy learns MNIST, 200 images for a client, all in this process. Nothing clips
but the strategies themselves. One line for each strategy: accuracies in per cent, alone / inside Air.
"""

import argparse
import gc
import logging
import warnings

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as flower

from airfeel.flower import Air, air_mod
from airfeel.flower.local import LocalGrid
from airfeel.learning.datasets import load_dataset
from airfeel.learning.partitions.rules import IID

CLIENTS, HOSTILE, SAMPLES, HIDDEN = 10, 3, 200, 32
QUIET = {"fraction_evaluate": 0.0}
WAYS = ("nobody", "sign flip", "-1000 times", "noise", "labels")
STRATEGIES = {
    "FedAvg": {},
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": 0.3},
    "Krum": {"num_malicious_nodes": HOSTILE},
    "MultiKrum": {"num_malicious_nodes": HOSTILE, "num_nodes_to_select": CLIENTS - HOSTILE},
}
ALL = STRATEGIES | {  # Bulyan bears one of ten
    "FedProx": {"proximal_mu": 0.1},
    "FedAvgM": {"server_momentum": 0.5},
    "FedAdam": {"eta": 0.01},
    "FedAdagrad": {"eta": 0.03},
    "FedYogi": {"eta": 0.01},
    "Bulyan": {"num_malicious_nodes": 1},
    "QFedAvg": {"client_learning_rate": 0.1, "q": 0.2},
}
FEWER = {"ratio": 0.15, "bits": 8}
WHOLE = {"ratio": 1.0, "bits": 1}  # for QFedAvg, which needs the length of whole updates


def scores(model, inputs):
    hidden = np.maximum(inputs @ model["w1"] + model["b1"], 0)
    return hidden, hidden @ model["w2"] + model["b2"]


def learn(start, inputs, labels, near=0.0, rate=0.1, batch=20):
    """Go through the images once, drawn back to the start as FedProx asks; return model and mean loss."""
    model, losses = {name: array.copy() for name, array in start.items()}, []
    for first in range(0, len(labels), batch):
        part, wanted = inputs[first : first + batch], labels[first : first + batch]
        hidden, found = scores(model, part)
        odds = np.exp(found - found.max(axis=1, keepdims=True))
        losses.append(-np.log(odds[range(len(wanted)), wanted] / odds.sum(axis=1)).mean())
        wrong = (odds / odds.sum(axis=1, keepdims=True) - np.eye(10)[wanted]) / len(wanted)
        back = (wrong @ model["w2"].T) * (hidden > 0)
        steps = {"w1": part.T @ back, "b1": back.sum(0), "w2": hidden.T @ wrong, "b2": wrong.sum(0)}
        for name, step in steps.items():
            step = step + near * (model[name] - start[name])
            model[name] -= (rate * step).astype(np.float32)
    return model, float(np.mean(losses))


def client(way, held, seed):
    """Return the app of all clients, of which the first ones are hostile in some way."""
    app = ClientApp()

    @app.train(mods=[air_mod])
    def train(message, context):
        device, round = context.node_config["partition-id"], message.content["config"]["server-round"]
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        inputs, labels = held[device]
        hostile = device < HOSTILE
        near = message.content["config"].get("proximal-mu", 0.0)
        learned, loss = learn(model, inputs, 9 - labels if hostile and way == "labels" else labels, near)
        if hostile and way != "labels":
            draw, factor = (
                np.random.default_rng([seed, device, round]),
                {"sign flip": -1.0, "-1000 times": -1000.0},
            )
            for name, array in model.items():
                move = learned[name] - array
                if way == "noise":
                    move = draw.standard_normal(array.shape) * 10 * (np.sqrt(np.mean(move**2)) + 1e-6)
                else:
                    move = move * factor.get(way, 1.0)
                learned[name] = (array + move).astype(np.float32)
        content = {
            "arrays": record(learned),
            "metrics": MetricRecord({"num-examples": len(labels), "train_loss": loss}),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


def record(model):
    return ArrayRecord({name: Array(array) for name, array in model.items()})


def study(strategy, way, rounds, seed, data):
    """Return the accuracy in per cent after all rounds; that of a model that is not finite is chance."""
    parts = IID().draw(data.train_labels, [SAMPLES] * CLIENTS, seed)
    held = [(pixels(data.train_inputs[part]), np.array(data.train_labels[part])) for part in parts]
    draw = np.random.default_rng(seed)
    shapes = {"w1": (784, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 10), "b2": (10,)}
    model = {
        k: (draw.standard_normal(s) * (2 / s[0]) ** 0.5 * (len(s) > 1)).astype("f4")
        for k, s in shapes.items()
    }
    try:
        grid = LocalGrid(client(way, held, seed), CLIENTS)
        found = strategy.start(grid, record(model), rounds).arrays
    except ValueError:  # diverged
        return 10.0, strategy
    found = {name: array.numpy() for name, array in found.items()}
    if not all(np.isfinite(array).all() for array in found.values()):
        return 10.0, strategy
    guessed = scores(found, pixels(data.test_inputs))[1].argmax(axis=1)
    return 100 * float(np.mean(guessed == data.test_labels)), strategy


def pixels(images):
    return (np.array(images).reshape(len(images), -1).astype(np.float32) / 255 - 0.13) / 0.31


def compared(name, way, rounds, seeds, data, sent):
    """Return accuracies of a strategy by seed, alone and inside Air; and how many times fewer bytes go up."""
    alone, within, fewer = [], [], 0.0
    for seed in seeds:
        strategy = getattr(flower, name)(**ALL[name], **QUIET)
        alone.append(study(strategy, way, rounds, seed, data)[0])
        strategy = getattr(flower, name)(**ALL[name], **QUIET)
        strategy = Air(strategy, "scheduled", **sent, clip=None, seed=seed)
        accuracy, strategy = study(strategy, way, rounds, seed, data)
        within.append(accuracy)
        if strategy.rounds:
            fewer = CLIENTS * (25450 * 4 + 4 * 128) / strategy.rounds[0].traffic.up
    return np.array(alone), np.array(within), fewer


def hostile(rounds, seeds, data):
    print("| strategy | " + " | ".join(WAYS) + " |\n|---" + "|---" * len(WAYS) + "|", flush=True)
    for name in STRATEGIES:
        row = [compared(name, way, rounds, seeds, data, FEWER) for way in WAYS]
        told = (f"{alone.mean():.1f} / {within.mean():.1f}" for alone, within, _ in row)
        print(f"| {name} | {' | '.join(told)} |", flush=True)
    print(f"\n{row[0][2]:.1f} times fewer bytes of arrays up")


def gaps(rounds, seeds, data):
    print("| strategy | alone | points lost, each seed | fewer bytes up |\n|---|---|---|---|", flush=True)
    for name in (name for name in ALL if name not in STRATEGIES):  # those are in the other table
        sent = WHOLE if name == "QFedAvg" else FEWER
        alone, within, fewer = compared(name, "nobody", rounds, seeds, data, sent)
        lost = ", ".join(f"{round(points, 1) + 0:.1f}" for points in alone - within)
        print(f"| {name} | {alone.mean():.1f} % | {lost} | {fewer:.1f}x |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["hostile", "gaps"], default="hostile")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, nargs="+", default=[1, 2], help="the table has means over these")
    asked = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore", RuntimeWarning)  # what diverges overflows
    data = load_dataset("mnist")
    gc.freeze()  # Flower collects garbage for every reply of QFedAvg and Bulyan
    if asked.what == "gaps":
        gaps(asked.rounds or 20, asked.seed, data)
    else:
        hostile(asked.rounds or 60, asked.seed, data)


if __name__ == "__main__":
    main()
