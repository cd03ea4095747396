"""Maps of the predicted error over many links. Needs the extra ``report``."""

from itertools import pairwise
from typing import Any

import altair
import numpy as np
from scipy.interpolate import RegularGridInterpolator

from airfeel.experiments.report.charts import Drawing, Figure
from airfeel.experiments.studies.planning import Map
from airfeel.theory.planner import LinkBudget

FINE = 60  # cells per side into which a map is interpolated for drawing
SHADES = 12  # at most, of 1, 2.5, 5, 10 or 20 dB each


def draw_map(field: Map, link: LinkBudget) -> Drawing:
    """Draw steady-state NMSE in shades over s/N and P; points mark what was computed, a cross the link."""
    figure = Figure("contour", "predicted NMSE in steady state", "nmse_db", "energy per device and round, P")
    shades = _shades(float(field.nmse_db.min()))
    x = altair.X("ratio:Q", title="channel uses per parameter, s/N", scale=_log(field.ratios))
    y = altair.Y("power:Q", title=figure.y_title, scale=_log(field.powers))
    cells = altair.Chart(altair.InlineData(values=_fine(field))).encode(
        x=x,
        x2="ratio2:Q",
        y=y,
        y2="power2:Q",
        color=altair.Color("nmse:Q", scale=shades, title="NMSE (dB)"),
        stroke=altair.Stroke("nmse:Q", scale=shades, title="NMSE (dB)"),
    )
    dots = altair.Chart(altair.InlineData(values=_computed(field)))
    dots = dots.mark_circle(size=9, color="black", opacity=0.5)
    own = [{"ratio": link.ratio, "power": link.power}]
    here = altair.Chart(altair.InlineData(values=own)).mark_point(
        shape="cross", size=160, color="white", filled=True, stroke="black"
    )
    chart = cells.mark_rect() + dots.encode(x=x, y=y, tooltip=["nmse:Q"]) + here.encode(x=x, y=y)
    return Drawing(figure, chart.configure_axis(grid=False))


def _fine(field: Map) -> list[dict[str, float]]:
    """Interpolate the map linearly between its points, on logarithmic axes."""
    where = np.log(field.ratios), np.log(field.powers)
    value = RegularGridInterpolator(where, field.nmse_db)
    edges = [np.linspace(axis[0], axis[-1], FINE + 1) for axis in where]
    rows = []
    for left, right in pairwise(edges[0]):
        for low, high in pairwise(edges[1]):
            nmse = float(value(((left + right) / 2, (low + high) / 2)))
            ends = zip(("ratio", "ratio2", "power", "power2"), (left, right, low, high), strict=True)
            rows.append({key: float(f"{np.exp(end):.5g}") for key, end in ends} | {"nmse": round(nmse, 2)})
    return rows


def _computed(field: Map) -> list[dict[str, float]]:
    return [
        {"ratio": float(ratio), "power": float(power), "nmse": round(float(field.nmse_db[i, j]), 2)}
        for i, ratio in enumerate(field.ratios)
        for j, power in enumerate(field.powers)
    ]


def _log(values: Any) -> Any:
    return altair.Scale(type="log", domain=[float(values[0]), float(values[-1])], nice=False)


def _shades(lowest: float) -> Any:
    """Return the scale of colours: from dark, the smallest error, to light at 0 dB, in equal steps."""
    step = next((s for s in (1.0, 2.5, 5.0, 10.0) if -lowest <= s * SHADES), 20.0)
    count = max(2, int(np.ceil(-lowest / step)))
    stops = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], dtype=float)
    at = np.linspace(0, len(stops) - 1, count)
    mixed = np.array([np.interp(at, range(len(stops)), stops[:, c]) for c in range(3)]).T
    colours = ["#" + "".join(f"{round(c):02x}" for c in colour) for colour in mixed]
    return altair.Scale(type="threshold", domain=list(-step * np.arange(count - 1, 0, -1)), range=colours)
