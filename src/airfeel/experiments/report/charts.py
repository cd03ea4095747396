"""A figure is a description; one chart of it serves page, PNG and SVG. Needs the extra ``report``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel._extras import missing
from airfeel.config import toml
from airfeel.experiments.runs import files

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
    "#808080",
    "#6a8a1f",
]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [10, 4], [1, 3], [6, 2, 1, 2, 1, 2], [3, 3], [12, 3]]
STYLE = {
    "axis": {"labelFontSize": 13, "titleFontSize": 14, "titleFontWeight": "normal"},
    "title": {"fontSize": 16, "anchor": "middle"},
    "legend": {
        "labelFontSize": 14,
        "titleFontSize": 14,
        "labelLimit": 330,
        "symbolStrokeWidth": 2.5,
        "layout": {"bottom": {"anchor": "middle", "direction": "vertical", "center": True, "margin": 4}},
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
    split: bool = False
    """each variant has a plot of its own, however few there are"""


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure with its data: ready to be put on the page or into a file."""

    figure: Figure
    chart: Any

    def payload(self) -> dict[str, Any]:
        """Return what the page needs to draw it: a Vega-Lite description as wide as the page allows."""
        return {"spec": self._spec(width="container", height=_SIZE["height"])}

    def save(self, stem: Path) -> list[Path]:
        """Write ``stem.png`` and ``stem.svg``."""
        return save_images(self._spec(**_SIZE, title=self.figure.title), stem)

    def _spec(self, **properties: Any) -> dict[str, Any]:
        spec: dict[str, Any] = self.chart.properties(**properties).to_dict()
        return spec | {"config": toml.merge(STYLE, spec.get("config", {}))}


def save_images(spec: dict[str, Any], stem: Path) -> list[Path]:
    """Write a Vega-Lite description as ``stem.png`` and ``stem.svg``, on white."""
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    spec = drawable(spec | {"background": "white"})
    drawn = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())
    files.write_atomically(svg, drawn.encode())
    files.write_atomically(png, vl_convert.svg_to_png(drawn, scale=2))
    return [png, svg]


def drawable(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a description with blanks for line separators, which Vega's expressions cannot hold."""
    text = json.dumps(spec, ensure_ascii=False).replace("\u2028", " ").replace("\u2029", " ")
    return dict(json.loads(text))


def vega_lite_version() -> str:
    """Return the version of Vega-Lite that this altair writes, as vl-convert names it."""
    return ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def javascript() -> str:
    """Return the drawing library as one script, so that a page needs no network."""
    return vl_convert.javascript_bundle(vl_version=vega_lite_version())  # type: ignore[call-arg]
