"""Time and memory of a round over N and M, with error memories in files where they are large.

    python benchmarks/bench_scale.py                     both tables
    python benchmarks/bench_scale.py grid --most 1e9     with cells up to M x N = 1e9, which take minutes each
    python benchmarks/bench_scale.py large               runs with a folder: M = 1000, and a ResNet-18's size
    python benchmarks/bench_scale.py train --sampled 10 100 1000    ten million parameters that really train

Gradients are synthetic and cost little, so that the table shows the cost of schemes and error memories. Every
cell is a process of its own with one thread. Time is processor time: in the grid of the fastest of the last
three rounds, in the large runs the mean of all, start and checkpoints included. Memory is the peak of the
process, of which error memories in files are pages that the system takes back when others need them; "own" is
the peak without those and without the interpreter and its libraries, which is what the estimate is about.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import airfeel as af
from airfeel.learning.datasets import Dataset
from airfeel.learning.tasks import Samples, Score
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.loop import start, steps
from airfeel.simulation.memory import estimate

SCHEMES = ("dense", "common_k", "tsa_ga")
SIZES, DEVICES = (10**4, 10**5, 10**6, 10**7), (10, 100, 1000)
LARGE = ((1000, 10**5), (25, 11_000_000))
ROUNDS = {"dense": 3, "common_k": 3, "scheduled": 4, "tsa_ga": 6}  # its window has five rounds
LIMIT = 8e9


@dataclass(frozen=True)
class Synthetic:
    """Gradients with a few large entries that stay where they are from round to round."""

    size: int = 1000

    def init(self, seed):
        return np.zeros(self.size)

    def prepare(self, images, labels):
        return Samples(images, labels)

    def gradient(self, theta, samples):
        own = int(samples.inputs.sum()) + int(1e6 * abs(theta[0]))
        noise = np.random.Generator(np.random.SFC64(own)).standard_normal(self.size, dtype=np.float32)
        noise[:: max(1, self.size // 1000)] += 30
        return noise

    def evaluate(self, theta, samples):
        return Score(float(theta[:1000] @ theta[:1000]), float("nan"))


def settings(scheme, devices, size):
    """Return a configuration, the task, and data that nobody looks at."""
    rng = np.random.default_rng(1)
    data = Dataset.from_arrays(
        rng.integers(0, 255, (2 * devices, 4, 4)).astype(np.uint8),
        np.arange(2 * devices) % 2,
        np.zeros((2, 4, 4), np.uint8),
        np.arange(2),
        name="noise",
    )
    flat = {"scheme": scheme, "devices.count": devices, "devices.samples": 2, "rounds": ROUNDS[scheme]}
    flat |= {"devices.learning_rate": 0.001, "run.threads": 1, "run.checkpoint_every": 2}
    if scheme == "tsa_ga":
        flat |= {"uplink.block": 16384, "receiver.learn_from": 2}
    return af.load_config(None, flat), Synthetic(size), data


class Watch(threading.Thread):
    """The peak of the process's own memory, and of its pages of files."""

    def __init__(self):
        super().__init__(daemon=True)
        self.base, self.own, self.files = self.now()["RssAnon"], 0, 0

    @staticmethod
    def now():
        words = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
        return {word[0][:-1]: 1024 * int(word[1]) for word in words if word[0].startswith(("Rss", "VmHWM"))}

    def run(self):
        while True:
            found = self.now()
            self.own, self.files = max(self.own, found["RssAnon"]), max(self.files, found["RssFile"])
            time.sleep(0.005)


def measure(scheme, devices, size, folder):
    """Run in this process; return seconds of a round, bytes at the peak, and the estimate."""
    config, task, data = settings(scheme, devices, size)
    watch = Watch()
    watch.start()
    took = []
    if folder:
        began = time.process_time()
        with tempfile.TemporaryDirectory(dir=".") as out:
            af.run(config, task=task, dataset=data, out=out)
        took.append((time.process_time() - began) / ROUNDS[scheme])
    else:
        parts = assemble(config, Own(task=task, dataset=data))
        began = time.process_time()
        for _ in steps(parts, start(parts)):
            took.append(time.process_time() - began)
            began = time.process_time()
    told = estimate(config, task, data, config.part("scheme"))
    return {
        "seconds": min(took[-3:]),
        "peak": Watch.now()["VmHWM"],
        "own": watch.own - watch.base,
        "files": watch.files,
        "told": told.memory,
        "disk": told.disk,
    }


