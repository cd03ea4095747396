"""A figure is a description; one chart of it serves page, PNG, SVG and PDF. Needs the extra ``report``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel import _files
from airfeel._checks import visible
from airfeel._extras import LazyModule
from airfeel.config import mistakes
from airfeel.lab.store import WITHOUT_RADIO

altair: Any = LazyModule("altair", "report", "figures need")
vl_convert: Any = LazyModule("vl_convert", "report", "figures need")

# Told apart with every common kind of colour blindness, and readable on white and on black.
PALETTE = [
    *("#3b82c4", "#e08214", "#2ca25f", "#c4488f", "#8c6bb1"),
    *("#a6761d", "#1fa5a5", "#d7503c", "#6a8a1f", "#5a5fd0"),
]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [10, 4], [1, 3], [6, 2, 1, 2, 1, 2], [3, 3], [12, 3]]
REFERENCE = "#808080", [5, 4]  # its look: drawn last, so that a curve which equals it is seen between dashes
# A scheme has the same look on every page, by its place here.
SCHEMES = (
    *("scheduled", "tsa_ga", "turbo_cs", "a_dsgd", "a_dsgd_mmse", "tsa_ga_no_support"),
    *("tsa_ga_no_amplitude", "tsa_ga_tuned", "common_k", "d_dsgd", "low_rank", "sign_vote"),
    *("fair_k", "scafcom", "scalecom", "split", "sign_memory", "eden", "stc", "top_k_coded"),
    *("eight_bit", "fedavg", "dense", "error_free"),
)
STYLE = {
    "axis": {"labelFontSize": 13, "titleFontSize": 14, "titleFontWeight": "normal", "labelSeparation": 6},
    "title": {"fontSize": 16, "anchor": "middle"},
    "legend": {
        "labelFontSize": 14,
        "titleFontSize": 14,
        "labelLimit": 0,
        "columnPadding": 26,  # where letters are wider than those that this was made with
        "symbolStrokeWidth": 2.5,
        "layout": {"bottom": {"anchor": "middle", "direction": "vertical", "center": True, "margin": 4}},
    },
}
# A point is a 72nd of an inch: letters of 8 points, and a plot that leaves room for those beside it.
COLUMN = {"width": 205, "height": 135}
_LETTERS = {"labelFontSize": 8, "titleFontSize": 8}
_LINES = {"tickSize": 3, "gridWidth": 0.4, "domainWidth": 0.6, "tickWidth": 0.6}
_SPACES = {"rowPadding": 1, "columnPadding": 6, "offset": 4}
IN_COLUMN = {
    "padding": 2,
    "axis": {**_LETTERS, **_LINES, "titlePadding": 3, "labelPadding": 2},
    "header": {"labelFontSize": 8, "labelPadding": 2},
    "legend": {**_LETTERS, **_SPACES, "symbolStrokeWidth": 1.5, "labelLimit": 0},
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
        return save_images(self._spec(**_SIZE, title=self.figure.title), self._spec(**COLUMN, title=""), stem)

    def _spec(self, **properties: Any) -> dict[str, Any]:
        spec: dict[str, Any] = self.chart.properties(**properties).to_dict()
        return spec | {"config": mistakes.merge(STYLE, spec.get("config", {}))}


def reference(curves: Mapping[str, str]) -> str:
    """Return which of some curves, given with their schemes, is training without radio; empty where none is.

    It is the one that is called so, else the only one whose scheme says so.
    """
    called = [curve for curve in curves if curve == "error-free"]
    for found in (called, *([c for c, of in curves.items() if of == one] for one in WITHOUT_RADIO)):
        if len(found) == 1:
            return found[0]
    return ""


def looks(curves: Mapping[str, str]) -> dict[str, tuple[str, list[int]]]:
    """Return colour and dashes of every curve, given its scheme: no two alike, the :func:`reference` grey.

    The first curve of a built-in scheme has that scheme's own look, which is the same everywhere. Schemes of
    others, and further curves of one scheme, take what is free.
    """
    places: dict[str, int] = {}
    grey = reference(curves)
    coloured = {curve: scheme for curve, scheme in curves.items() if curve != grey}
    for curve, scheme in coloured.items():
        if scheme in SCHEMES and SCHEMES.index(scheme) not in places.values():
            places[curve] = SCHEMES.index(scheme)
    free = [place for place in range(len(curves) + len(SCHEMES)) if place not in places.values()]
    places |= dict(zip((curve for curve in coloured if curve not in places), free, strict=False))
    found = dict.fromkeys(curves, REFERENCE)
    for curve, place in places.items():
        dash = (place + place // len(PALETTE)) % len(DASHES)
        found[curve] = PALETTE[place % len(PALETTE)], DASHES[dash]
    return found


def save_images(spec: dict[str, Any], column: dict[str, Any], stem: Path) -> list[Path]:
    """Write a description as ``stem.png`` and ``stem.svg``, and a small one as ``stem.pdf``, all on white.

    The PDF has the letters of a paper's column 3.5 inches wide, and no title: a paper has captions.
    """
    small = column | {"config": mistakes.merge(column.get("config", {}), IN_COLUMN)}
    drawn, narrow = svg(spec), svg(small)
    written = {
        ".png": vl_convert.svg_to_png(drawn, scale=2),
        ".svg": drawn.encode(),
        ".pdf": vl_convert.svg_to_pdf(narrow),
    }
    for suffix, content in written.items():
        _files.write_atomically(stem.with_suffix(suffix), content)
    return [stem.with_suffix(suffix) for suffix in written]


def svg(spec: dict[str, Any]) -> str:
    """Return a description as a picture on white."""
    drawn = drawable(spec | {"background": "white"})
    return str(vl_convert.vegalite_to_svg(drawn, vl_version=vega_lite_version()))


def drawable(part: Any) -> Any:
    """Return a description with visible control characters: SVG can hold none, nor can Vega's expressions."""
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, Mapping):
        return {drawable(key): drawable(value) for key, value in part.items()}
    return [drawable(entry) for entry in part] if isinstance(part, list | tuple) else part


def javascript() -> str:
    """Return the drawing library as one script, so that a page needs no network."""
    return str(vl_convert.javascript_bundle(vl_version=vega_lite_version()))


def vega_lite_version() -> str:
    """Return the version of Vega-Lite that this altair writes, as vl-convert names it."""
    return ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
