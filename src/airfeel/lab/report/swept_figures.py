"""Figures over a swept key: what came out in the end, one plot for each combination of the other keys."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from airfeel.lab.collect import Collected, Line
from airfeel.lab.report.charts import Figure
from airfeel.lab.report.curves import MOST_LINEAR, Curve, CurveDrawing, banded, draw_curves
from airfeel.lab.report.link_level import POWER, told, with_level
from airfeel.lab.report.means import interval
from airfeel.lab.report.measures import OfOne, cumulative_nmse_db, late, nmse_db
from airfeel.lab.report.receptions import CUMULATIVE

ENDS: dict[str, OfOne] = {
    "accuracy": lambda line, seed: late(line, seed, "accuracy"),
    "loss": lambda line, seed: late(line, seed, "loss"),
    "nmse_db": nmse_db,
    "cumulative_nmse_db": cumulative_nmse_db,
}
"""What a metric comes to, by seed."""
HOW = {
    "accuracy": "Mean over the last tenth of the rounds.",
    "loss": "Mean over the last tenth of the rounds.",
    "nmse_db": "Mean over the second half of the rounds.",
    "cumulative_nmse_db": f"After the last round. {CUMULATIVE}",
}


class PlotPosition(NamedTuple):
    """Where a variant is drawn: in which plot, and at which value of the key."""

    plot: str
    x: float


def draw_swept(figure: Figure, key: str, collected: Collected, order: Sequence[str]) -> CurveDrawing | None:
    """Draw the final value of a metric over the values of a swept key."""
    variants = collected.experiment.settings_by_variant()
    places: Mapping[str, PlotPosition] = arrange(variants, key)
    ticks = sorted({place.x for place in places.values()})
    figure = replace(
        figure,
        x_title=key,
        log_x=ticks[0] > 0 and ticks[-1] > MOST_LINEAR * ticks[0],
        ticks=ticks,
        split=True,
    )
    if any(POWER in settings for settings in variants.values()):
        figure, places = _with_levels(figure, key, collected.lines, places)
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in collected.lines:
        groups.setdefault((line.curve, places[line.variant].plot), []).append(line)
    curves = [_curve(*group, lines, places, figure.metric) for group, lines in groups.items()]
    return draw_curves(figure, curves, order)


def _with_levels(
    figure: Figure, key: str, lines: Sequence[Line], places: Mapping[str, PlotPosition]
) -> tuple[Figure, Mapping[str, PlotPosition]]:
    """Tell the SNR below every P, or with the names of plots where it is not the same in all of them."""
    below = [told(line for line in lines if places[line.variant].x == x) for x in figure.ticks]
    if key == POWER and not any(" to " in words for words in below):
        return replace(figure, below=below if any(below) else ()), places
    plots: dict[str, list[Line]] = {}
    for line in lines:
        plots.setdefault(places[line.variant].plot, []).append(line)
    names = {plot: with_level(plot, members) for plot, members in plots.items()}
    return figure, {label: place._replace(plot=names.get(place.plot, "")) for label, place in places.items()}


def arrange(variants: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, PlotPosition]:
    """Return the place of every variant, given its settings: those that differ in the key alone share a plot.

    A plot is named by the words that the labels of its variants have in common.
    """
    plots: dict[str, list[str]] = {}
    for label, settings in variants.items():
        others = ", ".join(f"{name} = {value}" for name, value in sorted(settings.items()) if name != key)
        plots.setdefault(others, []).append(label)
    names = {others: _shared(labels) for others, labels in plots.items()}
    if len(set(names.values())) < len(names):
        names = {others: others for others in plots}
    if len(plots) == 1:
        names = dict.fromkeys(plots, "")
    return {
        label: PlotPosition(names[others], float(variants[label][key]))
        for others, labels in plots.items()
        for label in labels
    }


def _shared(labels: Sequence[str]) -> str:
    """Return the words between commas that all labels have."""
    first, *rest = (label.split(", ") for label in labels)
    return ", ".join(word for word in first if all(word in words for words in rest))


def _curve(
    name: str, plot: str, lines: Sequence[Line], places: Mapping[str, PlotPosition], metric: str
) -> Curve | None:
    """Return the course of one curve over the key; None where it has no value."""
    points = []
    for line in sorted(lines, key=lambda line: places[line.variant].x):
        values = [value for seed in line.runs if math.isfinite(value := ENDS[metric](line, seed))]
        points += [interval(places[line.variant].x, values)] if values else []
    return Curve(name, plot, banded(points, metric)) if points else None
