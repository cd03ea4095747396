"""Keep a results folder in the documentation: figures, tables, verdicts, all numbers in compressed tables.

airfeel reproduce all tuned --out DIR
airfeel report DIR
python docs/results/keep.py DIR             # everything anew
python docs/results/keep.py DIR rates ...   # these experiments, and the claims of which all was run in DIR

Where experiments are named, runs of them that are kept and not in DIR stay as long as they are still planned:
a run is known by the name of its folder, which has the hash of its configuration. A claim that also needs an
experiment which is not in DIR is judged with the numbers kept of that one.
"""

import csv
import io
import json
import lzma
import shutil
import sys
from pathlib import Path

import pandas

from airfeel.lab.claim_rules import comparisons, shipped_claims
from airfeel.lab.claims import INCOMPLETE, ClaimPart, Verdict, claims_table, corrected, judge, to_json
from airfeel.lab.plan import ResultsFolder, shipped
from airfeel.lab.report import make_chapter
from airfeel.lab.results import COLUMNS
from airfeel.lab.store import FinishedRun, RecordColumns
from airfeel.lab.table import Results, RunSelection, make_table

HERE = Path(__file__).resolve().parent
HEAD, RECORDED, CURVE = COLUMNS[:3], COLUMNS[3:-1], COLUMNS[-1]
RECORDED += ("message_bytes", "state_bytes")  # of which a leaderboard tells


def main(path, *names):
    """Write everything anew, or only what belongs to some experiments."""
    folder = ResultsFolder(path)
    kept = [run for name in names for run in kept_runs(name) if run.folder.name]
    results = Results(folder, {run.folder.name: run for run in kept} | Results(folder).runs)
    collected = {one.experiment.name: results.of(one) for one in folder.experiments()[0]}
    if not names:
        for part in ("figures", "tables", "numbers"):
            fresh(HERE / part)
    if not names:
        keep_claims(judge(collected), [])
    elif claims := about(names):
        judged = judge(from_numbers() | collected)
        keep_claims([verdict for verdict in judged if verdict.number in claims], kept_claims())
    for name in names or collected:
        keep_experiment(path, collected[name])


def keep_experiment(path, found):
    """Write the tables, figures and numbers of one experiment."""
    name = found.experiment.name
    tables = make_chapter(found).section("first", "tables")
    parts = [f"*{table.title}*\n\n{markdown(table.rows)}" for table in tables]
    (HERE / "tables" / f"{name}.md").write_text("\n".join(parts) or "\n")
    (HERE / "numbers" / f"{name}.csv.xz").write_bytes(compressed(found))
    for figure in found.experiment.figures:
        for image in sorted((path / "figures").glob(f"{figure.name}*.svg")):
            smaller = min(image, image.with_suffix(".png"), key=lambda one: one.stat().st_size)
            shutil.copy(smaller, HERE / "figures" / smaller.name)


def about(names):
    """Return the numbers of the claims that look at one of these experiments."""
    return {
        claim.number
        for claim in shipped_claims()
        for rule in claim.rules
        for comparison in comparisons(rule)
        if any(place.experiment in names for _, place in comparison.terms)
    }


def keep_claims(judged, kept):
    """Write the verdicts; what was kept stays where not all of a claim was run again."""
    verdicts = {v.number: v for v in kept}
    verdicts |= {v.number: v for v in judged if v.outcome != INCOMPLETE or v.number not in verdicts}
    recent = corrected([v for v in verdicts.values() if v.parts[0].seeds])  # 0.1.0 noted no chances
    verdicts |= {v.number: v for v in recent}
    everything = [verdicts[number] for number in sorted(verdicts)]
    (HERE / "claims.json").write_text(to_json(everything))
    (HERE / "tables" / "claims.md").write_text(markdown(claims_table(everything)))


def kept_claims():
    """Return the verdicts that are kept here."""
    return [verdict(entry) for entry in json.loads((HERE / "claims.json").read_text())]


def from_numbers():
    """Return the kept experiments in which a scheme is a curve: those without variants."""
    names = [path.name.removesuffix(".csv.xz") for path in sorted((HERE / "numbers").iterdir())]
    plain = [one for one in map(shipped, names) if one.kind == "training" and one.curves and not one.swept()]
    return {one.name: plain_selection(one) for one in plain}


def plain_selection(experiment):
    """Return the kept runs of an experiment in which a scheme is a curve."""
    labels = {curve["scheme"]: curve["label"] for curve in experiment.curves}
    runs = {str(place): run for place, run in enumerate(kept_runs(experiment.name))}
    rows = [(labels[run.settings["scheme"]], "", run.settings["seed"], place) for place, run in runs.items()]
    members = pandas.DataFrame(rows, columns=["curve", "variant", "seed", "run"])
    return RunSelection(experiment, members, make_table(runs), runs)


def kept_runs(name):
    """Return the runs of an experiment from its numbers; those of older files are not named."""
    path, rows = HERE / "numbers" / f"{name}.csv.xz", {}
    if path.exists():
        with lzma.open(path, "rt") as file:
            for row in csv.DictReader(file):
                cells = {key: number(cell) for key, cell in row.items() if cell}
                record = {key: cells.pop(key, None) for key in RECORDED}
                settings = {key: value for key, value in cells.items() if key not in ("run", CURVE)}
                place = cells.get("run", ""), *settings.items()
                rows.setdefault(place, []).append(record)
    return [FinishedRun(Path(run), {}, RecordColumns(of), dict(keys)) for (run, *keys), of in rows.items()]


def number(cell):
    """Return what a cell holds: a whole number, a fraction, or words."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def verdict(entry):
    """Return a verdict from its form in JSON."""
    parts = {key: [ClaimPart(**part) for part in entry[key]] for key in ("parts", "mmse_parts")}
    return Verdict(**{**entry, **parts})


def fresh(folder):
    """Make an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def markdown(rows):
    """Return rows of text as a table, the first row being the heading."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def compressed(found):
    """Return the records of an experiment's runs, with five digits per number: what a figure can show."""
    keys = found.experiment.swept()
    rows = []
    for curve, _, _, label in found.members.drop_duplicates("run").itertuples(index=False):
        run = found.runs[label]
        facts = [label, found.experiment.name, run.settings.get("scheme"), run.settings.get("seed"), curve]
        facts += [run.settings.get(key) for key in keys]
        rows += [(*facts, *of) for of in zip(*map(run.rows.values, RECORDED), strict=True)]
    columns = zip(("run", *HEAD, CURVE, *keys, *RECORDED), zip(*rows, strict=True), strict=True)
    used = [(key, *map(digits, of)) for key, of in columns if any(cell is not None for cell in of)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(zip(*used, strict=True))
    return lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME)


def digits(cell):
    """Return a fraction with five digits, a large one without decimals, anything else as it is."""
    if not isinstance(cell, float):
        return cell
    return f"{cell:.5g}" if abs(cell) < 1e5 else f"{cell:.0f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
