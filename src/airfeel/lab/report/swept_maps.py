"""Maps over two swept keys: a field for every pair of values, coloured by what came out. Needs ``report``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair

from airfeel.lab.collect import Collected, Line
from airfeel.lab.report.charts import Drawing, Figure
from airfeel.lab.report.link_level import POWER, told
from airfeel.lab.report.means import interval
from airfeel.lab.report.swept_figures import ENDS

Row = dict[str, Any]


def draw_maps(figure: Figure, keys: tuple[str, str], collected: Collected) -> list[Drawing]:
    """Draw a map for each curve and each combination of other swept keys, all with the same colours."""
    settings = collected.experiment.settings_by_variant()
    groups: dict[str, list[Row]] = {}
    for line in collected.lines:
        row = _field(line, settings[line.variant], keys, figure.metric)
        if row is not None:
            groups.setdefault(_title(line, settings, keys), []).append(row)
    values = [row["mean"] for rows in groups.values() for row in rows]
    return [
        Drawing(
            replace(
                figure,
                name=figure.name if len(groups) == 1 else f"{figure.name}-{place}",
                title=f"{figure.title}: {title}" if title and len(groups) > 1 else figure.title,
            ),
            _chart(figure, keys, rows, (min(values), max(values))),
        )
        for place, (title, rows) in enumerate(groups.items(), start=1)
    ]


def _field(line: Line, settings: Mapping[str, Any], keys: tuple[str, str], metric: str) -> Row | None:
    """Return mean and half its interval over seeds at a pair of values; None where there is no number."""
    values = [value for seed in line.runs if math.isfinite(value := ENDS[metric](line, seed))]
    if not values:
        return None
    mean = interval(0, values)
    half = mean.high - mean.value if mean.seeds > 1 else None
    level = {"snr": told([line])} if POWER in keys else {}
    return level | {
        "x": settings[keys[0]],
        "y": settings[keys[1]],
        "mean": mean.value,
        "half": half,
        "seeds": mean.seeds,
    }


def _title(line: Line, settings: Mapping[str, Mapping[str, Any]], keys: Sequence[str]) -> str:
    others = [f"{key} = {value}" for key, value in settings[line.variant].items() if key not in keys]
    return ", ".join([line.curve, *others])


def _chart(figure: Figure, keys: tuple[str, str], rows: list[Row], limits: tuple[float, float]) -> Any:
    """Return coloured fields with their numbers in them, dark letters on light fields and light on dark."""
    form = figure.y_format.replace(".2~%", ".1%") or ".1f"
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        x=altair.X("x:O", title=keys[0], axis=altair.Axis(labelAngle=0)),
        y=altair.Y("y:O", title=keys[1], sort="descending"),
    )
    colour = altair.Color(
        "mean:Q",
        title=figure.y_title,
        scale=altair.Scale(scheme="viridis", domain=list(limits), zero=False, nice=False),
        legend=altair.Legend(format=form),
    )
    told_of = [
        altair.Tooltip("x:O", title=keys[0]),
        altair.Tooltip("y:O", title=keys[1]),
        altair.Tooltip("mean:Q", title=figure.y_title, format=form),
        altair.Tooltip("half:Q", title="±", format=form),
        altair.Tooltip("seeds:Q", title="seeds"),
    ]
    if POWER in keys:
        told_of.append(altair.Tooltip("snr:N", title="SNR per symbol"))
    middle = (limits[0] + limits[1]) / 2
    letters = altair.condition(f"datum.mean > {middle!r}", altair.value("#000000"), altair.value("#ffffff"))
    fields = base.mark_rect().encode(color=colour, tooltip=told_of)
    numbers = base.mark_text(fontSize=12).encode(text=altair.Text("mean:Q", format=form), color=letters)
    if POWER not in keys:
        return fields + numbers
    return fields + numbers + base.mark_text(fontSize=9, dy=13).encode(text="snr:N", color=letters)
