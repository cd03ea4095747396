"""Which part of the scheme ``scheduled`` brings what, and where it is weak.

    python benchmarks/study_scheduled.py parts rates permuted robust causes weak --out results/scheduled

Every table is a gap in points to training without radio (``dense``) at round 100, a mean over seeds that are
kept for choosing (from 10 on; ``robust``: 100 to 104): M = 10 devices with 300 samples each, P = 500.
Softmax regression and the MLP take steps of 0.3, the CNN five of 0.1 with batches of 60. Runs are kept in
``--out``: a study that was interrupted goes on where it was.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from airfeel.config import load_config
from airfeel.lab.runner import execute
from airfeel.lab.store import read_records
from airfeel.learning.datasets import load_dataset
from airfeel.schemes import basis, scheduled
from airfeel.schemes.scheduled import Scheduled
from airfeel.streams import stream

SEEDS = {"softmax": (10, 11), "mlp": (10,), "cnn": (10,)}
REPORTED = (100, 101, 102, 103, 104)
MODELS = {
    "softmax": {"devices.learning_rate": 0.3},
    "mlp": {"model.kind": "mlp", "model.preset": False, "devices.learning_rate": 0.3},
    "cnn": {
        "model.kind": "cnn",
        "devices.learning_rate": 0.1,
        "devices.local_steps": 5,
        "devices.batch_size": 60,
    },
}
ALL = {
    "rounds": 100,
    "devices.count": 10,
    "devices.samples": 300,
    "uplink.power": 500.0,
    "run.evaluate_every": 25,
    "run.threads": 1,
}
PARTITIONS = {"IID": {}, "χ = 2": {"partition.kind": "classes", "partition.classes": 2}}
OWN = "study_scheduled:"


class RandomChoice(Scheduled):
    """Without the schedule: any s coefficients."""

    def plan(self, state, seed, round):
        """Draw the coefficients."""
        draw = stream(seed, "schedule", round)
        chosen = np.sort(draw.choice(len(state.age), state.symbols, replace=False)).astype(np.int32)
        plan = super().plan(state, seed, round)
        return {**plan, "chosen": chosen, "ages": state.age[chosen] + 1}


class OldestFirst(Scheduled):
    """Without the record of energies: what has waited longest."""

    def _waiting(self, state):
        return (state.age + 1.0) ** self.age_exponent


class NoPrior(Scheduled):
    """Without rows and columns: what was never heard is taken for the mean."""

    def _waiting(self, state):
        seen = state.energy >= 0
        if not seen.any():
            return np.ones(len(seen))
        mean = state.energy[seen].mean()
        energy = np.maximum(np.where(seen, state.energy, mean), 0.003 * mean)
        return energy * (state.age + 1.0) ** self.age_exponent


class FlatStart(Scheduled):
    """Low frequencies are not expected to be larger."""

    def _waiting(self, state):
        layout = tuple(basis.Tensor(tensor.matrix) for tensor in basis.read(state.layout))
        energy = scheduled.expected_energy(state.energy, layout)
        return energy * (state.age + 1.0) ** self.age_exponent


class Floor(Scheduled):
    """No energy is taken for less than 0.03 of the mean."""

    def _waiting(self, state):
        energy = np.maximum(state.expected, 0.03 * state.expected.mean())
        return energy * (state.age + 1.0) ** self.age_exponent


PARTS = {
    "**scheduled**": {"scheme": "scheduled"},
    "without schedule (random choice)": {"scheme": f"{OWN}RandomChoice"},
    "without record (oldest first)": {"scheme": f"{OWN}OldestFirst"},
    "without prior": {"scheme": f"{OWN}NoPrior"},
    "without low frequencies first": {"scheme": f"{OWN}FlatStart"},
    "without basis": {"scheme": "scheduled", "uplink.basis": "identity"},
    "cosines for every matrix": {"scheme": "scheduled", "uplink.basis": "dct"},
    "age exponent 1": {"scheme": "scheduled", "uplink.age_exponent": 1.0},
    "age exponent 3": {"scheme": "scheduled", "uplink.age_exponent": 3.0},
    "without memory": {"scheme": "scheduled", "uplink.memory": "none"},
    "without control": {"scheme": "scheduled", "uplink.memory": "average"},
    "without clip": {"scheme": "scheduled", "uplink.clip": 1e30},
    "0.2's error memory": {"scheme": "scheduled", "uplink.memory": "error"},
    "with a floor": {"scheme": f"{OWN}Floor"},
    "with warm-up": {"scheme": "scheduled", "uplink.warmup": True},
}


def permuted():
    """Return MNIST with its pixels in an order that means nothing."""
    data = load_dataset("mnist")
    order = np.random.default_rng(1).permutation(784)
    images = (data.train_inputs, data.test_inputs)
    train, test = (x.reshape(len(x), 784)[:, order].reshape(x.shape) for x in images)
    return train, data.train_labels, test, data.test_labels


@dataclass(frozen=True)
class Study:
    """Runs by setting and seed, each computed once and kept on disk."""

    out: Path

    def accuracy(self, settings, seed):
        """Return the accuracy after the last round, in percent."""
        config = load_config(None, ALL | settings | {"seed": seed})
        return 100 * read_records(execute(config, self.out).folder)[-1].accuracy

    def gap(self, model, scheme, settings, seeds=None, ideal=None):
        """Return accuracy minus that of training without radio, one number per seed."""
        seeds = seeds or SEEDS[model]
        under = MODELS[model] | settings
        own = [self.accuracy(under | scheme, seed) for seed in seeds]
        free = [self.accuracy(under | {"scheme": "dense"} | (ideal or {}), seed) for seed in seeds]
        return np.subtract(own, free)

    def table(self, rows, columns, title):
        """Print a table of gaps; rows are schemes by name, columns (model, settings) by name."""
        print(f"\n*{title}*\n\n| | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
        for name, scheme in rows.items():
            cells = []
            for model, settings in columns.values():
                gap = self.gap(model, scheme, settings)
                cells.append(f"{gap.mean():+.1f} ({gap.min():+.1f})")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)

    def circumstances(self, model, conditions, seeds, partitions):
        """Print a table of the scheme's gaps; rows are circumstances by name, columns the partitions."""
        print(f"\n*{model}, 4 %, under other circumstances*\n\n| | " + " | ".join(partitions) + " |")
        print("|---" * (1 + len(partitions)) + "|")
        for name, condition in conditions.items():
            under = {"uplink.ratio": 0.04} | condition
            gaps = [
                self.gap(model, PARTS["**scheduled**"], under | partition, seeds)
                for partition in partitions.values()
            ]
            cells = (f"{gap.mean():+.1f} ({gap.min():+.1f})" for gap in gaps)
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def cells(models, ratios):
    """Return (model, settings) by name for every model, compression and partition."""
    return {
        f"{model}, {100 * ratio:g} %, {name}": (model, partition | {"uplink.ratio": ratio})
        for model in models
        for ratio in ratios
        for name, partition in PARTITIONS.items()
    }


