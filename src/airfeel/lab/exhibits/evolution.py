"""What comes in several forms: NMSE simulated and predicted, over rounds and in the end; a gap and bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from airfeel.lab.charts import PALETTE, Drawing, Figure, altair
from airfeel.lab.curves import CurveDrawing, courses, draw_curves
from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.exhibits.finals import ENDINGS, ending_cells
from airfeel.lab.plan import FigureSpec
from airfeel.lab.table import LINE, RunSelection, interval

FORMS = {"nmse_db": "simulated", "predicted_nmse_db": "state evolution"}
BOUNDS = {
    "gap": "measured gap",
    "measured_bound": "bound from measured errors (83)",
    "printed_bound": "printed bound (61)",
}
HEADING = ["setting", "receiver", "NMSE (dB), second half of the rounds", "predicted", "iterations", *ENDINGS]


@EXHIBITS.register("evolution", place=2)
def evolution(shown: RunSelection, spec: FigureSpec) -> Iterator[Any]:
    """Simulated and predicted NMSE over rounds."""
    yield _forms(Figure(spec.name, spec.title, "", "NMSE (dB)", caption=spec.caption), shown, spec, FORMS)


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


def _forms(
    figure: Figure, shown: RunSelection, spec: FigureSpec, keys: Mapping[str, str]
) -> CurveDrawing | None:
    """Draw the means over seeds of some columns, told apart as variants are."""
    lines = [line for line in shown.lines if spec.variant in ("", line[1])]
    alone = len({variant for _, variant in lines}) == 1
    names = {line: line[0] if alone else ", ".join(filter(None, line)) for line in lines}
    found = {key: {(curve.name, curve.variant): curve for curve in courses(shown, key)} for key in keys}
    drawn = []
    for line in lines:
        for key, what in keys.items():
            if curve := found[key].get(line):
                columns = {name: values for name, values in curve.columns.items() if name != "symbols"}
                drawn.append(replace(curve, name=names[line], variant=what, columns=columns))
    return draw_curves(figure, drawn, {names[line]: shown.schemes[line[0]] for line in lines})


@EXHIBITS.register("recovery", place=3)
def recovery(shown: RunSelection, spec: FigureSpec) -> Iterator[Drawing | TextTable]:
    """Steady state as dots, and in numbers with the receiver's iterations."""
    points = []
    for curve, variant in shown.lines:
        for key, form in FORMS.items():
            values = shown.ends(key)[curve, variant]
            if values and spec.variant in ("", variant):
                mean = interval(values.values())
                numbers = {"mean": mean.value, "low": mean.low, "high": mean.high}
                short = {name: float(f"{number:.5g}") for name, number in numbers.items()}
                points.append({"curve": curve, "form": form, "setting": variant, **short})
    if points:
        figure = Figure(spec.name, spec.title, "", "NMSE (dB)", caption=spec.caption)
        yield dots(figure, points, list(shown.lines))
    rows = []
    for line in sorted(shown.lines, key=lambda line: shown.variants.index(line[1])):
        found, predicted = (list(shown.ends(key)[line].values()) for key in FORMS)
        steps = np.mean([n for run in shown.lines[line].values() for n in run.rows.values("iterations")])
        cells = [interval(found).words(".2f"), f"{np.mean(predicted):.2f}", f"{steps:.1f}"]
        rows.append([line[1], line[0], *cells, *ending_cells(shown, line)])
    yield TextTable("In numbers", [HEADING, *rows])


def dots(figure: Figure, points: list[dict[str, Any]], lines: list[tuple[str, str]]) -> Drawing:
    """Draw a mark for every curve and form, one row per setting; the first form has its 95 % interval."""
    curves, places = (list(dict.fromkeys(line[place] for line in lines)) for place in (0, 1))
    chosen = altair.selection_point(fields=["curve"], bind="legend", toggle="true")
    where = {
        "opacity": altair.condition(chosen, altair.value(1.0), altair.value(0.08)),
        "y": altair.Y(
            "setting:N",
            sort=places,
            axis=altair.Axis(labelLimit=330, title=None),
            scale=altair.Scale(paddingInner=0.35),
        ),
        "yOffset": altair.YOffset("curve:N", sort=curves),
        "color": altair.Color(
            "curve:N", scale=altair.Scale(domain=curves, range=PALETTE), legend=_legend("stroke", 500)
        ),
    }
    forms = list(FORMS.values())
    x: dict[str, Any] = {"title": figure.y_title, "scale": altair.Scale(zero=False)}
    first, every = (
        altair.Chart(altair.InlineData(values=[point for point in points if point["form"] in of]))
        for of in (forms[:1], forms)
    )
    span = first.mark_rule(strokeWidth=2).encode(**where, x=altair.X("low:Q", **x), x2="high:Q")
    shapes = altair.Scale(domain=forms, range=["circle", "diamond"])
    shape = altair.Shape("form:N", scale=shapes, legend=_legend("circle", 80))
    value = altair.Tooltip("mean:Q", title=figure.y_title, format=".4~g")
    tips = ["setting:N", "curve:N", "form:N", value]
    mark = every.mark_point(size=80, strokeWidth=2).encode(
        **where, x=altair.X("mean:Q", **x), shape=shape, tooltip=tips
    )
    return Drawing(figure, (span + mark).add_params(chosen))


def _legend(symbol: str, size: int) -> Any:
    look = {"symbolType": symbol, "symbolSize": size, "symbolOpacity": 1}
    return altair.Legend(title=None, orient="bottom", columns=4, **look)
