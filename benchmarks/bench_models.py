"""A round of airfeel beside the same local training in plain PyTorch, as a ratio measured within one run.

    python benchmarks/bench_models.py                    the CNN and resnet8, one thread, processor time
    python benchmarks/bench_models.py --threads 2 --clock wall cnn

A round is that of the scheme ``dense``: local training of all devices, error-free sum, update; no evaluation.
Plain PyTorch sets one module to the global parameters, takes the same number of SGD steps on batches of the
same size for every device, and averages what comes out. Both take turns; the median of several is printed.
Images are noise, which costs what pictures cost.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import airfeel as af
from airfeel.learning.modules import resnet, small_cnn
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.loop import advance, start
from airfeel.workers import Workers

BOUND = 1.25
MODELS = {
    "cnn": ((28, 28), small_cnn),
    "resnet8": ((3, 32, 32), lambda: resnet(10, blocks=1)),
}
SETTING = {"devices.count": 10, "devices.samples": 400, "devices.batch_size": 50, "devices.local_steps": 8}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Ours:
    """One round after the other, as ``airfeel run`` does them."""

    def __init__(self, kind, data, threads):
        keys = {"scheme": "dense", "model.kind": kind, "model.preset": False, "rounds": 10**6}
        config = af.load_config(None, keys | SETTING | {"run.evaluate_every": 10**6})
        self.parts = assemble(config, Own(dataset=data))
        self.state, self.threads = start(self.parts), threads

    def __call__(self, workers):
        self.state = advance(self.parts, self.state, workers).state


class Plain:
    """The same local training as a script would have it."""

    def __init__(self, build, data, view):
        images, labels = (
            torch.from_numpy(data[0]).float().div_(255).view(-1, *view),
            torch.from_numpy(data[1]),
        )
        size = SETTING["devices.samples"]
        starts = range(0, SETTING["devices.count"] * size, size)
        self.data = [(images[i : i + size], labels[i : i + size]) for i in starts]
        self.module, self.rate = build(), 0.01
        self.theta = parameters_to_vector(self.module.parameters()).detach().clone()

    def __call__(self, workers):
        total = torch.zeros_like(self.theta)
        for images, labels in self.data:
            vector_to_parameters(self.theta.clone(), self.module.parameters())
            optimizer = torch.optim.SGD(self.module.parameters(), lr=self.rate)
            for _ in range(SETTING["devices.local_steps"]):
                batch = torch.randperm(len(labels))[: SETTING["devices.batch_size"]]
                optimizer.zero_grad()
                nn.functional.cross_entropy(self.module(images[batch]), labels[batch]).backward()
                optimizer.step()
            total += parameters_to_vector(self.module.parameters()).detach()
        self.theta = total / len(self.data)


def measure(kind, threads, clock, repeats):
    """Return the medians of both in milliseconds."""
    shape, build = MODELS[kind]
    rng, count = np.random.default_rng(0), SETTING["devices.count"] * SETTING["devices.samples"]
    images = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
    labels = rng.integers(0, 10, count)
    data = (images, labels, images[:100], labels[:100])
    contenders = (Ours(kind, data, threads), Plain(build, data, shape if len(shape) == 3 else (1, *shape)))
    seconds = ([], [])
    with Workers(threads) as workers:
        for repeat in range(repeats + 1):
            for work, times in zip(contenders, seconds, strict=True):
                torch.set_num_threads(threads if isinstance(work, Plain) else 1)
                began = clock()
                work(workers)
                if repeat:  # the first round of each warms the caches
                    times.append(1e3 * (clock() - began))
    return [statistics.median(times) for times in seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", default=[], help=f"of {', '.join(MODELS)}; all when not given")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    print(f"{'model':<10} {'round ms':>10} {'plain ms':>10} {'ratio':>7}  bound {BOUND}")
    for kind in options.models or MODELS:
        ours, plain = measure(kind, options.threads, CLOCKS[options.clock], options.repeats)
        verdict = "held" if ours <= BOUND * plain else "NOT held"
        print(f"{kind:<10} {ours:>10.1f} {plain:>10.1f} {ours / plain:>7.2f}  {verdict}")


if __name__ == "__main__":
    main()
