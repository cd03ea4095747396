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

from airfeel.lab.collect import Collected, Line, collect
from airfeel.lab.folder import ResultsFolder
from airfeel.lab.plan import shipped
from airfeel.lab.report.claims import (
    INCOMPLETE,
    ClaimPart,
    Verdict,
    claims_table,
    corrected,
    judge,
    to_json,
)
from airfeel.lab.report.exhibits import show_experiment
from airfeel.lab.store import FinishedRun

HERE = Path(__file__).resolve().parent


def main(folder, *names):
    """Write everything anew, or only what belongs to some experiments."""
    results = ResultsFolder(folder)
    collected = {one.experiment.name: collect(one, results) for one in results.experiments()[0]}
    if not names:
        for kept in ("figures", "tables", "numbers"):
            fresh(HERE / kept)
    keep_claims(judge(from_numbers() | collected if names else collected), kept_claims() if names else [])
    for name in names or collected:
        keep_experiment(folder, name, collected[name])


def keep_experiment(folder, name, found):
    """Write the tables, figures and numbers of one experiment."""
    exhibit = show_experiment(found)
    tables = [*exhibit.headlines, *exhibit.tables]
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
    return {one.name: Collected(one, kept_lines(one), 0) for one in plain}


def kept_lines(experiment):
    """Return the curves of an experiment from its numbers."""
    labels = {curve["scheme"]: curve["label"] for curve in experiment.curves}
    runs = {}
    with lzma.open(HERE / "numbers" / f"{experiment.name}.csv.xz", "rt") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["scheme"], {}).setdefault(int(row["seed"]), []).append(numbers(row))
    return [
        Line(labels[scheme], "", {seed: FinishedRun(HERE, {}, rows) for seed, rows in of.items()})
        for scheme, of in runs.items()
    ]


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
