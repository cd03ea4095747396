"""Cost of a whole federated round, in ratios measured within one run.

    python benchmarks/bench_round.py            all four tables (needs PyTorch for two of them)
    python benchmarks/bench_round.py gradient radio round memory

Times are the best of many, and the contenders of a ratio take turns, so that a busy machine slows all of them
alike. Every part uses the same number of threads. On a machine too busy for that, ``--threads 1 --clock cpu``
compares processor time instead.
"""

import argparse
import copy
import resource
import subprocess
import sys
import time

import numpy as np
from scipy import fft

import airfeel as af
from airfeel.learning.datasets import load_dataset
from airfeel.learning.models.softmax import SoftmaxRegression
from airfeel.learning.partitions.rules import IID
from airfeel.learning.training import evaluate, local_gradients, shares, split
from airfeel.learning.training.sgd import LocalSGD
from airfeel.radio.channels import GaussianMAC
from airfeel.radio.power import EqualPower
from airfeel.units import count
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting as SchemeSetting
from airfeel.workers import Workers

RATE, RATIO, SPARSITY, POWER = 0.01, 0.1, 0.2, 500.0
SETTLED = 12  # rounds played before timing: the receiver learns (EM) from round 10 on


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = CLOCKS["wall"]


def take_turns(contenders, repeats):
    """Return each contender's best time in milliseconds, calling them in turn.

    The first call of a turn is not timed: after a contender that uses OpenMP its threads spin for some
    milliseconds on a core that the next one needs, and every contender is to find the caches as its own last
    round left them.
    """
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(repeats):
        for name, work in contenders.items():
            work()
            start = clock()
            work()
            best[name] = min(best[name], 1e3 * (clock() - start))
    return best


def line(what, ours, other, bound, holds):
    print(
        f"{what:<58} {ours:>9.2f} {other:>9.2f} {ours / other:>7.2f}  {bound:<8} {'yes' if holds else 'NO'}"
    )


def header(title, ours, other):
    print(f"\n{title:<58} {ours:>9} {other:>9} {'ratio':>7}  {'bound':<8} held")


def tsa_ga(fast):
    """Return the scheme as ``airfeel run`` makes it."""
    uplink = {"uplink.ratio": RATIO, "uplink.sparsity": SPARSITY, "uplink.power": POWER, "uplink.fast": fast}
    uplink["scheme"] = "tsa_ga"
    return af.load_config(None, uplink).part("scheme")


class Setting:
    """MNIST on 25 devices with 1000 samples each, and a TSA-GA scheme on it."""

    def __init__(self, workers, num_devices=25, samples=1000, fast=False):
        self.data = load_dataset("mnist")
        self.task, self.workers = SoftmaxRegression(), workers
        self.parts = IID().draw(self.data.train_labels, [samples] * num_devices, seed=0, pool=self.data.pool)
        images, labels = self.data.train_inputs, self.data.train_labels
        self.samples = [self.task.prepare(images[part], labels[part]) for part in self.parts]
        self.test = split(self.task, self.data.test_inputs, self.data.test_labels)
        self.weights = shares(self.samples)
        self.scheme = tsa_ga(fast)
        self.air = Radio(GaussianMAC(), EqualPower(POWER))
        setting = SchemeSetting(num_devices, count(RATIO, self.task.size))
        self.state = begin(self.scheme, {"theta": (self.task.size,)}, setting)
        self.theta = self.task.init(0)
        for t in range(1, SETTLED):
            self.theta, self.state = self.play(t)
        self.gradients = self.local(1)

    def local(self, steps):
        training = LocalSGD(steps)
        return local_gradients(
            self.task, self.theta, self.samples, training, rate=RATE, seed=0, round=1, workers=self.workers
        )

    def radio(self, gradients, round=SETTLED):
        with fft.set_workers(self.workers.threads):  # as the training loop does
            return carry(self.scheme, self.air, self.state, gradients, self.weights, seed=0, round=round)

    def play(self, round=SETTLED):
        """Play one round up to the new parameters and the devices' and receiver's new state."""
        aggregate, state = self.radio(self.local(1), round)
        return self.theta - RATE * aggregate.mean, state

    def whole(self):
        theta, _ = self.play()
        return evaluate(self.task, theta, self.test, self.workers)


