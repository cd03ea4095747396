"""Curves over rounds, symbols, seconds or joules, with bands over seeds: for the page, and as files.

Colour tells curves apart. Several variants are told apart by dashes while that is readable, and have a plot
each where it is not. One description serves page and files: one to be moved and zoomed, one with legends.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from airfeel.lab.charts import COLUMN, STYLE, Drawing, Figure, altair, looks, reference, save_images, svg
from airfeel.lab.store import Array
from airfeel.lab.table import UNITS, RunSelection

MOST_POINTS = 400  # per curve; files of results have them all
MOST_DASHED, MOST_TOGETHER = 4, 16  # variants told apart by dashes, and curves in one plot
MOST_SHADED = 8  # curves in one plot with bands that are easily seen
MOST_LINEAR = 4  # times the fewest channel uses that a linear axis can show beside them
LEAST_LOG = 0.1  # of the mean: how far down a band reaches where a logarithmic axis has no room for it
VARIANT_DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]]
SHORT_LEGEND, NARROW_LEGEND = 4, 2  # entries in one row at most, and in a paper's column
LETTERS = {SHORT_LEGEND: 80, NARROW_LEGEND: 42}  # that fit in a row; the line beside a name takes seven
EDGE: dict[str, Any] = {"strokeWidth": 0.6, "strokeOpacity": 0.45}  # of a band, to tell bands that overlap
# Of a subject, of the others, and of all where none is one.
THICK, THIN, SHADE, INK = (3.2, 1.6, 2), (1.8, 0.9, 1.2), (0.2, 0.07, 0.16), (1, 0.75, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The course of one metric: in columns its mean over seeds, the limits, and what was used of the air.

    The columns are round, mean, low and high, and, of curves that know them, symbols, air_seconds and joules.
    """

    name: str
    variant: str
    columns: Mapping[str, Array]
    seeds: int = 1

    def along(self, axis: str) -> Sequence[float]:
        """Return where the points are on an x axis; nothing where the curve does not know."""
        found = self.columns.get(axis, np.zeros(0))
        return [] if axis == "symbols" and not found.any() else _plain(found)

    def thinned(self) -> "Curve":
        """Return as many points as can be seen: evenly spaced ones, and where the band reaches farthest."""
        count = len(self.columns["mean"])
        if count <= MOST_POINTS:
            return self
        parts = np.array_split(np.arange(count), MOST_POINTS // 4)
        kept = {0, count - 1, *(int(part[0]) for part in parts)}
        kept |= {int(part[np.argmax(self.columns["high"][part])]) for part in parts}
        kept |= {int(part[np.argmin(self.columns["low"][part])]) for part in parts}
        places = sorted(kept)
        return replace(self, columns={key: values[places] for key, values in self.columns.items()})


@dataclass(frozen=True, slots=True)
class XAxis:
    """What is written below the x axis, its numbers, and its Vega-Lite scale."""

    title: str
    format: str
    scale: dict[str, Any]
    ticks: Sequence[float] = ()
    below: Sequence[str] = ()
    """a second line for each tick"""


@dataclass(frozen=True, slots=True, eq=False)
class CurveDrawing:
    """A figure of curves: ready to be put on the page or into a file."""

    figure: Figure
    curves: Sequence[Curve]
    colours: Mapping[str, str]
    """by curve"""
    dashes: Mapping[str, Sequence[int]]
    """by curve, for where variants do not need them"""
    variants: Sequence[str] = field(default_factory=list)

    @property
    def split(self) -> bool:
        """Whether each variant has a plot of its own."""
        crowded = len(self.variants) > MOST_DASHED or len(self.curves) > MOST_TOGETHER
        return (crowded or self.figure.split) and len(self.variants) > 1

    @property
    def dashed_variants(self) -> bool:
        """Whether dashes tell variants apart, and not curves."""
        return len(self.variants) > 1 and not self.split

    def payload(self) -> dict[str, Any]:
        """Return what the page needs: a Vega-Lite description without data, and the data in columns."""
        names = list(self.colours)
        return {
            "spec": self._page_spec(),
            "x": self.figure.x,
            "axes": {key: asdict(axis) for key, axis in self._axes().items()},
            "logY": self.figure.log_y,
            "percent": self.figure.y_format.endswith("%"),
            "subjects": list(self.figure.subjects),
            "split": self.split,
            "names": names,
            "colours": list(self.colours.values()),
            "variants": list(self.variants),
            "dashes": self._told_apart(),
            "curves": [self._columns(curve.thinned(), names) for curve in self.curves],
        }

    def save(self, stem: Path) -> list[Path]:
        """Write PNG, SVG and PDF files; what uses no channel has no place over channel uses."""
        return save_images(self._image(), self._image(column=True), stem)

    def _repr_svg_(self) -> str:
        """Show the figure in a notebook, as a picture that needs no network."""
        return svg(self._image())

    def _image(self, column: bool = False) -> dict[str, Any]:
        """Return the description with all that is drawn in it; for a paper's column without its title."""
        drawn = [curve.thinned() for curve in self.curves if curve.along(self.figure.x)]
        shown = {curve.name for curve in drawn}
        colours = {name: colour for name, colour in self.colours.items() if name in shown}
        image = replace(self, curves=drawn, colours=colours)
        return image._paper_spec([row for curve in drawn for row in self._rows(curve)], column)

    def _told_apart(self) -> dict[str, Sequence[int]]:
        """Return dashes by variant, or by curve where variants do not need them."""
        if self.dashed_variants:
            return dict(zip(self.variants, VARIANT_DASHES, strict=False))
        return {name: self.dashes[name] for name in self.colours}

    def _axes(self) -> dict[str, XAxis]:
        """Return the x axes to choose from, with few words where plots are small."""
        totals = [used[-1] for curve in self.curves if (used := curve.along("symbols"))]
        uneven = bool(totals) and max(totals) > MOST_LINEAR * min(totals)
        log, linear = {"type": "log", "nice": False}, {"type": "linear", "nice": False, "zero": False}
        title, symbols = self.figure.x_title, "channel uses (symbols)"
        if self.split:
            title, symbols = title.split()[-1], "symbols"
        ticks, logarithmic = self.figure.ticks, self.figure.log_x
        form = ".6~g" if ticks else "~s" if logarithmic else "d"
        room = {"padding": 8} if ticks else {}  # for the first and the last mark
        first = XAxis(title, form, (log if logarithmic else linear) | room, ticks, self.figure.below)
        scale = log if uneven else linear
        found = {"round": first, "symbols": XAxis(symbols, "~s", scale)}
        known = {key for curve in self.curves for key in curve.columns}
        return found | {key: XAxis(words, ".6~g", scale) for key, words in UNITS.items() if key in known}

    def _columns(self, curve: Curve, names: Sequence[str]) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "name": names.index(curve.name),
            "variant": self.variants.index(curve.variant),
            "seeds": curve.seeds,
            "round": curve.along("round"),
            "mean": _short(curve.columns["mean"]),
        }
        columns |= {"symbols": used} if (used := curve.along("symbols")) else {}
        columns |= {key: _short(curve.columns[key]) for key in UNITS if key in curve.columns}
        if curve.seeds > 1:
            mean, low, high = (curve.columns[key] for key in ("mean", "low", "high"))
            columns["half"] = _short(np.maximum(high - mean, mean - low), 3)
        return columns

    def _rows(self, curve: Curve) -> list[dict[str, Any]]:
        mean, low, high = (curve.columns[key] for key in ("mean", "low", "high"))
        low = np.maximum(low, LEAST_LOG * mean) if self.figure.log_y else low
        columns = curve.along(self.figure.x), _short(mean), _short(low), _short(high)
        return [
            {"curve": curve.name, "variant": curve.variant, "x": x, "mean": m, "low": down, "high": up}
            for x, m, down, up in zip(*columns, strict=True)
        ]

    def _page_spec(self) -> dict[str, Any]:
        """Return the description without legends, which the page itself has."""
        area = altair.Chart().mark_area(clip=True, **EDGE)
        band, line = self._layers(area, altair.Chart().mark_line(clip=True, **self._marks(40)))
        zoom = altair.selection_interval(
            name="zoom",
            bind="scales",
            zoom="wheel![event.ctrlKey || event.metaKey]",
            translate="[pointerdown[event.pointerType != 'touch'], window:pointerup] > window:pointermove!",
        )
        chart = altair.layer(band, line.add_params(zoom), data=altair.NamedData(name="rows"))
        sized = chart.properties(width="container", height=200 if self.split else 380)
        return dict(sized.to_dict()) | {"config": STYLE}

    def _paper_spec(self, rows: list[dict[str, Any]], column: bool = False) -> dict[str, Any]:
        """Return the description with data, and legends below; for a paper's column without its title.

        Nothing is clipped, and the rows are put in last: either would take most of the time.
        """
        stroke = altair.Chart().mark_line(**self._marks(16 if column else 40))
        area, legends = altair.Chart().mark_area(**EDGE), NARROW_LEGEND if column else SHORT_LEGEND
        plot = altair.layer(*self._layers(area, stroke, legends), data=altair.NamedData(name="rows"))
        chart: Any = plot.properties(**(COLUMN if column else {"width": 640, "height": 400}))
        if self.split:
            header = altair.Header(title=None, labelFontSize=13, labelFontWeight="bold")
            facet = altair.Facet("variant:N", sort=list(self.variants), header=header)
            small = {"width": 80, "height": 75} if column else {"width": 230, "height": 170}
            chart = plot.properties(**small).facet(facet, columns=min(2 if column else 4, len(self.variants)))
        spec = chart.properties(title="" if column else self.figure.title).to_dict()
        return dict(spec) | {"config": STYLE, "datasets": {"rows": rows}}

    def _layers(self, area: Any, line: Any, legends: int = 0) -> tuple[Any, Any]:
        """Return bands and lines, with so many legend entries in a row."""
        figure, dashes = self.figure, self._told_apart()
        legend = _legend(self.colours, legends) if legends else None
        beside = _legend(self.variants, legends, symbolStrokeColor="#444") if legends else None
        axis = altair.Axis(format=figure.y_format or ".6~g", tickCount=5 if self.split or figure.log_y else 8)
        scale = altair.Scale(type="log") if figure.log_y else altair.Scale(zero=False)
        y = {"title": figure.y_title, "scale": scale, "axis": axis}
        thickness = THIN if legends == NARROW_LEGEND else THICK
        width, shade, ink = (self._weight(*values) for values in (thickness, SHADE, INK))
        dash = altair.StrokeDash(
            "variant:N" if self.dashed_variants else "curve:N",
            scale=_scale(dashes),
            legend=beside if self.dashed_variants else legend,
        )
        colour = altair.Color("curve:N", scale=_scale(self.colours), legend=legend)
        edge = altair.Stroke("curve:N", scale=_scale(self.colours), legend=None)
        both = {"x": self._x(), "color": colour, "detail": "variant:N"}
        bands = area.encode(**both, y=altair.Y("low:Q", **y), y2="high:Q", fillOpacity=shade, stroke=edge)
        drawn = {"strokeDash": dash, "strokeWidth": width, "strokeOpacity": ink}
        return bands, line.encode(**both, **drawn, y=altair.Y("mean:Q", **y))

    def _weight(self, subject: float, other: float, alike: float) -> Any:
        """Return a value for the curves that a figure is about, and one for the others."""
        if not self.figure.subjects:
            many = len(self.curves) > MOST_SHADED and not self.split
            return altair.value(alike / 2 if many and alike < 1 else alike)
        chosen = altair.FieldOneOfPredicate(field="curve", oneOf=list(self.figure.subjects))
        return altair.condition(chosen, altair.value(subject), altair.value(other))

    def _marks(self, size: int) -> dict[str, Any]:
        """Return marks for lines of few points, which else could not be told from what is between them."""
        few = bool(self._axes()[self.figure.x].ticks)
        return {"point": {"size": size, "filled": True, "strokeWidth": 0}} if few else {}

    def _x(self) -> Any:
        x = self._axes()[self.figure.x]
        ticks = list(x.ticks)
        where: dict[str, Any] = {"values": ticks} if ticks else {"tickCount": 4 if self.split else 8}
        if x.below:
            words = f"{json.dumps(list(x.below))}[indexof({json.dumps(ticks)}, datum.value)]"
            where["labelExpr"] = f"[datum.label, {words}]"
        axis = altair.Axis(format=x.format, **where)
        return altair.X("x:Q", title=x.title, scale=altair.Scale(**x.scale), axis=axis)


