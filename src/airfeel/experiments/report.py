"""From a folder of results to a page one can open, send and print. Needs the extra ``report``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airfeel.experiments import charts, page
from airfeel.experiments.charts import Figure
from airfeel.experiments.files import explained, write_atomically
from airfeel.experiments.groups import Group, average, group_runs, read_runs

FIGURES = (
    Figure(
        name="accuracy",
        title="Test accuracy",
        metric="accuracy",
        y_title="test accuracy",
        y_format=".0%",
        caption="Accuracy on the test images after each round.",
    ),
    Figure(
        name="nmse",
        title="Recovery error",
        metric="nmse_db",
        y_title="NMSE (dB)",
        caption="Squared error of the recovered aggregate relative to its own energy; lower is better.",
    ),
    Figure(
        name="loss",
        title="Test loss",
        metric="loss",
        y_title="test loss",
        caption="Cross-entropy on the test images after each round.",
    ),
)


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, and the table that the page shows."""

    page: Path
    images: Sequence[Path]
    table: Sequence[Sequence[str]]
    left_out: Sequence[str]


def write_report(folder: Path, figures: Sequence[Figure] = FIGURES, title: str = "airfeel results") -> Report:
    """Write ``report.html`` and ``figures/*.png`` and ``*.svg`` into a results folder.

    Parameters
    ----------
    folder
        Holds ``runs/<name>-<hash>/`` as written by every command that trains. Runs that differ only in their
        seed become one curve: their mean, with a 95 % confidence band.
    figures
        What to draw, in this order; a figure without data is left out.
    title
        The page's heading.
    """
    runs, left_out = read_runs(folder)
    groups = group_runs(runs)
    drawings = [d for figure in figures if (d := charts.draw(figure, groups)) is not None]
    table = summary_table(groups)
    with explained(folder):
        (folder / "figures").mkdir(exist_ok=True)
        images = [path for d in drawings for path in d.save(folder / "figures" / d.figure.name)]
        html = page.render(title, table, drawings, left_out)
        write_atomically(folder / "report.html", html.encode())
    return Report(folder / "report.html", images, table, left_out)


def summary_table(groups: Sequence[Group]) -> list[list[str]]:
    """Return the last round of every group as rows of text, the first row being the heading."""
    rows = [["scheme", "seeds", "rounds", "accuracy", "loss", "NMSE (dB)", "channel uses"]]
    for group in groups:
        last = group.runs[0].records[-1]
        cells = [
            _cell(group, metric, form)
            for metric, form in (("accuracy", ".4f"), ("loss", ".4f"), ("nmse_db", ".1f"))
        ]
        rows.append([group.label, str(len(group.runs)), str(last.round), *cells, f"{last.symbols:,}"])
    return rows


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in aligned columns, the first left, the others right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _cell(group: Group, metric: str, form: str) -> str:
    means = average(group, metric)
    if not means:
        return "-"
    last = means[-1]
    half = f" ± {last.high - last.value:{form}}" if last.seeds > 1 else ""
    return f"{last.value:{form}}{half}"
