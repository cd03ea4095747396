"""Our own scheme in the field: sampled devices, skewed data, fading; beside error-free training and rivals.

    python benchmarks/study_field.py error_free ours-10 ours ours-100 --out DIR
    python benchmarks/study_field.py error error-100 rivals rivals-100 --out DIR
    python benchmarks/study_field.py tune --out OTHER          # options and rates, on seed 10
    python benchmarks/study_field.py table keep --out DIR      # what there is, for docs/results

    python benchmarks/study_field.py holds holds-table --seeds 600 601 --out THIRD   # one factor at a time
    python benchmarks/study_field.py holds-figure --seeds 600 601    # of the numbers kept in docs/results
    python benchmarks/study_field.py tried tried-table --seeds 10 11 12 13 14 --out FOURTH  # docs/notes.md

Seeds 700 to 704 are for reporting, once (500 to 504 and 600 to 604 were seen before); ``--seeds`` names
others: 10 to 14 for choosing, 600 and 601 for one factor at a time. M = 10 devices with 300 samples each,
P = 500, 100 rounds, unless the circumstances say otherwise. Every run is one line of DIR/runs.jsonl, and a
study that was interrupted goes on where it was.
"""

import argparse
import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_limits

from airfeel.config import load_config
from airfeel.registry import option
from airfeel.schemes import scheduled
from airfeel.schemes.scheduled import Scheduled
from airfeel.simulation.loop import train