AnyDrawing = Drawing | CurveDrawing


def courses(shown: RunSelection, metric: str, names: Mapping[str, str] | None = None) -> list[Curve]:
    """Return the mean course of a metric for every curve and variant that has it, variants by other names."""
    names = names or {}
    return [
        Curve(curve, names.get(variant, variant), columns, seeds)
        for (curve, variant), seeds, columns in shown.course(metric)
    ]


def draw_curves(figure: Figure, curves: Sequence[Curve], schemes: Mapping[str, str]) -> CurveDrawing | None:
    """Make the drawing of what there is; None where there is nothing.

    ``schemes`` names all curves with their schemes: one keeps its look from figure to figure, also where
    others have nothing to show. Variants of a single curve are coloured as curves are.
    """
    if not curves:
        return None
    if len(schemes) == 1 and len({curve.variant for curve in curves}) > 1:
        curves = [replace(curve, name=curve.variant, variant="") for curve in curves]
        schemes = {curve.name: "" for curve in curves}
    shown = {curve.name for curve in curves}
    found = {name: look for name, look in looks(schemes).items() if name in shown}
    ideal = reference(schemes)
    if figure.subjects:  # as thick as they are: else a curve that equals it would hide it
        figure = replace(figure, subjects=[*figure.subjects, ideal])
    drawing = CurveDrawing(
        figure,
        curves,
        {name: colour for name, (colour, _) in found.items()},
        {name: dash for name, (_, dash) in found.items()},
        list(dict.fromkeys(curve.variant for curve in curves)),
    )
    if drawing.dashed_variants:
        return drawing
    return replace(drawing, curves=sorted(curves, key=lambda curve: curve.name == ideal))


