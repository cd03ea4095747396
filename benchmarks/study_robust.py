"""Ten clients, three of them hostile in four ways: Flower's robust strategies alone and with 25x fewer bytes.

    python benchmarks/study_robust.py [--rounds 60] [--seed 1 2]

An MLP of 25,450 numbers in NumPy learns MNIST, 200 images for a client, all in this process. Nothing clips
but the strategies themselves. One line for each strategy: accuracies in per cent, alone / inside Air.
"""

import argparse
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


def scores(model, inputs):
    hidden = np.maximum(inputs @ model["w1"] + model["b1"], 0)
    return hidden, hidden @ model["w2"] + model["b2"]


def learn(model, inputs, labels, rate=0.1, batch=20):
    """Go through the images once."""
    model = {name: array.copy() for name, array in model.items()}
    for start in range(0, len(labels), batch):
        part, wanted = inputs[start : start + batch], labels[start : start + batch]
        hidden, found = scores(model, part)
        odds = np.exp(found - found.max(axis=1, keepdims=True))
        wrong = (odds / odds.sum(axis=1, keepdims=True) - np.eye(10)[wanted]) / len(wanted)
        back = (wrong @ model["w2"].T) * (hidden > 0)
        steps = {"w1": part.T @ back, "b1": back.sum(0), "w2": hidden.T @ wrong, "b2": wrong.sum(0)}
        for name, step in steps.items():
            model[name] -= (rate * step).astype(np.float32)
    return model


def client(way, held, seed):
    """Return the app of all clients, of which the first ones are hostile in some way."""
    app = ClientApp()

    @app.train(mods=[air_mod])
    def train(message, context):
        device, round = context.node_config["partition-id"], message.content["config"]["server-round"]
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        inputs, labels = held[device]
        hostile = device < HOSTILE
        learned = learn(model, inputs, 9 - labels if hostile and way == "labels" else labels)
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
        content = {"arrays": record(learned), "metrics": MetricRecord({"num-examples": len(labels)})}
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, nargs="+", default=[1, 2], help="the table has means over these")
    asked = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore", RuntimeWarning)  # what diverges overflows
    data, fewer = load_dataset("mnist"), 0.0
    print("| strategy | " + " | ".join(WAYS) + " |\n|---" + "|---" * len(WAYS) + "|", flush=True)
    for name, given in STRATEGIES.items():
        row = []
        for way in WAYS:
            means = []
            for inside in (False, True):
                found = []
                for seed in asked.seed:
                    strategy = getattr(flower, name)(**given, **QUIET)
                    if inside:
                        strategy = Air(strategy, "scheduled", 0.15, bits=8, clip=None, seed=seed)
                    accuracy, strategy = study(strategy, way, asked.rounds, seed, data)
                    found.append(accuracy)
                means.append(np.mean(found))
            row.append(f"{means[0]:.1f} / {means[1]:.1f}")
            if strategy.rounds:
                fewer = CLIENTS * (25450 * 4 + 4 * 128) / strategy.rounds[0].traffic.up
        print(f"| {name} | {' | '.join(row)} |", flush=True)
    print(f"\n{fewer:.1f} times fewer bytes of arrays up")


if __name__ == "__main__":
    main()