SEEDS = (700, 701, 702, 703, 704)
KEPT = Path(__file__).parents[1] / "docs/results/field.csv"
ALL = {
    "rounds": 100,
    "devices.count": 10,
    "devices.samples": 300,
    "uplink.power": 500.0,
    "run.evaluate_every": 25,
    "run.threads": 1,
}
CNN = {
    "model.kind": "cnn",
    "devices.learning_rate": 0.1,
    "devices.local_steps": 5,
    "devices.batch_size": 60,
}
SOFTMAX = {"devices.learning_rate": 0.3}
MLP = {"model.kind": "mlp", "model.preset": False, "devices.learning_rate": 0.3}
TWO = {"partition.kind": "classes", "partition.classes": 2}
HALF = {"devices.participation": 0.5}
FIFTH = {
    "devices.count": 50,
    "devices.participation": 0.2,
    "partition.kind": "dirichlet",
    "partition.alpha": 0.3,
}
# Name: settings, and the points that may be lost at 25 and at 100 times.
CELLS = {
    "CNN, everybody, IID": (CNN, 0.5, 2.5),
    "CNN, everybody, two classes": (CNN | TWO, 1.0, 3.0),
    "CNN, half, two classes": (CNN | TWO | HALF, 2.0, 4.0),
    "CNN, fifth of fifty, Dirichlet 0.3": (CNN | FIFTH, 0.8, 2.0),
    "CNN, Rayleigh fading, two classes": (CNN | TWO | {"channel.kind": "fading"}, 2.5, None),
    "CNN, dropout 0.2, two classes": (CNN | TWO | {"devices.dropout": 0.2}, 1.5, None),
    "CNN, unequal K_m, two classes": (CNN | TWO | {"devices.spread": 1.0}, 1.5, None),
    "CNN, batches of 30, two classes": (CNN | TWO | {"devices.batch_size": 30}, 1.5, None),
    "softmax, everybody, IID": (SOFTMAX, 0.2, 0.5),
    "softmax, everybody, two classes": (SOFTMAX | TWO, 0.4, 1.0),
    "softmax, half, IID": (SOFTMAX | HALF, 0.2, 0.5),
    "softmax, half, two classes": (SOFTMAX | HALF | TWO, 0.4, 1.0),
    "MLP, everybody, IID": (MLP, 0.2, 0.5),
    "MLP, everybody, two classes": (MLP | TWO, 0.4, 1.0),
    "MLP, half, IID": (MLP | HALF, 0.2, 0.5),
    "MLP, half, two classes": (MLP | HALF | TWO, 0.4, 1.0),
    "resnet8, CIFAR-10, IID": (
        {"model.kind": "resnet8", "dataset": "cifar-10", "rounds": 60, "run.evaluate_every": 20},
        1.0,
        None,
    ),
}
BASE = CNN | TWO  # around which one factor at a time changes
FACTORS = {
    "learning rate": [{"devices.learning_rate": rate} for rate in (0.03, 0.1, 0.3, 1.0)],
    "local steps": [{"devices.local_steps": steps} for steps in (1, 2, 5, 10, 20)],
    "devices": [{"devices.count": count} for count in (5, 10, 25, 50, 100, 200)],
    "participation": [{"devices.participation": share} for share in (1.0, 0.5, 0.2, 0.1)],
    "participation of 40": [{"devices.count": 40, "devices.participation": s} for s in (1.0, 0.2, 0.05)],
    "power": [{"uplink.power": power} for power in (5.0, 50.0, 500.0, 5000.0)],
    "batch": [{"devices.batch_size": size} for size in (10, 30, 60, 150)],
    "data": [
        {},
        *({"partition.kind": "dirichlet", "partition.alpha": alpha} for alpha in (0.1, 0.3, 1.0)),
        {"partition.kind": "iid"},
    ],
}
HOLDS = {
    f"{factor}: " + (", ".join(map(str, change.values())) or "two classes"): (
        {k: v for k, v in BASE.items() if not (k == "partition.classes" and "partition.kind" in change)}
        | change,
        None,
        None,
    )
    for factor, changes in FACTORS.items()
    for change in changes
}
HOLDS |= {
    "model: softmax": (SOFTMAX | TWO, None, None),
    "model: MLP": (MLP | TWO, None, None),
    "pixels in no order": (BASE | {"dataset": "study_scheduled:permuted"}, None, None),
}
FEW = {"resnet8, CIFAR-10, IID": 2} | dict.fromkeys(HOLDS, 2)  # seeds, where runs are long or many
LAST = ("resnet8, CIFAR-10, IID",)  # after everything else
TUNED = {  # chosen by ``tune``: the same few trials for everybody
    "scheduled, own rate": {"scheme": "scheduled", "devices.learning_rate": 0.2},
    "ScaleCom": {"scheme": "scalecom", "uplink.newest": 0.3, "devices.learning_rate": 0.2},
    "FAIR-k": {"scheme": "fair_k", "uplink.importance": 0.25},
    "SCAFCOM": {"scheme": "scafcom", "uplink.newest": 1.0, "devices.learning_rate": 0.2},
    "common_k": {"scheme": "common_k", "uplink.order": "turns", "devices.learning_rate": 0.2},
    "sign vote": {"scheme": "sign_vote", "uplink.step": 0.3, "devices.learning_rate": 0.2},
}
TRIALS = {  # options tried at the rate that all share; then the best of these at other rates
    "scheduled, own rate": [{}],
    "ScaleCom": [{"uplink.newest": newest} for newest in (1.0, 0.3, 0.1)],
    "FAIR-k": [{"uplink.importance": share} for share in (0.25, 0.5, 0.75)],
    "SCAFCOM": [{}, {"uplink.newest": 1.0}, {"uplink.newest": 1.0, "uplink.fade": 0.7}],
    "common_k": [{}, {"uplink.order": "turns"}],
    "sign vote": [{"uplink.step": step} for step in (0.03, 0.1, 0.3)],
}
RATES = (0.033, 0.2, 0.33)
ALL_OF_IT = 1e9  # no limit to what energies learn from
TRIED_IN = ("CNN, half, two classes", "CNN, fifth of fifty, Dirichlet 0.3")  # at 25 times, on seed 10
SCHEMES = {
    "error-free": {"scheme": "dense"},
    "scheduled": {"scheme": "scheduled"},
    "0.2's form": {"scheme": "scheduled", "uplink.memory": "error"},
    **TUNED,
}
EVERY_TEN = {"scheme": "study_field:Tried", "run.evaluate_every": 10}
BEFORE = "clip 3, nothing waits, all is learned from"  # revision 5
RULES = {BEFORE: EVERY_TEN | {"uplink.clip": 3.0, "uplink.waits": False, "uplink.learned": ALL_OF_IT}} | {
    f"clip {clip}{'' if waits else ', nothing waits'}, {words}": EVERY_TEN
    | {"uplink.clip": clip, "uplink.waits": waits, "uplink.learned": learned}
    for clip, waits, learned, words in (
        (1.5, False, ALL_OF_IT, "all is learned from"),
        (3.0, True, ALL_OF_IT, "all is learned from"),
        (2.0, True, ALL_OF_IT, "all is learned from"),
        (1.5, True, ALL_OF_IT, "all is learned from"),
        (1.0, True, ALL_OF_IT, "all is learned from"),
        (3.0, True, 2.0, "up to 6"),
        (3.0, True, 1.5, "up to 4.5"),
        (2.0, True, 2.0, "up to 4"),
        (2.0, True, 1.5, "up to 3"),
        (1.5, True, 2.0, "up to 3"),
        (3.0, False, 1.0, "up to 3"),
        (3.0, True, 1.0, "up to 3"),
        (2.0, False, 1.0, "up to 2"),
        (2.0, True, 1.0, "up to 2"),
        (1.5, True, 1.0, "up to 1.5"),
    )
}
SCHEMES |= RULES
ONLY_CNN = tuple(TUNED)
STUDIES = {  # schemes and compressions, in the order in which they matter
    "error_free": (["error-free"], [None]),
    "ours-10": (["scheduled", "scheduled, own rate", "ScaleCom"], [10]),
    "ours": (["scheduled"], [25]),
    "ours-100": (["scheduled"], [100]),
    "error": (["0.2's form"], [25]),
    "error-100": (["0.2's form"], [100]),
    "rivals": (list(TUNED), [25]),
    "rivals-100": (list(TUNED), [100]),
    "tried": (list(RULES), [100, 25]),
}


