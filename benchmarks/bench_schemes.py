"""What a scheme's two halves cost, of all devices and of the server, in processor time with one thread.

    python benchmarks/bench_schemes.py                   N = 1e5 with 25 devices, every scheme with a radio
    python benchmarks/bench_schemes.py growth            scheduled beside common_k from N = 1e4 to 1e7
    python benchmarks/bench_schemes.py channels          over symbols and over samples

"Halves" are encode, the next memories and decode, where everybody is heard and where one is not. "Round" is
all that a round does beside the gradients: plan, memories, encode, air, decode. Every number is the smallest
of several, because other processes only make a round slower. s/N = 0.04; growth is in nanoseconds for each
coefficient of each device.
"""

import argparse
import time
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

import airfeel as af
from airfeel.radio.channels import GaussianMAC, complex_normal
from airfeel.radio.power import EqualPower
from airfeel.radio.response import Response
from airfeel.radio.waveform import Waveform
from airfeel.schemes.common_k import CommonK, SignVote
from airfeel.schemes.low_rank import LowRank
from airfeel.schemes.scheduled import Scheduled
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Heard, Setting, everywhere, size_of

SHAPES = {
    "dense layer that sees the samples": {"first": (125, 784), "bias": (125,), "second": (10, 125)},
    "convolutions": {"one": (32, 3, 3, 3), "two": (64, 32, 3, 3), "three": (128, 64, 3, 3), "out": (10, 128)},
    "one vector": {"theta": (100_000,)},
}
SOFTMAX = {"weights": (784, 10), "bias": (10,)}
SCHEMES = {
    "common_k": CommonK(),
    "scheduled": Scheduled(),
    "scheduled, none": Scheduled(keeps="none"),
    "scheduled, error": Scheduled(keeps="error"),
    "low_rank": LowRank(),
    "sign_vote": SignVote(),
}


def halves(scheme, shapes, devices, rounds, absent=1.0):
    """Return the least seconds of both halves together, over rounds that follow one another."""
    size = size_of(shapes)
    state = scheme.init(shapes, setting(size, devices))
    rows = np.random.default_rng(0).standard_normal((devices, size), dtype=np.float32)
    memory, delivered, took = everywhere(scheme.memory(shapes), devices), np.ones(devices), []
    delivered[0] = absent
    for t in range(1, rounds + 1):
        plan = scheme.plan(state, 1, t)
        began = time.process_time()
        sent = scheme.encode(plan, memory, rows)
        memory = scheme.settle(plan, memory, rows, sent, delivered)
        encoded = time.process_time() - began
        heard = Heard(delivered @ sent.signal / devices, 1e-3, share=float(delivered.mean()))
        began = time.process_time()
        _, state = scheme.decode(state, plan, heard)
        took.append(encoded + time.process_time() - began)
    return min(took)


def whole(scheme, shapes, devices, rounds, channel=None, ratio=0.04):
    """Return the least seconds of a round without the gradients."""
    size, air = size_of(shapes), Radio(channel or GaussianMAC(1.0), EqualPower(500.0))
    state = begin(scheme, shapes, setting(size, devices, ratio))
    rows = np.random.default_rng(0).standard_normal((devices, size), dtype=np.float32)
    took = []
    for t in range(1, rounds + 1):
        began = time.process_time()
        _, state = carry(scheme, air, state, rows, np.full(devices, 1 / devices), seed=1, round=t)
        took.append(time.process_time() - began)
    return min(took)


def setting(size, devices, ratio=0.04):
    return Setting(devices, round(ratio * size), 500.0, 1.0, 100)


MEASURES = partial(halves, absent=0.0), halves, whole


def schemes():
    columns = "halves, one absent", "halves, everybody", "round"
    print("| tensors | scheme | " + " | ".join(f"{name}, ms | over common_k" for name in columns) + " |")
    print("|---" * 8 + "|")
    for name, shapes in SHAPES.items():
        base = None
        for word, scheme in SCHEMES.items():
            try:
                found = np.array([measure(scheme, shapes, 25, 15) for measure in MEASURES])
            except ValueError as reason:
                print(f"| {name} | {word} | {reason} |")
                continue
            base = found if base is None else base
            cells = [f"{1e3 * ms:.1f} | {ratio:.1f}" for ms, ratio in zip(found, found / base, strict=True)]
            print(f"| {name} | {word} | " + " | ".join(cells) + " |", flush=True)


def growth():
    print("| N, a layer that sees the samples | common_k, ns | scheduled, ns | over common_k |")
    print("|---|---|---|---|")
    for units, inputs, devices in ((50, 200, 25), (160, 625, 25), (500, 2000, 10), (1600, 6250, 4)):
        size = units * inputs
        each = [
            1e9 * halves(scheme, {"first": (units, inputs)}, devices, 8) / devices / size
            for scheme in (CommonK(), Scheduled())
        ]
        print(f"| {size:.2g} | {each[0]:.2f} | {each[1]:.2f} | {each[1] / each[0]:.1f} |", flush=True)


def channels():
    air = {"gaussian": GaussianMAC(1.0), "response": Response(drawn), "waveform": Waveform()}
    rounds = {"tsa_ga": 0.1, "scheduled": 0.04}
    print("| scheme, s/N | " + " | ".join(f"{name}, ms | over gaussian" for name in air) + " |")
    print("|---" * 7 + "|")
    for word, ratio in rounds.items():
        scheme = af.load_config({"scheme": word}).part("scheme")
        found = np.array([whole(scheme, SOFTMAX, 25, 15, channel, ratio) for channel in air.values()])
        cells = [f"{1e3 * ms:.1f} | {more:.1f}" for ms, more in zip(found, found / found[0], strict=True)]
        print(f"| {word}, {ratio} | " + " | ".join(cells) + " |", flush=True)


def drawn(devices, elements, seed, round):
    return complex_normal((devices, elements), seed, "drawn", round)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", default="schemes", choices=["schemes", "growth", "channels"])
    with threadpool_limits(1):
        {"schemes": schemes, "growth": growth, "channels": channels}[parser.parse_args().table]()


if __name__ == "__main__":
    main()
