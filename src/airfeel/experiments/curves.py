"""Curves over rounds or channel uses, with bands over seeds: for the page, and as PNG and SVG.

Colour tells curves apart. Several variants are told apart by dashes while that is readable, and have a plot
each where it is not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair

from airfeel.experiments.charts import DASHES, PALETTE, Figure, save_images
from airfeel.experiments.groups import Mean, Rows, average

MOST_POINTS = 400  # per curve on the page; files of results have them all
MOST_DASHED, MOST_TOGETHER = 4, 16  # variants told apart by dashes, and curves in one plot
VARIANT_DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]]
X_TITLES = {"round": "communication round", "symbols": "channel uses (symbols)"}
X_FORMATS = {"round": "d", "symbols": "~s"}
MOST_LINEAR = 4  # times the fewest channel uses that a linear axis can show beside them
MOST_ABREAST = 4  # entries in one row of a legend
_DATA = altair.NamedData(name="rows")
_AXIS = {"labelFontSize": 13, "titleFontSize": 14, "titleFontWeight": "normal"}
_PAPER = {
    "axis": _AXIS,
    "title": {"fontSize": 16, "anchor": "middle"},
    "legend": {
        "labelFontSize": 14,
        "labelLimit": 330,
        "symbolStrokeWidth": 2.5,
        "layout": {"bottom": {"anchor": "middle", "direction": "vertical", "center": True, "margin": 4}},
    },
}


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The course of one metric: means over seeds by round, and the channel uses until then."""

    name: str
    variant: str
    points: Sequence[Mean]
    symbols: Sequence[float]

    @property
    def on_air(self) -> bool:
        """Whether any channel was used."""
        return any(self.symbols)


