"""NMSE in steady state by setting and receiver, simulated and predicted: dots in a row for each setting."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from airfeel.lab.charts import PALETTE, Drawing, Figure, altair
from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.exhibits.receptions import ENDINGS, ending_cells
from airfeel.lab.plan import FigureSpec
from airfeel.lab.table import RunSelection, interval

FORMS = {"nmse_db": "simulated", "predicted_nmse_db": "state evolution"}
HEADING = ["setting", "receiver", "NMSE (dB), second half of the rounds", "predicted", "iterations", *ENDINGS]


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
        steps = np.mean([row["iterations"] for run in shown.lines[line].values() for row in run.rows])
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
        "color": altair.Color("curve:N", scale=_scale(curves, PALETTE), legend=_legend("stroke", 500)),
    }
    forms = list(FORMS.values())
    x: dict[str, Any] = {"title": figure.y_title, "scale": altair.Scale(zero=False)}
    first, every = (
        altair.Chart(altair.InlineData(values=[point for point in points if point["form"] in of]))
        for of in (forms[:1], forms)
    )
    span = first.mark_rule(strokeWidth=2).encode(**where, x=altair.X("low:Q", **x), x2="high:Q")
    shape = altair.Shape("form:N", scale=_scale(forms, ["circle", "diamond"]), legend=_legend("circle", 80))
    value = altair.Tooltip("mean:Q", title=figure.y_title, format=".4~g")
    tips = ["setting:N", "curve:N", "form:N", value]
    mark = every.mark_point(size=80, strokeWidth=2).encode(
        **where, x=altair.X("mean:Q", **x), shape=shape, tooltip=tips
    )
    return Drawing(figure, (span + mark).add_params(chosen))


def _scale(names: list[str], values: list[str]) -> Any:
    return altair.Scale(domain=names, range=[values[i % len(values)] for i in range(len(names))])


def _legend(symbol: str, size: int) -> Any:
    look = {"symbolType": symbol, "symbolSize": size, "symbolOpacity": 1}
    return altair.Legend(title=None, orient="bottom", columns=4, **look)
