"""Keep a results folder in the documentation: figures, tables, verdicts, all numbers in compressed tables.

airfeel reproduce all tuned --out DIR
airfeel report DIR
python docs/results/keep.py DIR             # everything anew
python docs/results/keep.py DIR rates ...   # these experiments, and the claims of which all was run in DIR

A claim that also needs an experiment which is not in DIR is judged with the numbers kept of that one.
"""

import csv
import io
import json
import lzma
import shutil
import sys
from pathlib import Path

import pandas

from airfeel.lab.claims import INCOMPLETE, ClaimPart, Verdict, claims_table, corrected, judge, to_json
from airfeel.lab.plan import ResultsFolder, shipped
from airfeel.lab.report import make_chapter
from airfeel.lab.store import FinishedRun, RecordColumns
from airfeel.lab.table import Results, RunSelection, make_table

HERE = Path(__file__).resolve().parent


def main(folder, *names):
    """Write everything anew, or only what belongs to some experiments."""
    results = Results(ResultsFolder(folder))
    collected = {one.experiment.name: results.of(one) for one in results.folder.experiments()[0]}
    if not names:
        for kept in ("figures", "tables", "numbers"):
            fresh(HERE / kept)
    keep_claims(judge(from_numbers() | collected if names else collected), kept_claims() if names else [])
    for name in names or collected:
        keep_experiment(folder, name, collected[name])


def keep_experiment(folder, name, found):
    """Write the tables, figures and numbers of one experiment."""
    tables = make_chapter(found).section("first", "tables")
    parts = [f"*{table.title}*\n\n{markdown(table.rows)}" for table in tables]
    (HERE / "tables" / f"{name}.md").write_text("\n".join(parts) or "\n")
    (HERE / "numbers" / f"{name}.csv.xz").write_bytes(compressed(folder / "results.csv", name))
    for figure in found.experiment.figures:
        for path in sorted((folder / "figures").glob(f"{figure.name}*.svg")):
            smaller = min(path, path.with_suffix(".png"), key=lambda image: image.stat().st_size)
            shutil.copy(smaller, HERE / "figures" / smaller.name)


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
    return {one.name: kept_runs(one) for one in plain}


def kept_runs(experiment):
    """Return the runs of an experiment from its numbers."""
    labels = {curve["scheme"]: curve["label"] for curve in experiment.curves}
    rows = {}
    with lzma.open(HERE / "numbers" / f"{experiment.name}.csv.xz", "rt") as file:
        for row in csv.DictReader(file):
            rows.setdefault((labels[row["scheme"]], "", int(row["seed"])), []).append(numbers(row))
    runs = {str(place): FinishedRun(HERE, {}, RecordColumns(of)) for place, of in rows.items()}
    members = pandas.DataFrame([(*p, str(p)) for p in rows], columns=["curve", "variant", "seed", "run"])
    return RunSelection(experiment, members, make_table(runs), runs)


def numbers(row):
    """Return the cells of a row by which curves are compared."""
    compared = ("round", "accuracy", "loss", "nmse_db", "cumulative_nmse_db", "symbols")
    return {key: float(row[key]) for key in compared if row.get(key)}


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


def compressed(table, experiment):
    """Return an experiment's part of a table, with five digits per number: what a figure can show."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    with table.open() as file:
        head, *rows = csv.reader(file)
    mine = [row for row in rows if row[head.index("experiment")] == experiment]
    used = [i for i in range(len(head)) if any(row[i] for row in mine)]  # keys of other experiments are empty
    writer.writerow([head[i] for i in used])
    for row in mine:
        writer.writerow([f"{float(row[i]):.5g}" if is_fraction(row[i]) else row[i] for i in used])
    return lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME)


def is_fraction(cell):
    """Whether a cell holds a number with decimals."""
    return "." in cell and cell.replace(".", "").replace("-", "").replace("e", "").isdigit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