def parts(study):
    """Remove each part alone."""
    study.table(PARTS, cells(["softmax"], [0.04, 0.01]), "each part removed, softmax")
    study.table(PARTS, cells(["mlp"], [0.04, 0.01]), "each part removed, MLP")
    study.table(PARTS, cells(["cnn"], [0.04]), "each part removed, CNN")


def rates(study):
    """Go through learning rates."""
    columns = {
        f"{name}, η = {rate}": (model, settings | {"devices.learning_rate": rate})
        for name, (model, settings) in cells(["softmax"], [0.04, 0.01]).items()
        for rate in (0.01, 0.03, 0.1, 0.3)
    }
    rows = {name: PARTS[name] for name in ("**scheduled**", "age exponent 3")}
    study.table(rows, columns, "learning rates")


def shuffled(study):
    """Take away the order of the pixels."""
    columns = {
        f"{name}, permuted": (model, settings | {"dataset": f"{OWN}permuted"})
        for name, (model, settings) in cells(["softmax"], [0.04, 0.01]).items()
    }
    study.table({name: PARTS[name] for name in ("**scheduled**", "without basis")}, columns, "permuted")


CONDITIONS = {
    "as above": {},
    "Rayleigh fading": {"channel.kind": "fading"},
    "half of the devices": {"devices.participation": 0.5},
    "dropout 0.2": {"devices.dropout": 0.2},
    "unequal $K_m$": {"devices.spread": 1.0},
    "batches of 30": {"devices.batch_size": 30},
    "P = 50": {"uplink.power": 50.0},
    "P = 5": {"uplink.power": 5.0},
}


def robust(study):
    """Change the circumstances."""
    for model in ("softmax", "cnn"):
        study.circumstances(model, CONDITIONS, REPORTED, PARTITIONS)


# What a gap is made of: more power, more symbols, or another rate take away a part of it, or do not.
CAUSES = {
    "as above": {},
    "s/N = 0.02": {"uplink.ratio": 0.02},
    "Rayleigh fading": CONDITIONS["Rayleigh fading"],
    "Rayleigh fading, P = 5000": {"channel.kind": "fading", "uplink.power": 5000.0},
    "Rayleigh fading, policy mse": {"channel.kind": "fading", "uplink.policy": "mse"},
    "half of the devices": CONDITIONS["half of the devices"],
    "half of the devices, P = 5000": {"devices.participation": 0.5, "uplink.power": 5000.0},
    "half of the devices, s/N = 0.08": {"devices.participation": 0.5, "uplink.ratio": 0.08},
    "dropout 0.2": CONDITIONS["dropout 0.2"],
    "momentum 0.9 at the devices, η = 0.03": {"devices.momentum": 0.9, "devices.learning_rate": 0.03},
}


def causes(study):
    """Ask why the CNN suffers where it does: with two classes per device."""
    two_classes = {"χ = 2": PARTITIONS["χ = 2"]}
    study.circumstances("cnn", CAUSES, (10, 11, 12), two_classes)


WEAK = {
    "**scheduled**": PARTS["**scheduled**"],
    "0.2's form": {"scheme": "scheduled", "uplink.memory": "error"},
    "nothing kept": {"scheme": "scheduled", "uplink.memory": "none"},
    "age exponent 1": PARTS["age exponent 1"],
    "cosines for every matrix": PARTS["cosines for every matrix"],
    "with warm-up": PARTS["with warm-up"],
}


def weak(study):
    """Try to help where the scheme is weak."""
    columns = {
        f"{name}, P = 5": (model, settings | {"uplink.power": 5.0})
        for name, (model, settings) in cells(["softmax"], [0.04]).items()
    }
    study.table(WEAK, columns | cells(["cnn"], [0.01]), "weak points")


STUDIES = {
    "parts": parts,
    "rates": rates,
    "permuted": shuffled,
    "robust": robust,
    "causes": causes,
    "weak": weak,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="+", choices=STUDIES)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    for name in options.studies:
        STUDIES[name](Study(options.out))


if __name__ == "__main__":
    main()