@dataclass(frozen=True)
class Tried(Scheduled):
    """The scheme with other rules for what is not believed."""

    waits: bool = option(True, "whether it waits")
    learned: float = option(scheduled.LEARNED, "most that energies learn from, in what is believed at most")

    def decode(self, state, plan, heard):
        kept, scheduled.LEARNED = scheduled.LEARNED, self.learned
        try:
            estimate, after = super().decode(state, plan, heard)
        finally:
            scheduled.LEARNED = kept
        if not self.waits:
            after.age[plan["chosen"]] = 0
        return estimate, after


def jobs(names, seeds, cells=("",), schemes=("",)):
    """Yield cell, scheme, compression and seed of the runs whose names begin so, long ones at the end."""
    for cell, scheme, *rest in _jobs(names, seeds):
        if cell.startswith(tuple(cells)) and scheme.startswith(tuple(schemes)):
            yield cell, scheme, *rest


def _jobs(names, seeds):
    if "holds" in names:
        runs = [(scheme, factor) for scheme, factor in (("error-free", None), ("scheduled", 25))]
        yield from ((cell, *run, seed) for cell in HOLDS for run in runs for seed in seeds[:2])
    for late in (False, True):
        for name in (name for name in names if name in STUDIES):
            schemes, factors = STUDIES[name]
            for cell, (settings, *_, at_100) in CELLS.items():
                for scheme in schemes:
                    left_out = scheme in ONLY_CNN and settings.get("model.kind") != "cnn"
                    if left_out or (cell in LAST) != late:
                        continue
                    for factor in factors:
                        if factor == 100 and at_100 is None:
                            continue
                        for seed in seeds[: FEW.get(cell)]:
                            yield cell, scheme, factor, seed


def key(cell, scheme, factor, seed):
    """Return what names a run."""
    return f"{cell} | {scheme} | {factor or 1} | {seed}"