def bare_products(setting, steps):
    """Return the two matrix products of a gradient in several layouts, over the same threads."""
    rng = np.random.default_rng(0)
    images = setting.data.train_inputs.reshape(-1, 784)
    wide = [np.vstack([images[p].T / 255, np.ones((1, len(p)))]).astype(np.float32) for p in setting.parts]
    tall = [np.ascontiguousarray(x.T) for x in wide]
    weights = rng.standard_normal((785, 10)).astype(np.float32)
    residual = rng.standard_normal((1000, 10)).astype(np.float32)
    flat_weights, flat_residual = np.ascontiguousarray(weights.T), np.ascontiguousarray(residual.T)
    layouts = {
        "X W, X^T R": lambda x, _: (x @ weights, x.T @ residual),
        "X W, R^T X": lambda x, _: (x @ weights, flat_residual @ x),
        "W^T X, X R": lambda _, x: (flat_weights @ x, x @ residual),
        "W^T X, R^T X^T": lambda _, x: (flat_weights @ x, flat_residual @ x.T),
    }

    def over_devices(product):
        def device(m):
            for _ in range(steps):
                product(tall[m], wide[m])

        return lambda: setting.workers.map(device, range(len(tall)))

    return {name: over_devices(product) for name, product in layouts.items()}


def gradient_part(setting, repeats):
    header("gradient part, 25 devices x 1000 samples", "ms", "products")
    for steps in (1, 5):
        bare = bare_products(setting, steps)
        best = take_turns({"ours": lambda steps=steps: setting.local(steps), **bare}, repeats)
        ours = best.pop("ours")
        layout = min(best, key=best.get)
        line(
            f"E = {steps}; fastest layout: {layout}", ours, best[layout], "<= 1.4", ours <= 1.4 * best[layout]
        )


def radio_part(workers, repeats):
    header("radio part of TSA-GA, N = 7850, s = 785, k = 1570", "ms", "gradient")
    for fast in (False, True):
        setting = Setting(workers, fast=fast)
        contenders = {
            "radio": lambda s=setting: s.radio(s.gradients),
            "gradient": lambda s=setting: s.local(1),
        }
        best = take_turns(contenders, repeats)
        what = f"top-k, compress, power, channel, receive; fast = {fast}"
        line(what, best["radio"], best["gradient"], "< 0.5", best["radio"] < 0.5 * best["gradient"])


def whole_round(workers, repeats):
    header("whole round with evaluation on 10,000 images", "ms", "script")
    for fast in (False, True):
        setting = Setting(workers, fast=fast)
        script = ResearchScript(setting)
        agree = np.abs(script.accumulated() - (setting.state.memory["error"] + setting.gradients)).max()
        assert agree < 1e-5, f"the script does not compute the same round: {agree}"
        best = take_turns({"ours": setting.whole, "script": script.whole}, repeats)
        held = best["script"] >= 2.5 * best["ours"]
        what = f"TSA-GA round, fast = {fast}; the usual research script"
        line(what, best["ours"], best["script"], "<= 0.40", held)


class ResearchScript:
    """The same round as it is usually written: a PyTorch model copy per device, and 25 float64 iterations."""

    def __init__(self, setting):
        import torch

        torch.set_num_threads(setting.workers.threads)
        self.torch, self.setting, data = torch, setting, setting.data
        train, self.test = (
            (torch.from_numpy(images.reshape(-1, 784) / 255.0).float(), torch.from_numpy(np.array(labels)))
            for images, labels in (
                (data.train_inputs, data.train_labels),
                (data.test_inputs, data.test_labels),
            )
        )
        self.devices = [(train[0][part], train[1][part]) for part in setting.parts]
        self.model = torch.nn.Linear(784, 10)
        weights = setting.theta[:7840].reshape(784, 10).T
        self.model.weight.data = torch.from_numpy(np.ascontiguousarray(weights)).float()
        self.model.bias.data = torch.from_numpy(setting.theta[7840:]).float()
        self.memory = torch.from_numpy(np.array(setting.state.memory["error"]))

    def gradient(self, images, labels):
        model = copy.deepcopy(self.model)
        self.torch.nn.functional.cross_entropy(model(images), labels).backward()
        return self.torch.cat([model.weight.grad.T.reshape(-1), model.bias.grad])

    def accumulated(self):
        rows = [self.gradient(*device) + self.memory[m] for m, device in enumerate(self.devices)]
        return self.torch.stack(rows).numpy()

    def whole(self):
        size, rows = 7850, 785
        chosen = np.random.default_rng(1).choice(size, rows, replace=False)
        signals, memory = [], []
        for m, device in enumerate(self.devices):
            total = self.gradient(*device) + self.memory[m]
            index = self.torch.topk(total.abs(), round(SPARSITY * size)).indices
            kept = self.torch.zeros_like(total)
            kept[index] = total[index]
            memory.append(total - kept)
            signals.append(fft.dct(kept.numpy().astype(np.float64), norm="ortho")[chosen])
        alpha = POWER / max(float(signal @ signal) for signal in signals)
        scale = len(signals) * np.sqrt(alpha)
        heard = np.sum(signals, axis=0) * np.sqrt(alpha) + np.random.default_rng(2).standard_normal(rows)
        estimate = plain_turbo(heard / scale, chosen, size, 1 / scale**2)
        return self.score(self.torch.from_numpy(estimate).float())

    def score(self, estimate):
        with self.torch.no_grad():
            model = copy.deepcopy(self.model)
            model.weight -= RATE * estimate[:7840].reshape(784, 10).T
            model.bias -= RATE * estimate[7840:]
            outputs = model(self.test[0])
            loss = self.torch.nn.functional.cross_entropy(outputs, self.test[1])
            return float(loss), float((outputs.argmax(1) == self.test[1]).float().mean())