def plain_curve(name: str, x: Iterable[float], y: Iterable[float], variant: str = "") -> Curve:
    """Return a curve without a band, as long as the shorter of x and y."""
    pairs = np.array(list(zip(x, y, strict=False)), dtype=float)
    at, values = pairs.T
    return Curve(name, variant, {"round": at, "mean": values, "low": values, "high": values})


def plain_curves(figure: Figure, data: Mapping[str, tuple[Iterable[float], Iterable[float]]]) -> CurveDrawing:
    """Make the drawing of named curves without bands, each given by its x and y."""
    drawing = draw_curves(
        figure, [plain_curve(name, *of) for name, of in data.items()], dict.fromkeys(data, "")
    )
    assert drawing is not None  # there is at least one
    return drawing


def _scale(values: Mapping[str, Any]) -> Any:
    return altair.Scale(domain=list(values), range=list(values.values()))


def _legend(names: Collection[str], most: int, **more: Any) -> Any:
    """Return a legend below the plot, in rows of about equal length that no name is too long for."""
    entries = len(names)
    fitting = LETTERS[most] // (7 + max(map(len, names), default=0))
    rows = -(-entries // min(most, max(1, fitting)))
    size = 600 if most == SHORT_LEGEND else 200
    look = {"symbolType": "stroke", "symbolSize": size, "symbolOpacity": 1, **more}
    return altair.Legend(title=None, orient="bottom", columns=-(-entries // rows), **look)


def _short(values: Array, digits: int = 5) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def _plain(values: Array) -> list[float]:
    """Return numbers, whole ones as such."""
    return [int(value) if value == int(value) else float(value) for value in values]
