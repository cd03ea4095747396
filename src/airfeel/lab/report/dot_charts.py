"""Charts of single values that come in forms, such as simulated and predicted. Needs the extra ``report``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair

from airfeel.lab.report.charts import PALETTE, Drawing, Figure
from airfeel.lab.report.means import Mean

_SHAPES = ["circle", "diamond"]


@dataclass(frozen=True, slots=True)
class Point:
    """A mean with its interval, which form of which curve it belongs to, and in which setting."""

    curve: str
    form: str
    setting: str
    mean: Mean

    def row(self) -> dict[str, Any]:
        """Return the point as data of a chart."""
        numbers = {"mean": self.mean.value, "low": self.mean.low, "high": self.mean.high}
        short = {key: float(f"{number:.5g}") for key, number in numbers.items()}
        return {"curve": self.curve, "form": self.form, "setting": self.setting, **short}


def dots(figure: Figure, points: Sequence[Point], forms: Sequence[str]) -> Drawing:
    """Draw a mark for every curve and form, one row per setting; the first form has its 95 % interval."""
    places = list(dict.fromkeys(point.setting for point in points))
    curves = list(dict.fromkeys(point.curve for point in points))
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
        "color": _colour(points),
    }
    x: dict[str, Any] = {"title": figure.y_title, "scale": altair.Scale(zero=False)}
    first = _base([point for point in points if point.form == forms[0]])
    span = first.mark_rule(strokeWidth=2).encode(**where, x=altair.X("low:Q", **x), x2="high:Q")
    mark = (
        _base(points)
        .mark_point(size=80, strokeWidth=2)
        .encode(
            **where,
            x=altair.X("mean:Q", **x),
            shape=altair.Shape("form:N", scale=_scale(forms, _SHAPES), legend=_legend("circle", 80)),
            tooltip=["setting:N", "curve:N", "form:N", _value(figure)],
        )
    )
    return Drawing(figure, (span + mark).add_params(chosen))


def _base(points: Sequence[Point]) -> Any:
    return altair.Chart(altair.InlineData(values=[point.row() for point in points]))


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
        columns=4,
        symbolType=symbol,
        symbolSize=size,
        symbolOpacity=1,
    )