@dataclass(frozen=True, slots=True, eq=False)
class CurveDrawing:
    """A figure of curves: ready to be put on the page or into a file."""

    figure: Figure
    curves: Sequence[Curve]
    colours: Mapping[str, int]
    """places in the palette"""
    variants: Sequence[str]

    @property
    def split(self) -> bool:
        """Whether each variant has a plot of its own."""
        return len(self.variants) > MOST_DASHED or len(self.curves) > MOST_TOGETHER

    @property
    def log_symbols(self) -> bool:
        """Whether totals of channel uses are so different that only a logarithmic axis shows them all."""
        totals = [curve.symbols[-1] for curve in self.curves if curve.on_air]
        return bool(totals) and max(totals) > MOST_LINEAR * min(totals)

    @property
    def _drawn(self) -> list[Curve]:
        """The curves in the files: one that uses no channel has no place over channel uses."""
        return [curve for curve in self.curves if curve.on_air or self.figure.x == "round"]

    @property
    def dashes(self) -> dict[str, list[int]]:
        """Dashes by variant, or by curve where variants do not need them."""
        if len(self.variants) > 1 and not self.split:
            return dict(zip(self.variants, VARIANT_DASHES, strict=False))
        return {
            name: DASHES[(place + place // len(PALETTE)) % len(DASHES)]
            for name, place in self.colours.items()
        }

    def payload(self) -> dict[str, Any]:
        """Return what the page needs: a Vega-Lite description without data, and the data in columns."""
        names = list(self.colours)
        return {
            "spec": self._page_chart().to_dict() | {"config": {"axis": _AXIS}},
            "x": self.figure.x,
            "xTitles": self._x_titles(),
            "xFormats": X_FORMATS,
            "xScales": self._x_scales(),
            "yTitle": self.figure.y_title,
            "percent": self.figure.y_format.endswith("%"),
            "split": self.split,
            "names": names,
            "colours": [_colour(place) for place in self.colours.values()],
            "variants": list(self.variants),
            "dashes": self.dashes,
            "curves": [self._columns(curve, names) for curve in self.curves],
        }

    def save(self, stem: Path) -> list[Path]:
        """Write ``stem.png`` and ``stem.svg``."""
        rows = [row for curve in self._drawn for row in self._rows(curve)]
        spec = self._paper_chart().properties(title=self.figure.title).to_dict()
        # Put in afterwards: altair would take seconds to check every row.
        return save_images(spec | {"config": _PAPER, "datasets": {"rows": rows}}, stem)

    def _columns(self, curve: Curve, names: Sequence[str]) -> dict[str, Any]:
        kept = _thinned(len(curve.points))
        points = [curve.points[place] for place in kept]
        columns: dict[str, Any] = {
            "name": names.index(curve.name),
            "variant": self.variants.index(curve.variant),
            "seeds": points[0].seeds,
            "round": [point.x for point in points],
            "mean": [_short(point.value, 5) for point in points],
        }
        if curve.on_air:
            columns["symbols"] = [curve.symbols[place] for place in kept]
        if points[0].seeds > 1:
            columns["half"] = [_short(point.high - point.value, 3) for point in points]
        return columns

    def _rows(self, curve: Curve) -> list[dict[str, Any]]:
        places = curve.symbols if self.figure.x == "symbols" else [point.x for point in curve.points]
        return [
            {
                "curve": curve.name,
                "variant": curve.variant,
                "x": x,
                "mean": _short(point.value, 5),
                "low": _short(point.low, 5),
                "high": _short(point.high, 5),
            }
            for x, point in zip(places, curve.points, strict=True)
        ]

    def _page_chart(self) -> Any:
        """Return the chart without legends, which the page itself has, to be moved and zoomed."""
        band, line = self._layers(altair.Chart().mark_area(clip=True), altair.Chart().mark_line(clip=True))
        zoom = altair.selection_interval(
            name="zoom",
            bind="scales",
            zoom="wheel![event.ctrlKey || event.metaKey]",
            translate="[pointerdown[event.pointerType != 'touch'], window:pointerup] > window:pointermove!",
        )
        chart = altair.layer(band, line.add_params(zoom), data=_DATA)
        return chart.properties(width="container", height=200 if self.split else 380)

    def _paper_chart(self) -> Any:
        """Return the chart with legends below. Nothing is clipped, which would take most of the time."""
        band, line = self._layers(altair.Chart().mark_area(), altair.Chart().mark_line(), legends=True)
        if not self.split:
            chart: Any = altair.layer(band, line, data=_DATA).properties(width=640, height=400)
        else:
            header = altair.Header(title=None, labelFontSize=13, labelFontWeight="bold")
            facet = altair.Facet("variant:N", sort=list(self.variants), header=header)
            plot = altair.layer(band, line, data=_DATA).properties(width=230, height=170)
            chart = plot.facet(facet=facet, columns=min(4, len(self.variants)))
        return chart

    def _layers(self, area: Any, line: Any, legends: bool = False) -> tuple[Any, Any]:
        """Return bands and lines with what both have in common."""
        by_variant = len(self.variants) > 1 and not self.split
        drawn = {curve.name for curve in (self._drawn if legends else self.curves)}
        colours = {name: _colour(place) for name, place in self.colours.items() if name in drawn}
        paint = altair.Scale(domain=list(colours), range=list(colours.values()))
        dash = altair.Scale(domain=list(self.dashes), range=list(self.dashes.values()))
        legend = _legend(len(colours)) if legends else None
        dashes = _legend(len(self.variants), symbolStrokeColor="#444") if legends else None
        x, y = self._axes()
        color = altair.Color("curve:N", scale=paint, legend=legend)
        stroke = altair.StrokeDash(
            "variant:N" if by_variant else "curve:N", scale=dash, legend=dashes if by_variant else legend
        )
        shade = 0.1 if len(self.curves) > 8 and not self.split else 0.18
        return (
            area.encode(
                x=x,
                y=altair.Y("low:Q", **y),
                y2="high:Q",
                color=color,
                detail="variant:N",
                fillOpacity=altair.value(shade),
            ),
            line.encode(
                x=x,
                y=altair.Y("mean:Q", **y),
                color=color,
                detail="variant:N",
                strokeDash=stroke,
                strokeWidth=altair.value(2),
            ),
        )

    def _axes(self) -> tuple[Any, dict[str, Any]]:
        """Return the x axis and what makes the y axis."""
        x = altair.X(
            "x:Q",
            title=self._x_titles()[self.figure.x],
            scale=altair.Scale(**self._x_scales()[self.figure.x]),
            axis=altair.Axis(tickCount=4 if self.split else 8, format=X_FORMATS[self.figure.x]),
        )
        axis = altair.Axis(format=self.figure.y_format, tickCount=5 if self.split else 8)
        return x, {"title": self.figure.y_title, "scale": altair.Scale(zero=False), "axis": axis}

    def _x_scales(self) -> dict[str, dict[str, Any]]:
        linear = {"type": "linear", "nice": False, "zero": False}
        return {"round": linear, "symbols": {"type": "log", "nice": False} if self.log_symbols else linear}

    def _x_titles(self) -> dict[str, str]:
        """Return what to write below the x axis: less where plots are small."""
        return {"round": "round", "symbols": "symbols"} if self.split else X_TITLES


def make_curve(name: str, variant: str, runs: Sequence[Rows], metric: str) -> Curve | None:
    """Average one curve over its runs; None where they have no value of the metric."""
    points = average(runs, metric)
    if not points:
        return None
    used = {row["round"]: row.get("symbols") or 0 for row in runs[0]}
    return Curve(name, variant, points, [used[int(point.x)] for point in points])


def draw_curves(figure: Figure, curves: Iterable[Curve | None], order: Sequence[str]) -> CurveDrawing | None:
    """Make the drawing of what there is; None where there is nothing.

    ``order`` names all curves: one keeps its colour from figure to figure, also where others have nothing to
    show. Variants of a single curve are coloured as curves are.
    """
    found = [curve for curve in curves if curve is not None]
    if not found:
        return None
    if len(order) == 1 and len({curve.variant for curve in found}) > 1:
        found = [Curve(curve.variant, "", curve.points, curve.symbols) for curve in found]
        order = [curve.name for curve in found]
    shown = {curve.name for curve in found}
    colours = {name: place for place, name in enumerate(order) if name in shown}
    return CurveDrawing(figure, found, colours, list(dict.fromkeys(curve.variant for curve in found)))


def _legend(entries: int, **more: Any) -> Any:
    """Return a legend below the plot, in rows of about equal length."""
    rows = -(-entries // MOST_ABREAST)
    look = {"symbolType": "stroke", "symbolSize": 600, "symbolOpacity": 1, **more}
    return altair.Legend(title=None, orient="bottom", columns=-(-entries // rows), **look)


def _colour(place: int) -> str:
    return PALETTE[place % len(PALETTE)]


def _thinned(count: int) -> list[int]:
    """Return evenly spaced places, first and last among them, at most as many as the page takes."""
    step = -(-count // MOST_POINTS)
    return sorted({*range(0, count, step), count - 1})


def _short(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
