"""Charts of curves with bands: one to be moved and zoomed on the page, one with legends for paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair

from airfeel.experiments.report.charts import STYLE, Figure

SHORT_LEGEND = 4  # entries in one row
_DATA = altair.NamedData(name="rows")  # put in by the page, or into the finished description


@dataclass(frozen=True, slots=True)
class XAxis:
    """What is written below the x axis, its numbers, and its Vega-Lite scale."""

    title: str
    format: str
    scale: dict[str, Any]
    ticks: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """How curves are told apart, and where they are drawn."""

    figure: Figure
    x: XAxis
    colours: Mapping[str, str]
    """by curve"""
    dashes: Mapping[str, Sequence[int]]
    """by variant, or by curve where variants do not need them"""
    variants: Sequence[str]
    split: bool
    """whether each variant has a plot of its own"""
    many: bool
    """whether bands must be faint"""

    @property
    def dashed_variants(self) -> bool:
        """Whether dashes tell variants apart."""
        return len(self.variants) > 1 and not self.split


def page_spec(look: Look) -> dict[str, Any]:
    """Return the description without legends, which the page itself has."""
    area, stroke = altair.Chart().mark_area(clip=True), altair.Chart().mark_line(clip=True, **_marks(look))
    band, line = _layers(look, area, stroke)
    zoom = altair.selection_interval(
        name="zoom",
        bind="scales",
        zoom="wheel![event.ctrlKey || event.metaKey]",
        translate="[pointerdown[event.pointerType != 'touch'], window:pointerup] > window:pointermove!",
    )
    chart = altair.layer(band, line.add_params(zoom), data=_DATA)
    sized = chart.properties(width="container", height=200 if look.split else 380)
    return sized.to_dict() | {"config": STYLE}


def paper_spec(look: Look, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the description with data, and legends below.

    Nothing is clipped, and the rows are put in last: either would take most of the time.
    """
    stroke = altair.Chart().mark_line(**_marks(look))
    band, line = _layers(look, altair.Chart().mark_area(), stroke, legends=True)
    plot = altair.layer(band, line, data=_DATA)
    chart: Any = plot.properties(width=640, height=400)
    if look.split:
        header = altair.Header(title=None, labelFontSize=13, labelFontWeight="bold")
        facet = altair.Facet("variant:N", sort=list(look.variants), header=header)
        chart = plot.properties(width=230, height=170).facet(facet, columns=min(4, len(look.variants)))
    spec = chart.properties(title=look.figure.title).to_dict()
    return dict(spec) | {"config": STYLE, "datasets": {"rows": rows}}


def _layers(look: Look, area: Any, line: Any, legends: bool = False) -> tuple[Any, Any]:
    """Return bands and lines."""
    legend = _legend(len(look.colours)) if legends else None
    beside = _legend(len(look.variants), symbolStrokeColor="#444") if legends else None
    x, y = _x(look), _y(look)
    color = altair.Color("curve:N", scale=_scale(look.colours), legend=legend)
    dash = altair.StrokeDash(
        "variant:N" if look.dashed_variants else "curve:N",
        scale=_scale(look.dashes),
        legend=beside if look.dashed_variants else legend,
    )
    both = {"x": x, "color": color, "detail": "variant:N"}
    shade, width = altair.value(0.1 if look.many else 0.18), altair.value(2)
    bands = area.encode(**both, y=altair.Y("low:Q", **y), y2="high:Q", fillOpacity=shade)
    return bands, line.encode(**both, y=altair.Y("mean:Q", **y), strokeDash=dash, strokeWidth=width)


def _marks(look: Look) -> dict[str, Any]:
    """Return marks for lines of few points, which else could not be told from what is between them."""
    return {"point": {"size": 40, "filled": True, "strokeWidth": 0}} if look.x.ticks else {}


def _x(look: Look) -> Any:
    where = {"values": list(look.x.ticks)} if look.x.ticks else {"tickCount": 4 if look.split else 8}
    axis = altair.Axis(format=look.x.format, **where)
    return altair.X("x:Q", title=look.x.title, scale=altair.Scale(**look.x.scale), axis=axis)


def _y(look: Look) -> dict[str, Any]:
    figure = look.figure
    scale = altair.Scale(type="log") if figure.log_y else altair.Scale(zero=False)
    usual = "~g" if figure.log_y else ""
    axis = altair.Axis(format=figure.y_format or usual, tickCount=5 if look.split or figure.log_y else 8)
    return {"title": figure.y_title, "scale": scale, "axis": axis}


def _scale(looks: Mapping[str, Any]) -> Any:
    return altair.Scale(domain=list(looks), range=list(looks.values()))


def _legend(entries: int, **more: Any) -> Any:
    """Return a legend below the plot, in rows of about equal length."""
    rows = -(-entries // SHORT_LEGEND)
    look = {"symbolType": "stroke", "symbolSize": 600, "symbolOpacity": 1, **more}
    return altair.Legend(title=None, orient="bottom", columns=-(-entries // rows), **look)
