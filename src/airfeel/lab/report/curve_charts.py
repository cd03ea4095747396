"""Charts of curves with bands: one to be moved and zoomed on the page, one with legends for paper."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair

from airfeel.lab.report.charts import COLUMN, STYLE, Figure

SHORT_LEGEND, NARROW_LEGEND = 4, 2  # entries in one row at most, and in a paper's column
LETTERS = {SHORT_LEGEND: 80, NARROW_LEGEND: 42}  # that fit in a row; the line beside a name takes seven
EDGE: dict[str, Any] = {
    "strokeWidth": 0.6,
    "strokeOpacity": 0.45,
}  # of a band, to tell bands that overlap
# Of a subject, of the others, and of all where none is one.
THICK, THIN, SHADE, INK = (3.2, 1.6, 2), (1.8, 0.9, 1.2), (0.2, 0.07, 0.16), (1, 0.75, 1)
_DATA = altair.NamedData(name="rows")  # put in by the page, or into the finished description


@dataclass(frozen=True, slots=True)
class XAxis:
    """What is written below the x axis, its numbers, and its Vega-Lite scale."""

    title: str
    format: str
    scale: dict[str, Any]
    ticks: Sequence[float] = ()
    below: Sequence[str] = ()
    """a second line for each tick"""


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
    dashed_variants: bool
    """whether dashes tell variants apart"""
    split: bool
    """whether each variant has a plot of its own"""
    many: bool
    """whether bands must be faint"""


def page_spec(look: Look) -> dict[str, Any]:
    """Return the description without legends, which the page itself has."""
    area = altair.Chart().mark_area(clip=True, **EDGE)
    stroke = altair.Chart().mark_line(clip=True, **_marks(look))
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


def paper_spec(look: Look, rows: list[dict[str, Any]], column: bool = False) -> dict[str, Any]:
    """Return the description with data, and legends below; for a paper's column without its title.

    Nothing is clipped, and the rows are put in last: either would take most of the time.
    """
    stroke = altair.Chart().mark_line(**_marks(look, 16 if column else 40))
    band, line = _layers(
        look, altair.Chart().mark_area(**EDGE), stroke, NARROW_LEGEND if column else SHORT_LEGEND
    )
    plot = altair.layer(band, line, data=_DATA)
    chart: Any = plot.properties(**(COLUMN if column else {"width": 640, "height": 400}))
    if look.split:
        header = altair.Header(title=None, labelFontSize=13, labelFontWeight="bold")
        facet = altair.Facet("variant:N", sort=list(look.variants), header=header)
        small = {"width": 80, "height": 75} if column else {"width": 230, "height": 170}
        chart = plot.properties(**small).facet(facet, columns=min(2 if column else 4, len(look.variants)))
    spec = chart.properties(title="" if column else look.figure.title).to_dict()
    return dict(spec) | {"config": STYLE, "datasets": {"rows": rows}}


def _layers(look: Look, area: Any, line: Any, legends: int = 0) -> tuple[Any, Any]:
    """Return bands and lines, with so many legend entries in a row."""
    legend = _legend(look.colours, legends) if legends else None
    beside = _legend(look.variants, legends, symbolStrokeColor="#444") if legends else None
    x, y = _x(look), _y(look)
    color = altair.Color("curve:N", scale=_scale(look.colours), legend=legend)
    width, shade, ink = (
        _weight(look, *values) for values in ((THIN if legends == NARROW_LEGEND else THICK), SHADE, INK)
    )
    dash = altair.StrokeDash(
        "variant:N" if look.dashed_variants else "curve:N",
        scale=_scale(look.dashes),
        legend=beside if look.dashed_variants else legend,
    )
    both = {"x": x, "color": color, "detail": "variant:N"}
    edge = altair.Stroke("curve:N", scale=_scale(look.colours), legend=None)
    bands = area.encode(**both, y=altair.Y("low:Q", **y), y2="high:Q", fillOpacity=shade, stroke=edge)
    drawn = line.encode(
        **both, y=altair.Y("mean:Q", **y), strokeDash=dash, strokeWidth=width, strokeOpacity=ink
    )
    return bands, drawn


def _weight(look: Look, subject: float, other: float, alike: float) -> Any:
    """Return a value for the curves that a figure is about, and one for the others."""
    if not look.figure.subjects:
        return altair.value(alike / 2 if look.many and alike < 1 else alike)
    chosen = altair.FieldOneOfPredicate(field="curve", oneOf=list(look.figure.subjects))
    return altair.condition(chosen, altair.value(subject), altair.value(other))


def _marks(look: Look, size: int = 40) -> dict[str, Any]:
    """Return marks for lines of few points, which else could not be told from what is between them."""
    return {"point": {"size": size, "filled": True, "strokeWidth": 0}} if look.x.ticks else {}


def _x(look: Look) -> Any:
    ticks, below = list(look.x.ticks), list(look.x.below)
    where: dict[str, Any] = {"values": ticks} if ticks else {"tickCount": 4 if look.split else 8}
    if below:
        where["labelExpr"] = f"[datum.label, {json.dumps(below)}[indexof({json.dumps(ticks)}, datum.value)]]"
    axis = altair.Axis(format=look.x.format, **where)
    return altair.X("x:Q", title=look.x.title, scale=altair.Scale(**look.x.scale), axis=axis)


def _y(look: Look) -> dict[str, Any]:
    figure = look.figure
    scale = altair.Scale(type="log") if figure.log_y else altair.Scale(zero=False)
    axis = altair.Axis(format=figure.y_format or ".6~g", tickCount=5 if look.split or figure.log_y else 8)
    return {"title": figure.y_title, "scale": scale, "axis": axis}


def _scale(looks: Mapping[str, Any]) -> Any:
    return altair.Scale(domain=list(looks), range=list(looks.values()))


def _legend(names: Collection[str], most: int, **more: Any) -> Any:
    """Return a legend below the plot, in rows of about equal length that no name is too long for."""
    entries = len(names)
    fitting = LETTERS[most] // (7 + max(map(len, names), default=0))
    rows = -(-entries // min(most, max(1, fitting)))
    size = 600 if most == SHORT_LEGEND else 200
    look = {"symbolType": "stroke", "symbolSize": size, "symbolOpacity": 1, **more}
    return altair.Legend(title=None, orient="bottom", columns=-(-entries // rows), **look)