def plain_turbo(y, chosen, size, noise_var, activity=SPARSITY, iterations=25):
    """Independent Turbo-CS, (22)-(31), written down as it stands."""
    oversampling = size / len(y)
    gamma = max(float(y @ y) / len(y) - noise_var, 1e-12) / activity
    m, v = np.zeros(size), activity * gamma
    for _ in range(iterations):
        gap = np.zeros(size)
        gap[chosen] = y - fft.dct(m, norm="ortho")[chosen]
        z = m + oversampling * fft.idct(gap, norm="ortho")
        tau = (oversampling - 1) * v + oversampling * noise_var
        odds = np.log(activity / (1 - activity)) + 0.5 * np.log(tau / (gamma + tau))
        odds = odds + z**2 / (2 * tau) - z**2 / (2 * (gamma + tau))
        pi = 1 / (1 + np.exp(-odds))
        m1, v1 = z * gamma / (gamma + tau), gamma * tau / (gamma + tau)
        mean = pi * m1
        total = max(float(np.mean(pi * (v1 + m1**2) - mean**2)), 1e-300)
        v = 1 / max(1 / total - 1 / tau, 1e-12 / tau)
        m = v * (mean / total - z / tau)
    return mean


def many_devices():
    """M = 1000 devices with 100 samples each, which share images."""
    with Workers() as workers:
        setting = Setting(workers, num_devices=1000, samples=100, fast=True)
        start = time.perf_counter()
        setting.whole()
        return time.perf_counter() - start


def large_model():
    """M = 10 devices and a torch model of a million parameters."""
    from torch import nn

    from airfeel.learning.torch_task import TorchTask

    def build():
        return nn.Sequential(nn.Linear(784, 1200), nn.ReLU(), nn.Linear(1200, 47))

    data, task = load_dataset("mnist"), TorchTask(build, view=(784,))
    samples = [
        task.prepare(data.train_inputs[part], data.train_labels[part])
        for part in IID().draw(data.train_labels, [200] * 10, seed=0, pool=data.pool)
    ]
    scheme, air = tsa_ga(fast=True), Radio(GaussianMAC(), EqualPower(POWER))
    state = begin(scheme, task.shapes, SchemeSetting(10, count(RATIO, task.size)))
    theta, weights = task.init(0), shares(samples)
    with Workers() as workers:
        for t in range(1, SETTLED + 1):
            start = time.perf_counter()
            gradients = local_gradients(
                task, theta, samples, LocalSGD(), rate=RATE, seed=0, round=t, workers=workers
            )
            aggregate, state = carry(scheme, air, state, gradients, weights, seed=0, round=t)
            theta = theta - RATE * aggregate.mean
    assert task.size > 998_000
    return time.perf_counter() - start


LARGE = {"many": many_devices, "large": large_model}


def memory_part():
    header("peak memory of a process with 12 rounds, GB", "GB", "allowed")
    titles = {
        "many": "M = 1000 devices x 100 samples, N = 7850",
        "large": "M = 10 devices, torch model with N = 1e6",
    }
    for name, title in titles.items():
        command = [sys.executable, __file__, "--child", name]
        seconds, peak = map(float, subprocess.run(command, check=True, capture_output=True).stdout.split())
        line(f"{title}; a round in {seconds:.2f} s", peak, 8.0, "<= 1", peak <= 8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", default=["gradient", "radio", "round", "memory"])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--child", choices=LARGE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    global clock
    clock = CLOCKS[options.clock]
    if options.child:
        seconds = LARGE[options.child]()
        print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)
        return
    with Workers(options.threads) as workers:
        print(f"{workers.threads} threads, {options.clock} time, best of {options.repeats}")
        if "gradient" in options.tables:
            gradient_part(Setting(workers), options.repeats)
        if "radio" in options.tables:
            radio_part(workers, options.repeats)
        if "round" in options.tables:
            whole_round(workers, options.repeats)
    if "memory" in options.tables:
        memory_part()


if __name__ == "__main__":
    main()
