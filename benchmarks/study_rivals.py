"""Choose options and learning rate of every scheme, all with the same small budget, on seeds kept for that.

    python benchmarks/study_rivals.py softmax mlp cnn --out results/rivals-tuning
    python benchmarks/study_rivals.py softmax --schemes scheduled ScaleCom --out results/rivals-tuning

First the options that a scheme has, at the learning rate that all share (table A of the comparison), then
four other learning rates with the best of them (table B): at most seven trials for each scheme and model.
A trial's score is the accuracy at round 100, averaged over data drawn alike and two classes per device with
25 times compression (low rank: 10 times, as rank 1 needs that much), on seed 10; 0 where a training diverges.
The circumstances are those of ``study_scheduled.py``. Runs are kept in ``--out``.
"""

import argparse
from pathlib import Path

import numpy as np
from study_scheduled import MODELS, PARTITIONS, Study

SEED = 10
FACTORS = (0.1, 1 / 3, 10 / 3, 10.0)  # of the learning rate that all share
OPTIONS = {
    "dense": [{"scheme": "dense"}],
    "scheduled": [{"scheme": "scheduled"}, {"scheme": "scheduled", "uplink.warmup": True}],
    "common_k, random": [{"scheme": "common_k"}],
    "common_k, turns": [{"scheme": "common_k", "uplink.order": "turns"}],
    "TSA-GA tuned": [{"scheme": "tsa_ga_tuned"}, {"scheme": "tsa_ga_tuned", "uplink.sparsity": 0.5}],
    "TSA-GA": [
        {"scheme": "tsa_ga", "uplink.sparsity": 0.04},
        {"scheme": "tsa_ga", "uplink.sparsity": 0.1},
        {"scheme": "tsa_ga", "uplink.sparsity": 0.2},
    ],
    "low rank": [
        {"scheme": "low_rank", "uplink.ratio": 0.1},
        {"scheme": "low_rank", "uplink.ratio": 0.1, "uplink.rank": 1},
    ],
    "sign vote": [{"scheme": "sign_vote", "uplink.step": step} for step in (0.01, 0.03, 0.1)],
    "ScaleCom": [{"scheme": "scalecom"}, {"scheme": "scalecom", "uplink.newest": 0.1}],
    "FAIR-k": [{"scheme": "fair_k", "uplink.importance": share} for share in (0.25, 0.5, 0.75)],
    "SCAFCOM": [
        {"scheme": "scafcom", "uplink.newest": 0.2},
        {"scheme": "scafcom", "uplink.newest": 1.0},
        {"scheme": "scafcom", "uplink.newest": 0.2, "uplink.fade": 1.0},
    ],
    "D-DSGD": [{"scheme": "d_dsgd"}],
    "A-DSGD, MMSE": [
        {"scheme": "a_dsgd_mmse", "uplink.sparsity": 0.02},
        {"scheme": "a_dsgd_mmse", "uplink.sparsity": 0.04},
    ],
}
ONLY_SOFTMAX = ("A-DSGD, MMSE",)  # a dense matrix, drawn anew in every round


def score(study, model, trial):
    """Return the mean accuracy over partitions; 0 for a training that diverges."""
    try:
        found = [
            study.accuracy(MODELS[model] | {"uplink.ratio": 0.04} | partition | trial, SEED)
            for partition in PARTITIONS.values()
        ]
    except ValueError as error:
        if "diverged" not in str(error):
            raise
        return 0.0
    return float(np.mean(found))


def words(trial):
    """Return the settings of a trial."""
    return ", ".join(f"{key} = {value}" for key, value in trial.items() if key != "scheme")


def show(name, trial, value):
    """Print one trial."""
    print(f"| {name} | {words(trial)} | {value:.1f} |", flush=True)


def choose(study, model, name):
    """Try the options, then learning rates; return the best of both kinds."""
    tried = {}
    for index, trial in enumerate(OPTIONS[name]):
        tried[index] = score(study, model, trial)
        show(name, trial, tried[index])
    best = OPTIONS[name][max(tried, key=tried.get)]
    rates = {MODELS[model]["devices.learning_rate"]: max(tried.values())}
    for factor in FACTORS:
        rate = float(f"{factor * MODELS[model]['devices.learning_rate']:.2g}")
        trial = best | {"devices.learning_rate": rate}
        rates[rate] = score(study, model, trial)
        show(name, trial, rates[rate])
    return best, max(rates, key=rates.get)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--schemes", nargs="+", choices=OPTIONS, default=list(OPTIONS), metavar="SCHEME")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    study = Study(options.out)
    for model in options.models:
        print(f"\n*{model}*\n\n| scheme | trial | accuracy (%) |\n|---|---|---|")
        chosen = {
            name: choose(study, model, name)
            for name in options.schemes
            if model == "softmax" or name not in ONLY_SOFTMAX
        }
        print("\n| scheme | options | own learning rate |\n|---|---|---|")
        for name, (best, rate) in chosen.items():
            print(f"| {name} | {words(best)} | {rate} |", flush=True)


if __name__ == "__main__":
    main()