def accuracies(cell, scheme, factor, seed, trial=None):
    """Return the accuracy in percent by round; 10 from where a training diverges."""
    settings = ALL | (CELLS | HOLDS)[cell][0] | (SCHEMES[scheme] if trial is None else trial) | {"seed": seed}
    if factor:
        settings["uplink.ratio"] = 1 / factor
    found = {}
    try:
        for record in train(load_config(None, settings)):
            if record.accuracy is not None:
                found[record.round] = round(100 * record.accuracy, 2)
    except ValueError as error:
        if "diverged" not in str(error):
            raise
        found[settings["rounds"]] = 10.0
    return found


def known(out):
    """Return the runs that there are, by key: of a folder, or those that are kept."""
    if out is None:
        with KEPT.open(newline="") as file:
            return {line["key"]: line for line in map(_kept, csv.DictReader(file))}
    path = out / "runs.jsonl"
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {line["key"]: line for line in lines}


def compute(names, seeds, out, *begins):
    """Compute what is missing."""
    out.mkdir(parents=True, exist_ok=True)
    done = known(out)
    for job in jobs(names, seeds, *begins):
        once(done, out, *job)


def once(done, out, cell, scheme, factor, seed, trial=None):
    """Compute a run unless it is there; return its accuracy in the last round."""
    name = key(cell, scheme, factor, seed)
    if name not in done:
        began = time.process_time()
        found = accuracies(cell, scheme, factor, seed, trial)
        found = {str(t): value for t, value in found.items()}
        done[name] = {"key": name, "accuracy": found, "seconds": round(time.process_time() - began, 1)}
        with (out / "runs.jsonl").open("a") as file:
            file.write(json.dumps(done[name]) + "\n")
        print(done[name], flush=True)
    found = done[name]["accuracy"]
    return found[max(found, key=int)]


def tune(out):
    """Give every scheme the same few trials; print them, the best one last, and return the best."""
    out.mkdir(parents=True, exist_ok=True)
    done, chosen = known(out), {}
    for name, options in TRIALS.items():
        scores = {}

        def score(trial, name=name, scores=scores):
            words = ", ".join(f"{k} = {v}" for k, v in trial.items() if k != "scheme") or "as it is"
            runs = [once(done, out, cell, f"{name} ({words})", 25, 10, trial) for cell in TRIED_IN]
            scores[words] = float(np.mean(runs)), trial
            print(f"| {name} | {words} | " + " | ".join(f"{run:.1f}" for run in runs) + " |", flush=True)

        scheme = {"scheme": TUNED[name]["scheme"]}
        for trial in options:
            score(scheme | trial)
        best = max(scores.values(), key=lambda item: item[0])[1]
        for rate in RATES:
            score(best | {"devices.learning_rate": rate})
        chosen[name] = max(scores.values(), key=lambda item: item[0])[1]
        print(f"{name}: {chosen[name]}", flush=True)
    return chosen


def gaps(done, cell, scheme, factor, seeds, round=None):
    """Return the points lost against error-free training, one number for each seed that both have."""
    found = []
    for seed in seeds:
        own, free = (done.get(key(cell, s, f, seed)) for s, f in ((scheme, factor), ("error-free", None)))
        if own and free:
            at = str(round) if round else max(free["accuracy"], key=int)
            found.append(free["accuracy"][at] - own["accuracy"].get(at, 10.0))
    return np.array(found)


def words(lost):
    """Return a mean with its interval of 95 %; what there is where seeds are too few."""
    if not len(lost):
        return "–"
    if len(lost) < 3:  # one or two seeds are told as they are
        return ", ".join(f"{points:.1f}" for points in lost)
    half = stats.t.ppf(0.975, len(lost) - 1) * lost.std(ddof=1) / np.sqrt(len(lost))
    return f"{lost.mean():.1f} ± {half:.1f}" + ("" if len(lost) == 5 else f" ({len(lost)} seeds)")


