"""A figure is a description; one chart of it serves page, PNG and SVG. Needs the extra ``report``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel import _files
from airfeel._checks import visible
from airfeel._extras import missing
from airfeel.config import mistakes

try:
    import altair
    import vl_convert
except ImportError as error:
    raise missing("report", "figures need") from error

# Told apart with every common kind of colour blindness, and readable on white and on black.
PALETTE = [
    "#3b82c4",
    "#e08214",
    "#2ca25f",
    "#c4488f",
    "#8c6bb1",
    "#a6761d",
    "#1fa5a5",
    "#d7503c",
    "#6a8a1f",
    "#5a5fd0",
]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [10, 4], [1, 3], [6, 2, 1, 2, 1, 2], [3, 3], [12, 3]]
STYLE = {
    "axis": {"labelFontSize": 13, "titleFontSize": 14, "titleFontWeight": "normal", "labelSeparation": 6},
    "title": {"fontSize": 16, "anchor": "middle"},
    "legend": {
        "labelFontSize": 14,
        "titleFontSize": 14,
        "labelLimit": 0,
        "symbolStrokeWidth": 2.5,
        "layout": {"bottom": {"anchor": "middle", "direction": "vertical", "center": True, "margin": 4}},
    },
}
# A point is a 72nd of an inch: letters of 8 points, and a plot that leaves room for those beside it.
COLUMN = {"width": 205, "height": 135}
IN_COLUMN = {
    "padding": 2,
    "axis": {
        "labelFontSize": 8,
        "titleFontSize": 8,
        "titlePadding": 3,
        "labelPadding": 2,
        "tickSize": 3,
        "gridWidth": 0.4,
        "domainWidth": 0.6,
        "tickWidth": 0.6,
    },
    "header": {"labelFontSize": 8, "labelPadding": 2},
    "legend": {
        "labelFontSize": 8,
        "titleFontSize": 8,
        "symbolStrokeWidth": 1.5,
        "rowPadding": 1,
        "columnPadding": 6,
        "offset": 4,
        "labelLimit": 0,
    },
}
_SIZE = {"width": 640, "height": 380}


@dataclass(frozen=True, slots=True)
class Figure:
    """What a figure shows and what is written around it."""

    name: str
    title: str
    metric: str
    y_title: str
    x: str = "round"
    x_title: str = "communication round"
    y_format: str = ""
    caption: str = ""
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[float] = ()
    """the few values of x that there are; empty: many"""
    below: Sequence[str] = ()
    """what is written below each of them"""
    split: bool = False
    """each variant has a plot of its own, however few there are"""
    subjects: Sequence[str] = ()
    """curves that are emphasised, the others being muted; none: all alike"""


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure with its data: ready to be put on the page or into a file."""

    figure: Figure
    chart: Any

    def payload(self) -> dict[str, Any]:
        """Return what the page needs to draw it: a Vega-Lite description as wide as the page allows."""
        return {"spec": self._spec(width="container", height=_SIZE["height"])}

    def save(self, stem: Path) -> list[Path]:
        """Write ``stem.png``, ``stem.svg`` and ``stem.pdf``."""
        column = self._spec(width=COLUMN["width"], height=COLUMN["height"], title="")
        return [*save_images(self._spec(**_SIZE, title=self.figure.title), stem), save_column(column, stem)]

    def _spec(self, **properties: Any) -> dict[str, Any]:
        spec: dict[str, Any] = self.chart.properties(**properties).to_dict()
        return spec | {"config": mistakes.merge(STYLE, spec.get("config", {}))}


def save_images(spec: dict[str, Any], stem: Path) -> list[Path]:
    """Write a Vega-Lite description as ``stem.png`` and ``stem.svg``, on white."""
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    spec = drawable(spec | {"background": "white"})
    drawn = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())
    _files.write_atomically(svg, drawn.encode())
    _files.write_atomically(png, vl_convert.svg_to_png(drawn, scale=2))
    return [png, svg]


def save_column(spec: dict[str, Any], stem: Path) -> Path:
    """Write a Vega-Lite description as ``stem.pdf``, with the letters of a paper's column 3.5 inches wide.

    It has no title: a paper has captions.
    """
    path = stem.with_suffix(".pdf")
    spec = drawable(
        spec | {"background": "white", "config": mistakes.merge(spec.get("config", {}), IN_COLUMN)}
    )
    drawn = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())
    _files.write_atomically(path, vl_convert.svg_to_pdf(drawn))
    return path


def drawable(part: Any) -> Any:
    """Return a description with visible control characters: SVG can hold none, nor can Vega's expressions."""
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, Mapping):
        return {drawable(key): drawable(value) for key, value in part.items()}
    return [drawable(entry) for entry in part] if isinstance(part, list | tuple) else part


def vega_lite_version() -> str:
    """Return the version of Vega-Lite that this altair writes, as vl-convert names it."""
    return ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def javascript() -> str:
    """Return the drawing library as one script, so that a page needs no network."""
    return vl_convert.javascript_bundle(vl_version=vega_lite_version())  # type: ignore[call-arg]
