"""Choose the defaults of the scheme ``tsa_ga_tuned``, and report them on other seeds.

    python benchmarks/study_tuned.py --out results/tuned [--rounds 100]

The grid is fixed: 6 candidates in 8 environments, 48 settings. The environments are a half fraction of E,
s/N, P and the classes per device, in which every pair of levels of every two factors occurs equally often. A
candidate's score is its accuracy minus that of error-free aggregation, averaged over rounds 1/4, 1/2 and 1 of
the run, the environments and two seeds. The best one is then run on three other seeds beside TSA-GA as in the
paper and ``common_k``. Runs are kept in ``--out``: an interrupted study goes on where it was.
"""

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

from airfeel.config import load_config
from airfeel.lab.runner import execute
from airfeel.lab.store import read_records

CHOOSING, REPORTING = (10, 11), (0, 1, 2)
CANDIDATES = {
    f"k/N {sparsity}, activity {activity}, {message}": {
        "scheme": "tsa_ga_tuned",
        "uplink.sparsity": sparsity,
        "receiver.activity": activity,
        "receiver.amplitude_message": message,
    }
    for sparsity, activity, message in (
        (0.2, 0.2, "joint"),
        (0.5, 0.2, "joint"),
        (0.5, 0.5, "joint"),
        (0.9, 0.5, "joint"),
        (0.9, 0.9, "joint"),
        (0.9, 0.9, "expansion"),
    )
}
RIVALS = {
    "tsa_ga, k/N 0.2": {"scheme": "tsa_ga"},
    "tsa_ga, k = s": {"scheme": "tsa_ga", "uplink.sparsity": "ratio"},
    "common_k": {"scheme": "common_k", "uplink.order": "turns"},
}


def environments():
    """Yield (name, settings): E, s/N and classes in all combinations, P low in every other one."""
    for index in itertools.product((0, 1), repeat=3):
        steps, ratio, classes = (
            levels[i] for levels, i in zip(((1, 5), (0.1, 0.04), (None, 2)), index, strict=True)
        )
        power = (500.0, 50.0)[sum(index) % 2]
        settings = {"devices.local_steps": steps, "uplink.ratio": ratio, "uplink.power": power}
        if classes is not None:
            settings |= {"partition.kind": "classes", "partition.classes": classes}
        yield f"E {steps}, s/N {ratio}, P {power:g}, {'IID' if classes is None else 'chi 2'}", settings


class Study:
    """Runs by setting and seed, each computed once and kept on disk."""

    def __init__(self, out, rounds):
        self.out, self.rounds = out, rounds

    def accuracy(self, settings, seed):
        """Return the mean accuracy at a quarter, half and the end of a run, and that at the end."""
        if settings.get("uplink.sparsity") == "ratio":
            settings = settings | {"uplink.sparsity": settings["uplink.ratio"]}
        fixed = {"rounds": self.rounds, "seed": seed, "run.evaluate_every": self.rounds // 4}
        fixed |= {"devices.learning_rate": 0.01}
        outcome = execute(load_config(None, settings | fixed), self.out)
        accuracy = {record.round: record.accuracy for record in read_records(outcome.folder)}
        return np.mean([accuracy[self.rounds // part] for part in (4, 2, 1)]), accuracy[self.rounds]

    def gaps(self, scheme, environment, seeds):
        """Return the gaps to error-free aggregation, (seeds, 2)."""
        free = [self.accuracy(environment | {"scheme": "error_free"}, seed) for seed in seeds]
        own = [self.accuracy(environment | scheme, seed) for seed in seeds]
        return np.array(own) - np.array(free)


def choose(study):
    """Score all candidates; return the name of the best."""
    scores = {}
    for name, scheme in CANDIDATES.items():
        gaps = [study.gaps(scheme, environment, CHOOSING)[:, 0].mean() for _, environment in environments()]
        scores[name] = np.mean(gaps)
        print(f"| {name} | {100 * scores[name]:.2f} | {100 * min(gaps):.2f} |", flush=True)
    return max(scores, key=scores.get)


def report(study, best):
    """Print final accuracy minus error-free, in points, for the chosen defaults and their rivals."""
    schemes = {f"**{best}**": CANDIDATES[best]} | RIVALS
    print("\n| environment | " + " | ".join(schemes) + " |\n|---" * 1 + "|---" * len(schemes) + "|")
    totals = []
    for name, environment in environments():
        gaps = [study.gaps(scheme, environment, REPORTING)[:, 1] for scheme in schemes.values()]
        totals.append([gap.mean() for gap in gaps])
        cells = [f"{100 * gap.mean():.1f} ± {100 * gap.std(ddof=1) / len(gap) ** 0.5:.1f}" for gap in gaps]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print("| mean | " + " | ".join(f"{100 * mean:.1f}" for mean in np.mean(totals, axis=0)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    study = Study(options.out, options.rounds)
    print("| candidate | score (points) | worst environment |\n|---|---|---|")
    best = choose(study)
    print(f"\nchosen: {best}", file=sys.stderr)
    report(study, best)


if __name__ == "__main__":
    main()
