"""Curves over rounds, symbols, seconds or joules, with bands over seeds: for the page, and as PNG and SVG.

Colour tells curves apart. Several variants are told apart by dashes while that is readable, and have a plot
each where it is not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from airfeel.lab.report.charts import DASHES, PALETTE, Figure, save_column, save_images
from airfeel.lab.report.curve_charts import Look, XAxis, page_spec, paper_spec
from airfeel.lab.report.finals import WITHOUT_RADIO
from airfeel.lab.report.means import Mean, Rows, average, interval

MOST_POINTS = 400  # per curve on the page; files of results have them all
MOST_DASHED, MOST_TOGETHER = 4, 16  # variants told apart by dashes, and curves in one plot
MOST_SHADED = 8  # curves in one plot with bands that are easily seen
MOST_LINEAR = 4  # times the fewest channel uses that a linear axis can show beside them
LEAST_LOG = 0.1  # of the mean: how far down a band reaches where a logarithmic axis has no room for it
UNITS = {"air_seconds": "time on air (s)", "joules": "energy sent by a device (J)"}
REFERENCE = "#808080", [5, 4]  # drawn last, so that a curve which equals it is seen between the dashes
VARIANT_DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The course of one metric: means over seeds by round, and what was used of the air until then.

    ``units`` are seconds on air and joules, for runs that know them.
    """

    name: str
    variant: str
    points: Sequence[Mean]
    symbols: Sequence[float] = ()
    units: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def on_air(self) -> bool:
        """Whether any channel was used."""
        return any(self.symbols)

    def along(self, axis: str) -> Sequence[float]:
        """Return where the points are on an x axis; nothing where the curve does not know."""
        if axis == "round":
            return [point.x for point in self.points]
        return self.units.get(axis, ()) if axis in UNITS else self.symbols if self.on_air else ()


@dataclass(frozen=True, slots=True, eq=False)
class CurveDrawing:
    """A figure of curves: ready to be put on the page or into a file."""

    figure: Figure
    curves: Sequence[Curve]
    colours: Mapping[str, str]
    """by curve"""
    dashes: Mapping[str, Sequence[int]]
    """by curve, for where variants do not need them"""
    variants: Sequence[str]

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
        look, names = self._look(self.colours), list(self.colours)
        return {
            "spec": page_spec(look),
            "x": self.figure.x,
            "axes": {key: asdict(axis) for key, axis in self._axes().items()},
            "logY": self.figure.log_y,
            "percent": self.figure.y_format.endswith("%"),
            "subjects": list(self.figure.subjects),
            "split": self.split,
            "names": names,
            "colours": list(self.colours.values()),
            "variants": list(self.variants),
            "dashes": look.dashes,
            "curves": [self._columns(curve, names) for curve in self.curves],
        }

    def save(self, stem: Path) -> list[Path]:
        """Write PNG, SVG and PDF files; what uses no channel has no place over channel uses."""
        drawn = [curve for curve in self.curves if curve.along(self.figure.x)]
        shown = {curve.name for curve in drawn}
        colours = {name: colour for name, colour in self.colours.items() if name in shown}
        rows = [row for curve in drawn for row in self._rows(curve)]
        look = self._look(colours)
        column = paper_spec(look, rows, column=True)
        return [*save_images(paper_spec(look, rows), stem), save_column(column, stem)]

    def _look(self, colours: Mapping[str, str]) -> Look:
        return Look(
            figure=self.figure,
            x=self._axes()[self.figure.x],
            colours=colours,
            dashes=dict(zip(self.variants, VARIANT_DASHES, strict=False))
            if self.dashed_variants
            else {name: self.dashes[name] for name in colours},
            variants=self.variants,
            dashed_variants=self.dashed_variants,
            split=self.split,
            many=len(self.curves) > MOST_SHADED and not self.split,
        )

    def _axes(self) -> dict[str, XAxis]:
        """Return the x axes to choose from, with few words where plots are small."""
        totals = [curve.symbols[-1] for curve in self.curves if curve.on_air]
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
        known = {key for curve in self.curves for key in curve.units}
        return found | {key: XAxis(words, ".6~g", scale) for key, words in UNITS.items() if key in known}

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
        for key, values in curve.units.items():
            columns[key] = [_short(values[place], 5) for place in kept]
        if points[0].seeds > 1:
            halves = (max(point.high - point.value, point.value - point.low) for point in points)
            columns["half"] = [_short(half, 3) for half in halves]
        return columns

    def _rows(self, curve: Curve) -> list[dict[str, Any]]:
        return [
            {
                "curve": curve.name,
                "variant": curve.variant,
                "x": x,
                "mean": _short(point.value, 5),
                "low": _short(max(point.low, LEAST_LOG * point.value) if self.figure.log_y else point.low, 5),
                "high": _short(point.high, 5),
            }
            for x, point in zip(curve.along(self.figure.x), curve.points, strict=True)
        ]