def table(seeds, out):
    """Print the points lost in every cell, as a page in Markdown; bold where it is more than may be lost."""
    done = known(out)
    both = ["scheduled", "0.2's form"]
    head = ["scheduled, 10"]
    head += [f"{scheme}, {factor}" for factor in (25, 100) for scheme in ("at most", *both)]
    print("*Points lost against error-free training, last round, 10, 25 and 100 times*\n")
    print("| | error-free | " + " | ".join(head) + " |\n" + "|---" * (2 + len(head)) + "|")
    for cell, (_, *limits) in CELLS.items():
        cells = [words(gaps(done, cell, "scheduled", 10, seeds))]
        for factor, limit in zip((25, 100), limits, strict=True):
            ours, before = (gaps(done, cell, scheme, factor, seeds) for scheme in both)
            missed = limit is not None and len(ours) and ours.mean() > limit
            cells += [limit or "–", f"**{words(ours)}**" if missed else words(ours), words(before)]
        if level(done, cell, seeds):
            print(f"| {cell} | {level(done, cell, seeds)} | " + " | ".join(map(str, cells)) + " |")
    for factor in (10, 25, 100):
        rows = []
        for cell in (name for name in CELLS if name.startswith("CNN")):
            lost = {scheme: gaps(done, cell, scheme, factor, seeds) for scheme in TUNED}
            ours, rival = (lost[scheme] for scheme in list(TUNED)[:2])
            behind = rival - ours if len(ours) == len(rival) else ()
            if any(map(len, lost.values())):
                rows.append(f"| {cell} | " + " | ".join(map(words, [*lost.values(), behind])) + " |")
        if rows:
            what = f"Every scheme with its own options and rate, {factor} times, against error-free at 0.1"
            print(f"\n*{what}*\n")
            head = "| | " + " | ".join(TUNED) + " | ScaleCom behind |\n" + "|---" * (2 + len(TUNED)) + "|"
            print("\n".join([head, *rows]))
    print("\n*Points behind error-free training by round, means, and the seeds at round 25*\n")
    print("| scheduled | 25 | 50 | 75 | 100 | round 25, each seed |\n|---" + "|---" * 5 + "|")
    for cell, (_, *limits) in CELLS.items():
        for factor, limit in zip((25, 100), limits, strict=True):
            behind = [gaps(done, cell, "scheduled", factor, seeds, round) for round in (25, 50, 75, 100)]
            if cell.startswith("CNN") and limit is not None and all(map(len, behind)):
                means = " | ".join(f"{lost.mean():.1f}" for lost in behind)
                early = ", ".join(f"{lost:.0f}" for lost in behind[0])
                print(f"| {cell}, {factor} times | {means} | {early} |")


def level(done, cell, seeds):
    """Return the mean accuracy of error-free training in words, empty where there is none."""
    names = (key(cell, "error-free", None, seed) for seed in seeds)
    runs = [done[name]["accuracy"] for name in names if name in done]
    return f"{np.mean([run[max(run, key=int)] for run in runs]):.1f} %" if runs else ""


def holds_table(seeds, out):
    """Print where the scheme holds, one factor at a time."""
    done = known(out)
    print("| one thing changed | error-free | points lost, each seed |\n|---|---|---|")
    for cell in HOLDS:
        lost = gaps(done, cell, "scheduled", 25, seeds[:2])
        if len(lost) == 2:
            points = ", ".join(f"{one:.1f}" for one in lost)
            print(f"| {cell} | {level(done, cell, seeds[:2])} | {points} |")


