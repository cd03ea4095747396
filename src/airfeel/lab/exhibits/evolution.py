"""Courses that come in several forms: simulated beside predicted, a loss gap below its bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from airfeel.lab.charts import Figure
from airfeel.lab.curves import Array, Curve, CurveDrawing, courses, draw_curves
from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.plan import FigureSpec
from airfeel.lab.table import LINE, RunSelection

COURSES = {"nmse_db": "simulated", "predicted_nmse_db": "state evolution"}
BOUNDS = {
    "gap": "measured gap",
    "measured_bound": "bound from measured errors (83)",
    "printed_bound": "printed bound (61)",
}


@EXHIBITS.register("evolution", place=2)
def evolution(shown: RunSelection, spec: FigureSpec) -> Iterator[Any]:
    """Simulated and predicted NMSE over rounds."""
    yield _forms(Figure(spec.name, spec.title, "", "NMSE (dB)", caption=spec.caption), shown, spec, COURSES)


@EXHIBITS.register("bound", place=5)
def bound(shown: RunSelection, spec: FigureSpec) -> Iterator[Any]:
    """The loss gap below the bounds of Theorem 3; in numbers after the last round, and where they hold."""
    figure = Figure(spec.name, spec.title, "", "loss - smallest loss", caption=spec.caption, log_y=True)
    yield _forms(figure, shown, spec, BOUNDS)
    rows = []
    for line, of in shown.by_line.groupby(LINE, sort=False):
        last = of.groupby("run").last()
        sound = (of["gap"] <= of[["measured_bound", "printed_bound"]].min(axis=1)).sum()
        values = [f"{last[key].mean():.3g}" for key in BOUNDS]
        label = ", ".join(filter(None, line))
        rows.append([label, f"{last['round'].iloc[0]:.0f}", *values, f"{sound} of {len(of)}"])
    heading = ["scheme", "round", *BOUNDS.values(), "rounds in which both hold"]
    yield TextTable("In numbers", [heading, *rows])


def _without_symbols(curve: Curve) -> dict[str, Array]:
    return {key: values for key, values in curve.columns.items() if key != "symbols"}


def _forms(
    figure: Figure, shown: RunSelection, spec: FigureSpec, keys: Mapping[str, str]
) -> CurveDrawing | None:
    """Draw the means over seeds of some columns, told apart as variants are."""
    lines = [line for line in shown.lines if spec.variant in ("", line[1])]
    alone = len({variant for _, variant in lines}) == 1
    names = {line: line[0] if alone else ", ".join(filter(None, line)) for line in lines}
    found = {key: {(curve.name, curve.variant): curve for curve in courses(shown, key)} for key in keys}
    drawn = [
        replace(curve, name=names[line], variant=what, columns=_without_symbols(curve))
        for line in lines
        for key, what in keys.items()
        if (curve := found[key].get(line))
    ]
    return draw_curves(figure, drawn, {names[line]: shown.schemes[line[0]] for line in lines})
