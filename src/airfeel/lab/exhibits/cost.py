"""Seconds: of an iteration over N beside the growth of N log N, and what runs took to compute."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from airfeel._timing import duration
from airfeel.lab.charts import Figure
from airfeel.lab.curves import draw_curves, plain_curve
from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.plan import FigureSpec
from airfeel.lab.store import FinishedRun
from airfeel.lab.table import RunSelection, timed

COSTS = ["runs", "rounds", "computing time", "seconds per round"]


@EXHIBITS.register("cost", place=4)
def cost(shown: RunSelection, spec: FigureSpec) -> Iterator[Any]:
    """Median seconds per iteration over N; in numbers also per round."""
    rounds = timed(shown.by_line)
    runs = rounds.groupby(["curve", "variant", "run"])
    late = rounds[(runs.cumcount() > 0) | (runs["round"].transform("size") == 1)]  # the first also plans
    single = dict((late["seconds"] / late["iterations"]).groupby([late["curve"], late["variant"]]).median())
    sizes = {line: int(next(iter(runs.values())).settings["size"]) for line, runs in shown.lines.items()}
    by_curve: dict[str, dict[int, float]] = {}
    rows = []
    for line, size in sizes.items():
        seconds, share = shown.rounds_of(line)["seconds"], 1e9 * single[line] / _growth(size)
        rows.append([f"{size:,}", f"{seconds.median():.3g}", f"{single[line]:.3g}", f"{share:.2f}"])
        if spec.variant in ("", line[1]):
            by_curve.setdefault(line[0], {})[size] = single[line]
    curves = []
    for curve, measured in by_curve.items():
        n, seconds = np.array(sorted(measured.items()), dtype=float).T
        growth = seconds[-1] * _growth(n) / _growth(n[-1])  # at the end, what does not grow matters least
        curves.append(plain_curve(curve, n, seconds, "measured"))
        curves.append(plain_curve(curve, n, growth, "growth of N log N"))
    words: Any = {"x_title": "number of coefficients N", "caption": spec.caption}
    figure = Figure(spec.name, spec.title, "", "seconds per iteration", log_x=True, log_y=True, **words)
    yield draw_curves(figure, curves, shown.schemes)
    heading = ["N", "seconds per round", "seconds per iteration", "ns per iteration / (N log2 N)"]
    yield TextTable("In numbers", [heading, *rows])


@EXHIBITS.register("computing time", place=70)
def computing_time(shown: RunSelection) -> Iterator[TextTable]:
    """What every curve of an experiment took to compute."""
    if shown.experiment is not None:
        rows = []
        for curve in dict.fromkeys(curve for curve, _ in shown.lines):
            labels = shown.members["run"][shown.members["curve"] == curve].unique()
            rows.append([curve, *cost_cells([shown.runs[label] for label in labels])])
        yield TextTable("Computing time", [["curve", *COSTS], *rows], section="costs")


def cost_cells(runs: Collection[FinishedRun]) -> list[str]:
    """Return how many runs and rounds there are and what they took; a run without timings counts none."""
    seconds = [found for run in runs for found in run.seconds.values()]
    each = f"{sum(seconds) / len(seconds):.3f}" if seconds else "-"
    return [str(len(runs)), f"{len(seconds):,}", duration(sum(seconds)), each]


def _growth(size: Any) -> Any:
    return size * np.log2(size)
