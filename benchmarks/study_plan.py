"""Ten questions to ``airfeel plan``, and whether the answers hold on three seeds that it did not use.

    python study_plan.py ask --out DIR [NAME ...]  # goes on where it was; every run is kept in DIR
    python study_plan.py keep --out DIR            # docs/results/plan.csv, from finished runs alone

The planner trains with seeds 0 to 3. An answer holds if trainings with seeds 100 to 102 lie in each of its
intervals, or, of a search, all reach the target with the value that it named.
"""

import argparse
import csv
from pathlib import Path

import airfeel as af
from airfeel.lab.question import COSTS, LIMITS

FRESH, SEEDS = 100, 3
HERE = Path(__file__).resolve().parent
LINK = {"uplink.ratio": 0.1, "radio.bandwidth_hz": 1e6, "radio.downlink_bps_hz": 1.0}
SMALL = {"devices.samples": 300, **LINK, "radio.tx_power_dbm": 10.0}
SOFTMAX = SMALL | {"devices.count": 20, "devices.learning_rate": 0.01, "rounds": 80}
MLP = SMALL | {"model.kind": "mlp", "model.hidden": [16], "devices.count": 10, "rounds": 25}
GAUSSIAN = {"radio.path_loss_db": 110.0}
FADING, CELL = GAUSSIAN | {"channel.kind": "fading"}, {"channel.kind": "cell"}
QUIET = {key: value for key, value in SOFTMAX.items() if key != "radio.tx_power_dbm"}

QUESTIONS = {
    "softmax gaussian scheduled": (SOFTMAX | GAUSSIAN | {"scheme": "scheduled"}, {"target_accuracy": 0.7}),
    "softmax fading tsa_ga_tuned": (SOFTMAX | FADING | {"scheme": "tsa_ga_tuned"}, {"target_accuracy": 0.7}),
    "softmax cell common_k": (SOFTMAX | CELL | {"scheme": "common_k"}, {"target_accuracy": 0.7}),
    "seconds fading scheduled": (SOFTMAX | FADING | {"scheme": "scheduled"}, {"within_seconds": 5.0}),
    "joules cell tsa_ga_tuned": (SOFTMAX | CELL | {"scheme": "tsa_ga_tuned"}, {"within_joules": 1e-4}),
    "mlp gaussian common_k": (MLP | GAUSSIAN | {"scheme": "common_k"}, {"within_rounds": 20}),
    "mlp fading scheduled": (MLP | FADING | {"scheme": "scheduled"}, {"target_accuracy": 0.85}),
    "power gaussian scheduled": (
        QUIET | GAUSSIAN | {"scheme": "scheduled"},
        {"target_accuracy": 0.65, "within_rounds": 60, "vary": "radio.tx_power_dbm=-40:10"},
    ),
    "bandwidth fading common_k": (
        {key: value for key, value in SOFTMAX.items() if key != "uplink.ratio"}
        | FADING
        | {"scheme": "common_k"},
        {"target_accuracy": 0.7, "within_rounds": 60, "vary": "uplink.ratio=0.01:0.5"},
    ),
    "schemes cell": (
        SOFTMAX | CELL,
        {"target_accuracy": 0.7, "schemes": ["scheduled", "tsa_ga_tuned", "common_k"]},
    ),
}


def judge(name, out):
    """Return the answer, and a row for each fresh seed and each number of the answer."""
    keys, asked = QUESTIONS[name]
    answer = af.plan(keys, out=out, **asked)
    keys, asked = dict(keys), dict(asked)
    if "vary" in asked:
        key = asked.pop("vary").partition("=")[0]
        keys[key] = answer.numbers[key].value if answer.met else None
    if "schemes" in asked:
        asked.pop("schemes")
        keys["scheme"] = answer.text.partition(": ")[2].partition(" with ")[0]
    if answer.met is False:
        return answer.text, []
    rows = []
    for trial in af.plan(keys, out=out, seed=FRESH, seeds=SEEDS, **asked).table:
        if "vary" in QUESTIONS[name][1]:
            rows.append([trial["seed"], "reached", trial["reached"], "", "", trial["reached"]])
            continue
        told = {"accuracy": "accuracy"} | {name: COSTS[name] for name in LIMITS}
        for number in (number for number in answer.numbers if number in told):
            value, span = trial.get(told[number]), answer.numbers[number]
            holds = value is not None and span.low <= value <= span.high
            rows.append([trial["seed"], number, value, span.low, span.high, holds])
    return answer.text, rows


def main():
    """Ask, or keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["ask", "keep"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    lines = []
    for name in given.names or QUESTIONS:
        text, rows = judge(name, given.out)
        held = bool(rows) and all(row[-1] for row in rows)
        print(f"{name}: {text}\n  {'holds' if held else 'DOES NOT HOLD'}: {rows}", flush=True)
        lines += [[name, text, held, *row] for row in rows or [[""] * 6]]
    print(sum({line[0]: line[2] for line in lines}.values()), "of", len(given.names or QUESTIONS), "hold")
    if given.what == "keep":
        with (HERE.parent / "docs/results/plan.csv").open("w", newline="") as file:
            heading = ["question", "answer", "holds", "seed", "number", "value", "low", "high", "inside"]
            csv.writer(file, lineterminator="\n").writerows([heading, *lines])


if __name__ == "__main__":
    main()
