"""Figures of an inspection and of a forecast: courses, and a map of errors. Needs the extra ``report``."""

from typing import Any

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from airfeel.lab.charts import Drawing, Figure, altair
from airfeel.lab.curves import CurveDrawing, plain_curves
from airfeel.lab.exhibits.magnitudes import magnitude_map
from airfeel.lab.studies.inspection import Recovery, model_correlation, model_persistence
from airfeel.lab.studies.planning import Axis, Map
from airfeel.lab.studies.recorded import AggregateStatistics, Recorded
from airfeel.units import decibel

FINE = 60  # cells per side into which a map is interpolated for drawing
SHADES = 12  # at most, of 1, 2.5, 5, 10 or 20 dB each


def draw_inspection(
    recorded: Recorded, found: AggregateStatistics, recovery: Recovery
) -> list[Drawing | CurveDrawing]:
    """Return sparsity, persistence, correlation, magnitude map and recovery."""
    lags = len(found.persistence)
    counted, learned = "chain counted from round to round", "chain the receiver learned"
    rounds = np.arange(len(recorded.aggregates)) + recorded.first_round
    return [
        plain_curves(
            Figure("sparsity", "support over time", "", "share of coefficients"),
            {
                "nonzero": (rounds, found.activity),
                "nonzero that become zero": (rounds[1:], found.leaving),
                "zero that become nonzero": (rounds[1:], found.entering),
            },
        ),
        plain_curves(
            Figure("persistence", "support persistence", "", "P(still nonzero)", x_title="rounds later"),
            {
                "measured": (range(lags), found.persistence),
                counted: (range(lags), model_persistence(found.chain, lags)),
                learned: (range(lags), model_persistence(recovery.learned, lags)),
            },
        ),
        plain_curves(
            Figure("correlation", "amplitude autocorrelation", "", "correlation", x_title="rounds later"),
            {
                "measured": (range(lags), found.correlation),
                counted: (range(lags), model_correlation(found.chain, lags)),
                learned: (range(lags), model_correlation(recovery.learned, lags)),
            },
        ),
        magnitude_map(recorded.aggregates, recorded.first_round),
        plain_curves(
            Figure("recovery", "recovery of the recorded aggregates", "", "NMSE (dB)"),
            {
                "with memory": (rounds, decibel(recovery.measured.memory)),
                "without memory": (rounds, decibel(recovery.measured.alone)),
                "with memory, predicted": (rounds, decibel(recovery.predicted.memory)),
                "without memory, predicted": (rounds, decibel(recovery.predicted.alone)),
            },
        ),
    ]


def draw_map(field: Map) -> Drawing:
    """Draw steady-state NMSE in shades; points mark what was computed, a cross the link asked about."""
    figure = Figure("contour", "predicted NMSE in steady state", "nmse_db", field.y.title)
    shades = _shades(float(field.nmse_db.min()))
    x = altair.X("x:Q", title=field.x.title, scale=_scale(field.x))
    y = altair.Y("y:Q", title=field.y.title, scale=_scale(field.y))
    cells = altair.Chart(altair.InlineData(values=_fine(field))).encode(
        x=x,
        x2="x2:Q",
        y=y,
        y2="y2:Q",
        color=altair.Color("nmse:Q", scale=shades, title="NMSE (dB)"),
        stroke=altair.Stroke("nmse:Q", scale=shades, title="NMSE (dB)"),
    )
    dots = altair.Chart(altair.InlineData(values=_computed(field)))
    dots = dots.mark_circle(size=9, color="black", opacity=0.5)
    own = [{"x": field.x.here, "y": field.y.here}]
    here = altair.Chart(altair.InlineData(values=own)).mark_point(
        shape="cross", size=160, color="white", filled=True, stroke="black"
    )
    chart = cells.mark_rect() + dots.encode(x=x, y=y, tooltip=["nmse:Q"]) + here.encode(x=x, y=y)
    return Drawing(figure, chart.configure_axis(grid=False))


def _fine(field: Map) -> list[dict[str, float]]:
    """Interpolate the map linearly between its points, on the axes as they are drawn."""
    sides = field.x, field.y
    where = [np.log(side.values) if side.log else side.values for side in sides]
    edges = [np.linspace(axis[0], axis[-1], FINE + 1) for axis in where]
    middles = [(edge[:-1] + edge[1:]) / 2 for edge in edges]
    nmse = RegularGridInterpolator(where, field.nmse_db)(tuple(np.meshgrid(*middles, indexing="ij")))
    x, y = (
        [float(f"{end:.5g}") for end in (np.exp(edge) if side.log else edge)]
        for side, edge in zip(sides, edges, strict=True)
    )
    return [
        {"x": x[i], "x2": x[i + 1], "y": y[j], "y2": y[j + 1], "nmse": round(float(value), 2)}
        for (i, j), value in np.ndenumerate(nmse)
    ]


def _computed(field: Map) -> list[dict[str, float]]:
    return [
        {"x": float(field.x.values[i]), "y": float(field.y.values[j]), "nmse": round(float(value), 2)}
        for (i, j), value in np.ndenumerate(field.nmse_db)
    ]


def _scale(axis: Axis) -> Any:
    ends = [float(axis.values[0]), float(axis.values[-1])]
    return altair.Scale(type="log" if axis.log else "linear", domain=ends, nice=False)


def _shades(lowest: float) -> Any:
    """Return the scale of colours: from dark, the smallest error, to light at 0 dB, in equal steps."""
    step = next((s for s in (1.0, 2.5, 5.0, 10.0) if -lowest <= s * SHADES), 20.0)
    count = max(2, int(np.ceil(-lowest / step)))
    return altair.Scale(type="threshold", domain=list(-step * np.arange(count - 1, 0, -1)), scheme="viridis")
