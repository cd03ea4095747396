"""A figure is a description; one chart of it serves page, PNG and SVG. Needs the extra ``report``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel.experiments.groups import Group, average

try:
    import altair
    import vl_convert
except ImportError as error:
    raise ImportError("figures need altair and vl-convert: pip install 'airfeel[report]'") from error

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
_SIZE = {"width": 640, "height": 380}
_FONTS = {"labelFontSize": 12, "titleFontSize": 13}


@dataclass(frozen=True, slots=True)
class Figure:
    """Curves over rounds (or another column of the records), one per group of runs, with a 95 % band."""

    name: str
    title: str
    metric: str
    y_title: str
    x: str = "round"
    x_title: str = "communication round"
    y_format: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure with its data: ready to be put on the page or into a file."""

    figure: Figure
    chart: Any

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite description for the page, as wide as the page allows."""
        return self.chart.properties(width="container", height=_SIZE["height"]).to_dict()  # type: ignore[no-any-return]

    def save(self, stem: Path) -> list[Path]:
        """Write ``stem.png`` and ``stem.svg``."""
        fixed = self.chart.properties(**_SIZE, background="white", title=self.figure.title).to_dict()
        png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
        png.write_bytes(vl_convert.vegalite_to_png(fixed, vl_version=vega_lite_version(), scale=2))
        svg.write_text(vl_convert.vegalite_to_svg(fixed, vl_version=vega_lite_version()), encoding="utf-8")
        return [png, svg]


def draw(figure: Figure, groups: Sequence[Group]) -> Drawing | None:
    """Make the chart of ``figure``; None where no run has a value of its metric."""
    rows = [
        {
            "curve": group.label,
            "x": m.x,
            "mean": _short(m.value),
            "low": _short(m.low),
            "high": _short(m.high),
        }
        for group in groups
        for m in average(group, figure.metric, figure.x)
    ]
    # A curve keeps its colour from figure to figure, also where others have nothing to show.
    shown = {row["curve"] for row in rows}
    places = {group.label: place for place, group in enumerate(groups) if group.label in shown}
    return Drawing(figure, _curves(figure, rows, places)) if rows else None


def vega_lite_version() -> str:
    """Return the version of Vega-Lite that this altair writes, as vl-convert names it."""
    return ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def javascript() -> str:
    """Return the drawing library as one script, so that a page needs no network."""
    return vl_convert.javascript_bundle(vl_version=vega_lite_version())  # type: ignore[call-arg]


def _curves(figure: Figure, rows: list[dict[str, Any]], places: dict[str, int]) -> Any:
    chosen = altair.selection_point(fields=["curve"], bind="legend")
    paint, dash = _scale(places, PALETTE), _scale(places, DASHES)
    legend = altair.Legend(
        title=None,
        orient="bottom",
        columns=2,
        symbolType="stroke",
        symbolSize=500,
        symbolOpacity=1,
        labelLimit=320,
    )
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        x=altair.X(
            "x:Q", title=figure.x_title, scale=altair.Scale(nice=False), axis=altair.Axis(tickCount=8)
        ),
        color=altair.Color("curve:N", scale=paint, legend=legend),
    )
    band = base.mark_area().encode(
        y=altair.Y("low:Q", title=figure.y_title),
        y2="high:Q",
        opacity=altair.condition(chosen, altair.value(0.18), altair.value(0.02)),
    )
    line = base.mark_line(strokeWidth=2.2).encode(
        y=altair.Y(
            "mean:Q",
            title=figure.y_title,
            scale=altair.Scale(zero=False),
            axis=altair.Axis(format=figure.y_format),
        ),
        strokeDash=altair.StrokeDash("curve:N", scale=dash, legend=legend),
        opacity=altair.condition(chosen, altair.value(1.0), altair.value(0.08)),
        tooltip=[
            altair.Tooltip("curve:N", title="curve"),
            altair.Tooltip("x:Q", title=figure.x_title),
            altair.Tooltip("mean:Q", title=figure.y_title, format=figure.y_format.replace(".0%", ".2%")),
        ],
    )
    return (band + line).add_params(chosen).configure_axis(**_FONTS).configure_legend(labelFontSize=13)


def _scale(places: dict[str, int], values: list[Any]) -> Any:
    return altair.Scale(domain=list(places), range=[values[place % len(values)] for place in places.values()])


def _short(value: float) -> float:
    """Six digits are more than a screen shows."""
    return float(f"{value:.6g}")