def make_curve(name: str, variant: str, runs: Sequence[Rows], metric: str) -> Curve | None:
    """Average one curve over its runs; None where they have no value of the metric."""
    points = average(runs, metric)
    if not points:
        return None
    used = {row["round"]: row.get("symbols") or 0 for row in runs[0]}
    units = {key: means for key in UNITS if (means := _means(runs, key, points))}
    return Curve(name, variant, banded(points, metric), [used[int(point.x)] for point in points], units)


def _means(runs: Sequence[Rows], key: str, points: Sequence[Mean]) -> list[float]:
    """Return the mean of a unit over the runs at every point; nothing where not every one is known."""
    found = {mean.x: mean.value for mean in average(runs, key)}
    places = [point.x for point in points]
    return [found[place] for place in places] if all(place in found for place in places) else []


def banded(points: Sequence[Mean], metric: str) -> Sequence[Mean]:
    """Return the points with bands that can be drawn.

    Student's interval does not know that accuracy is a share. Over two seeds it is 12.7 times as wide as what
    lies between them, and hides everything else: their band goes from one to the other.
    """
    points = [point.between() if point.seeds == 2 else point for point in points]
    if metric != "accuracy":
        return points
    return [replace(point, low=max(point.low, 0.0), high=min(point.high, 1.0)) for point in points]


def draw_curves(figure: Figure, curves: Iterable[Curve | None], order: Sequence[str]) -> CurveDrawing | None:
    """Make the drawing of what there is; None where there is nothing.

    ``order`` names all curves: one keeps its colour from figure to figure, also where others have nothing to
    show. Variants of a single curve are coloured as curves are.
    """
    found = [curve for curve in curves if curve is not None]
    if not found:
        return None
    if len(order) == 1 and len({curve.variant for curve in found}) > 1:
        found = [replace(curve, name=curve.variant, variant="") for curve in found]
        order = [curve.name for curve in found]
    return _drawing(figure, found, order)


def _drawing(figure: Figure, found: Sequence[Curve], order: Sequence[str]) -> CurveDrawing:
    """Give every curve its colour and dashes, no two alike; grey is what the others are held to."""
    shown = {curve.name for curve in found}
    looks = {name: REFERENCE for name in order if name in WITHOUT_RADIO}
    others = [name for name in order if name not in looks]
    for place, name in enumerate(sorted(others, key=lambda name: name not in figure.subjects)):
        looks[name] = (
            PALETTE[place % len(PALETTE)],
            DASHES[(place + place // len(PALETTE)) % len(DASHES)],
        )
    drawing = CurveDrawing(
        figure,
        found,
        {name: looks[name][0] for name in order if name in shown},
        {name: looks[name][1] for name in order if name in shown},
        list(dict.fromkeys(curve.variant for curve in found)),
    )
    if drawing.dashed_variants:
        return drawing
    return replace(drawing, curves=sorted(found, key=lambda curve: curve.name in WITHOUT_RADIO))


def plain_curves(figure: Figure, data: Mapping[str, tuple[Iterable[float], Iterable[float]]]) -> CurveDrawing:
    """Make the drawing of named curves without bands, each given by its x and y."""
    curves = [
        Curve(name, "", [interval(float(x), [float(y)]) for x, y in zip(xs, ys, strict=False)])
        for name, (xs, ys) in data.items()
    ]
    return _drawing(figure, curves, list(data))


def _thinned(count: int) -> list[int]:
    """Return evenly spaced places, first and last among them, at most as many as the page takes."""
    step = -(-count // MOST_POINTS)
    return sorted({*range(0, count, step), count - 1})


def _short(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
