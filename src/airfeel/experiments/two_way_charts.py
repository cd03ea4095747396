"""Charts of curves that come in forms, such as simulated and predicted. Needs the extra ``report``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair

from airfeel.experiments.charts import DASHES, PALETTE, Drawing, Figure
from airfeel.experiments.groups import Mean

_SHAPES = ["circle", "diamond"]
_LEAST = 0.1  # of the value: how far down a band reaches where a logarithmic axis has no room for it


@dataclass(frozen=True, slots=True)
class Point:
    """A mean with its interval, which form of which curve it belongs to, and where."""

    curve: str
    form: str
    x: float | str
    mean: Mean

    def row(self) -> dict[str, Any]:
        """Return the point as data of a chart."""
        low, value, high = self.mean.low, self.mean.value, self.mean.high
        numbers = {"mean": value, "low": max(low, _LEAST * value) if value > 0 else low, "high": high}
        short = {key: float(f"{number:.6g}") for key, number in numbers.items()}
        return {"curve": self.curve, "form": self.form, "x": self.x, **short}


def two_way(
    figure: Figure, points: Sequence[Point], forms: Sequence[str], *, log_x: bool = False, log_y: bool = False
) -> Drawing:
    """Draw lines: colours tell curves apart, dashes forms; the first form has a 95 % band."""
    chosen = altair.selection_point(fields=["curve"], bind="legend")
    x = altair.X("x:Q", title=figure.x_title, **_axis([float(point.x) for point in points], log_x))
    y: dict[str, Any] = {"title": figure.y_title, **_axis([point.mean.value for point in points], log_y)}
    band = (
        _base([point for point in points if point.form == forms[0]])
        .mark_area()
        .encode(
            x=x,
            y=altair.Y("low:Q", **y),
            y2="high:Q",
            color=_colour(points),
            opacity=altair.condition(chosen, altair.value(0.15), altair.value(0.02)),
        )
    )
    line = (
        _base(points)
        .mark_line(strokeWidth=2.2)
        .encode(
            x=x,
            y=altair.Y("mean:Q", **y),
            color=_colour(points),
            strokeDash=altair.StrokeDash("form:N", scale=_scale(forms, DASHES), legend=_legend("stroke")),
            opacity=altair.condition(chosen, altair.value(1.0), altair.value(0.08)),
            tooltip=["curve:N", "form:N", altair.Tooltip("x:Q", title=figure.x_title), _value(figure)],
        )
    )
    return Drawing(figure, _styled((band + line).add_params(chosen)))


def dots(figure: Figure, points: Sequence[Point], forms: Sequence[str]) -> Drawing:
    """Draw a mark for every curve and form, one row per setting; the first form has its 95 % interval."""
    places = list(dict.fromkeys(str(point.x) for point in points))
    curves = list(dict.fromkeys(point.curve for point in points))
    where = {
        "y": altair.Y(
            "x:N",
            sort=places,
            axis=altair.Axis(labelLimit=330, title=None),
            scale=altair.Scale(paddingInner=0.35),
        ),
        "yOffset": altair.YOffset("curve:N", sort=curves),
        "color": _colour(points),
    }
    x: dict[str, Any] = {"title": figure.y_title, "scale": altair.Scale(zero=False)}
    first = _base([point for point in points if point.form == forms[0]])
    span = first.mark_rule(strokeWidth=2).encode(**where, x=altair.X("low:Q", **x), x2="high:Q")
    mark = (
        _base(points)
        .mark_point(size=80, strokeWidth=2, opacity=1)
        .encode(
            **where,
            x=altair.X("mean:Q", **x),
            shape=altair.Shape("form:N", scale=_scale(forms, _SHAPES), legend=_legend("circle", 80)),
            tooltip=[altair.Tooltip("x:N", title="setting"), "curve:N", "form:N", _value(figure)],
        )
    )
    return Drawing(figure, _styled(span + mark))


def _base(points: Sequence[Point]) -> Any:
    return altair.Chart(altair.InlineData(values=[point.row() for point in points]))


def _axis(values: Sequence[float], log: bool) -> dict[str, Any]:
    """Return scale and axis; a logarithmic one has a line for every power of ten."""
    if not log:
        return {"scale": altair.Scale(zero=False, nice=False), "axis": altair.Axis(tickCount=8)}
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    decades = [10.0**power for power in range(low, high + 1)]
    scale = altair.Scale(type="log", domain=[decades[0], decades[-1]])
    return {"scale": scale, "axis": altair.Axis(values=decades, format="~s" if low >= 0 else "~g")}


def _value(figure: Figure) -> Any:
    return altair.Tooltip("mean:Q", title=figure.y_title, format=".4~g")


def _colour(points: Sequence[Point]) -> Any:
    curves = list(dict.fromkeys(point.curve for point in points))
    return altair.Color("curve:N", scale=_scale(curves, PALETTE), legend=_legend("stroke"))


def _scale(names: Sequence[str], values: Sequence[Any]) -> Any:
    return altair.Scale(domain=list(names), range=[values[i % len(values)] for i in range(len(names))])


def _legend(symbol: str, size: int = 500) -> Any:
    return altair.Legend(
        title=None,
        orient="bottom",
        columns=2,
        symbolType=symbol,
        symbolSize=size,
        symbolOpacity=1,
        labelLimit=320,
    )


def _styled(chart: Any) -> Any:
    return chart.configure_axis(labelFontSize=12, titleFontSize=13).configure_legend(labelFontSize=13)