def tried_table(seeds, out):
    """Print what other rules gain over that of revision 5, in the mean of rounds 80, 90 and 100."""
    done = known(out)

    def late(cell, rule, factor, seed):
        found = done.get(key(cell, rule, factor, seed), {}).get("accuracy")
        return found and np.mean([found.get(str(t), 10.0) for t in (80, 90, 100)])

    pairs = [(cell, factor) for factor in (100, 25) for cell in CELLS]
    pairs = [pair for pair in pairs if any(late(pair[0], BEFORE, pair[1], seed) for seed in seeds)]
    print("| rule | " + " | ".join(f"{cell}, {factor}" for cell, factor in pairs) + " |")
    print("|---" * (1 + len(pairs)) + "|")
    for rule in RULES:
        cells = []
        for cell, factor in pairs:
            both = [(late(cell, rule, factor, s), late(cell, BEFORE, factor, s)) for s in seeds]
            gained = [new - old for new, old in both if new and old]
            text = f"{np.mean(gained):+.1f} ({len(gained)})" if gained else ""
            cells.append(f"{np.mean([old for _, old in both if old]):.1f} %" if rule == BEFORE else text)
        print(f"| {rule} | " + " | ".join(cells) + " |")


def holds_figure(seeds, out):
    """Draw where the scheme holds: one panel per factor, one point per seed."""
    import altair as alt

    done = known(out)
    rows = [
        {"factor": factor, "value": value, "points lost": points}
        for factor, value, cell in (
            (*(cell.split(": ") if ": " in cell else ("data", cell)), cell) for cell in HOLDS
        )
        for points in gaps(done, cell, "scheduled", 25, seeds[:2])
    ]
    axis = alt.Axis(values=[-5, 0, 5, 20, 60], labelOverlap=False)
    lost = alt.Y("points lost:Q", scale=alt.Scale(type="symlog", constant=3), axis=axis)
    points = alt.Chart().mark_circle(size=45, opacity=0.7, color="#1f77b4")
    points = points.encode(alt.X("value:N", sort=None, title=None, axis=alt.Axis(labelAngle=-35)), lost)
    none = alt.Chart().mark_rule(strokeDash=[4, 3], color="#808080").encode(alt.YDatum(0, axis=axis))
    panels = [
        alt.layer(none, points, data=alt.Data(values=[row for row in rows if row["factor"] == factor]))
        .properties(title=factor, width=150, height=130)
        .resolve_scale(y="shared")
        for factor in dict.fromkeys(row["factor"] for row in rows)
    ]
    path = KEPT.parent / "figures/field-holds.svg"
    alt.concat(*panels, columns=4).resolve_scale(y="shared").save(path)
    print(f"figure: {path}")


def _kept(row):
    """Return a line of the kept table as a run."""
    name = " | ".join(row[part] for part in ("circumstances", "scheme", "compression", "seed"))
    return {
        "key": name,
        "accuracy": dict(zip(row["rounds"].split(), map(float, row["accuracies"].split()), strict=True)),
    }


def keep(out, path):
    """Write all numbers as a table with one line for each run."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["circumstances", "scheme", "compression", "seed", "rounds", "accuracies"])
        for line in known(out).values():
            found = line["accuracy"]
            writer.writerow([*line["key"].split(" | "), " ".join(found), " ".join(map(str, found.values()))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "studies",
        nargs="+",
        choices=[*STUDIES, "tune", "holds", "table", "tried-table", "holds-table", "holds-figure", "keep"],
    )
    parser.add_argument("--out", type=Path, help="folder of the runs; without one, the numbers that are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--cells", nargs="+", default=("",), help="only circumstances that begin so")
    parser.add_argument("--schemes", nargs="+", default=("",), help="only schemes that begin so")
    options = parser.parse_args()
    if options.out is None and not {"table", "tried-table", "holds-table", "holds-figure"}.issuperset(
        options.studies
    ):
        parser.error("runs need a folder: --out DIR")
    with threadpool_limits(1):
        if "tune" in options.studies:
            tune(options.out)
        if options.out is not None:
            compute(options.studies, options.seeds, options.out, options.cells, options.schemes)
    if "table" in options.studies:
        table(options.seeds, options.out)
    if "tried-table" in options.studies:
        tried_table(options.seeds, options.out)
    if "holds-table" in options.studies:
        holds_table(options.seeds, options.out)
    if "holds-figure" in options.studies:
        holds_figure(options.seeds, options.out)
    if "keep" in options.studies:
        keep(options.out, KEPT)


if __name__ == "__main__":
    main()