def in_a_process(*words, call="measure"):
    code = f"import json, bench_scale; print(json.dumps(bench_scale.{call}(*{words!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def trained(sampled):
    """Train a perceptron of ten million parameters on MNIST with devices that carry nothing; one round.

    Of a thousand devices with ten images each so many take part, s/N = 0.001.
    """
    settings = {
        "scheme": "scheduled",
        "uplink.memory": "none",
        "uplink.ratio": 0.001,
        "model.kind": "mlp",
        "model.hidden": [2800, 2800],
        "model.preset": False,
        "devices.count": 1000,
        "devices.samples": 10,
        "devices.participation": sampled / 1000,
        "devices.learning_rate": 0.1,
        "run.threads": 1,
        "rounds": 1,
    }
    watch = Watch()
    watch.start()
    parts = assemble(af.load_config(None, settings))
    before = time.process_time()
    (step,) = steps(parts, start(parts))
    return {
        "seconds": time.process_time() - before,
        "own": watch.own - watch.base,
        "peak": Watch.now()["VmHWM"],
        "told": parts.needs.memory,
        "loss": step.record.loss,
    }


def train_table(sampled):
    heading = "s, with the evaluation | ms per device | peak, GB | own, GB | estimate, GB | loss after it"
    print(f"| devices in the round | {heading} |\n|{'---|' * 7}", flush=True)
    for count in sampled:
        found = in_a_process(count, call="trained")
        if isinstance(found, str):
            print(f"| {count} | {found} |", flush=True)
            continue
        memory = " | ".join(f"{found[key] / 1e9:.2f}" for key in ("peak", "own", "told"))
        each = 1000 * found["seconds"] / count
        print(
            f"| {count} | {found['seconds']:.1f} | {each:.0f} | {memory} | {found['loss']:.3f} |", flush=True
        )


HEADER = (
    "| scheme | M | N | s per round | peak, GB | own, GB | estimate, GB | estimate / own | disk, GB |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def row(scheme, devices, size, found):
    """Return a line of the table: measured, or the reason why not."""
    head = f"| `{scheme}` | {devices} | {size:.3g} |"
    if isinstance(found, str):
        return f"{head} {found} |"
    numbers = [found[name] / 1e9 for name in ("peak", "own", "told")]
    cells = [f"{found['seconds']:.3g}", *(f"{number:.2f}" for number in numbers)]
    cells += [f"{found['told'] / found['own']:.2f}", f"{found['disk'] / 1e9:.2f}" if found["disk"] else "-"]
    return f"{head} {' | '.join(cells)} |"


def grid(most, schemes):
    print(HEADER)
    pairs = sorted(((m, n) for n in SIZES for m in DEVICES), key=lambda pair: pair[0] * pair[1])
    cells = [(scheme, m, n) for scheme in schemes for m, n in pairs]
    measured = {scheme: [] for scheme in schemes}
    for scheme, devices, size in cells:
        if devices * size > most:
            print(row(scheme, devices, size, f"not run: M x N > {most:.0e}"), flush=True)
            continue
        config, task, data = settings(scheme, devices, size)
        told = estimate(config, task, data, config.part("scheme")).memory
        if told > LIMIT:
            print(row(scheme, devices, size, f"not run: needs about {told / 1e9:.3g} GB"), flush=True)
            continue
        found = in_a_process(scheme, devices, size, False)
        print(row(scheme, devices, size, found), flush=True)
        if not isinstance(found, str):
            measured[scheme].append((devices, size, found))
    for scheme, rows in measured.items():
        print(f"\n{scheme}: {fitted(rows)}", flush=True)


def fitted(rows):
    """Return the exponents of N and M in time and in own memory, where a round has more than fixed costs."""
    large = [(m, n, found) for m, n, found in rows if m * n >= 1e6]
    logs = np.log([[m, n, found["seconds"], found["own"]] for m, n, found in large])
    design = np.column_stack([np.ones(len(logs)), logs[:, 1], logs[:, 0]])
    time_fit, memory_fit = (np.linalg.lstsq(design, logs[:, i], rcond=None)[0] for i in (2, 3))
    return (
        f"time ~ N^{time_fit[1]:.2f} M^{time_fit[2]:.2f}, "
        f"own memory ~ N^{memory_fit[1]:.2f} M^{memory_fit[2]:.2f} ({len(large)} cells with M x N >= 1e6)"
    )


def large(schemes):
    print(HEADER)
    for devices, size in LARGE:
        for scheme in schemes:
            found = in_a_process(scheme, devices, size, True)
            print(row(scheme, devices, size, found), flush=True)
            if not isinstance(found, str) and found["peak"] > LIMIT:
                raise SystemExit(f"{scheme}: {found['peak'] / 1e9:.3g} GB, more than {LIMIT / 1e9:.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", default=["grid", "large"])
    parser.add_argument("--most", type=float, default=1e8, help="largest M x N of the grid")
    parser.add_argument("--schemes", nargs="*", default=SCHEMES)
    parser.add_argument("--sampled", type=int, nargs="*", default=(10, 100, 1000))
    options = parser.parse_args()
    if "train" in options.tables:
        train_table(options.sampled)
    if "large" in options.tables:
        large(options.schemes)
    if "grid" in options.tables:
        grid(options.most, options.schemes)


if __name__ == "__main__":
    main()
