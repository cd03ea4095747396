"""Keep a results folder in the documentation: figures, tables, verdicts, all numbers in a compressed table.

airfeel reproduce all tuned --out DIR
airfeel report DIR
python docs/results/keep.py DIR             # everything anew
python docs/results/keep.py DIR rates ...   # tables and figures of these experiments only
"""

import csv
import io
import lzma
import shutil
import sys
from pathlib import Path

from airfeel.experiments.campaigns.collect import collect
from airfeel.experiments.campaigns.folder import ResultsFolder
from airfeel.experiments.report.claims import claims_table, judge
from airfeel.experiments.report.costs import campaign, cost_table
from airfeel.experiments.report.environment import environment
from airfeel.experiments.report.exhibits import show_experiment

HERE = Path(__file__).resolve().parent


def main(folder, *names):
    """Write everything anew, or only what belongs to some experiments."""
    results = ResultsFolder(folder)
    collected = {one.experiment.name: collect(one, results) for one in results.experiments()[0]}
    if not names:
        fresh(HERE / "figures")
        fresh(HERE / "tables")
        keep_whole(folder, collected)
    for name in names or collected:
        keep_experiment(folder, name, collected[name])


def keep_experiment(folder, name, found):
    """Write the tables and figures of one experiment."""
    exhibit = show_experiment(found)
    tables = [*exhibit.headlines, *exhibit.tables]
    parts = [f"*{table.title}*\n\n{markdown(table.rows)}" for table in tables]
    (HERE / "tables" / f"{name}.md").write_text("\n".join(parts) or "\n")
    for figure in found.experiment.figures:
        for path in sorted((folder / "figures").glob(f"{figure.name}*.svg")):
            smaller = min(path, path.with_suffix(".png"), key=lambda image: image.stat().st_size)
            shutil.copy(smaller, HERE / "figures" / smaller.name)


def keep_whole(folder, collected):
    """Write what is about all experiments together: claims, costs, all numbers."""
    (HERE / "tables" / "claims.md").write_text(markdown(claims_table(judge(collected))))
    facts = [["what", "value"], *map(list, environment()), ["time", campaign(folder)]]
    costs = markdown(cost_table(list(collected.values())))
    (HERE / "tables" / "costs.md").write_text(markdown(facts) + "\n" + costs)
    shutil.copy(folder / "claims.json", HERE / "claims.json")
    (HERE / "results.csv.xz").write_bytes(compressed(folder / "results.csv"))


def fresh(folder):
    """Make an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def markdown(rows):
    """Return rows of text as a table, the first row being the heading."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def compressed(table):
    """Return a table with five digits per number, which is what a figure can show."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    with table.open() as file:
        for row in csv.reader(file):
            writer.writerow([f"{float(cell):.5g}" if is_fraction(cell) else cell for cell in row])
    return lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME)


def is_fraction(cell):
    """Whether a cell holds a number with decimals."""
    return "." in cell and cell.replace(".", "").replace("-", "").replace("e", "").isdigit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
