"""The course of a metric over rounds, symbols, seconds or joules, or what came out over swept keys."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from airfeel.lab.charts import Drawing, Figure, altair
from airfeel.lab.curves import MOST_LINEAR, Curve, CurveDrawing, courses, draw_curves
from airfeel.lab.exhibits import EXHIBITS
from airfeel.lab.exhibits.finals import CUMULATIVE
from airfeel.lab.exhibits.links import POWER, told, with_level
from airfeel.lab.plan import COURSES, Experiment, FigureSpec, Metric
from airfeel.lab.table import UNITS, BySeed, Line, RunSelection, band, interval

MOST_COURSES = 4  # variants whose errors over rounds are drawn
LEAST_MAPPED = 3  # values of each of two keys from which on a map says more than small plots
SWEPT: tuple[tuple[str, str, Metric], ...] = (
    ("", "Final accuracy", "accuracy"),
    ("-cumulative-nmse", "Error of all rounds together", "cumulative_nmse_db"),
)
OVER_ROUNDS: tuple[tuple[str, str, Metric], ...] = (
    ("", "Test accuracy over rounds", "accuracy"),
    ("-nmse", "Error of the recovered sum in every round", "nmse_db"),
    ("-cumulative-nmse", "Error of all rounds together", "cumulative_nmse_db"),
)
LOOSE: tuple[tuple[str, str, Metric], ...] = (
    ("accuracy", "Test accuracy", "accuracy"),
    ("nmse", "Recovery error", "nmse_db"),
    ("cumulative-nmse", "Recovery error of all rounds together", "cumulative_nmse_db"),
    ("loss", "Test loss", "loss"),
)
METRICS = {
    "accuracy": ("test accuracy", ".2~%", "Accuracy on the test images after each round."),
    "nmse_db": (
        "NMSE (dB)",
        "",
        "Squared error of the recovered aggregate relative to its own energy; lower is better.",
    ),
    "cumulative_nmse_db": ("cumulative NMSE (dB)", "", CUMULATIVE),
    "loss": ("test loss", "", "Cross-entropy on the test images after each round."),
}
HOW = {
    "accuracy": "Mean over the last tenth of the rounds.",
    "loss": "Mean over the last tenth of the rounds.",
    "nmse_db": "Mean over the second half of the rounds.",
    "cumulative_nmse_db": f"After the last round. {CUMULATIVE}",
}


@EXHIBITS.register("curves", place=0)
def curves(shown: RunSelection, spec: FigureSpec) -> Iterator[Drawing | CurveDrawing | None]:
    """Curves of a metric, over a course or a swept key, or a map over two."""
    y_title, form, usual = METRICS[spec.metric]
    ends = spec.x not in COURSES
    caption = spec.caption or (HOW[spec.metric] if ends else usual)
    figure = Figure(spec.name, spec.title, spec.metric, y_title, y_format=form, caption=caption)
    if spec.y:
        yield from draw_map(figure, (spec.x, spec.y), shown)
        return
    figure = replace(figure, subjects=shown.subjects)
    if ends:
        yield draw_swept(figure, spec.x, shown)
        return
    settings = shown.experiment.settings_by_variant() if shown.experiment else {}
    names = {  # variants that set P are called with the SNR that it amounts to
        name: with_level(name, [line for line in shown.lines if line[1] == name], shown)
        for name, keys in settings.items()
        if name and POWER in keys
    }
    drawn = courses(shown, spec.metric, names)
    if spec.x in UNITS:  # curves that do not know them are left out
        drawn = [curve for curve in drawn if curve.along(spec.x)]
    yield draw_curves(replace(figure, x=spec.x, split=spec.split), drawn, shown.schemes)


def chosen_figures(experiment: Experiment | None) -> Sequence[FigureSpec]:
    """Return the figures asked for, else what suits the swept keys.

    The first key that is a number is the x axis; a second one makes a map, or several plots where either has
    few values. The course over rounds follows, unless there are many variants, with the errors of recovery.
    """
    if experiment is None:
        return [FigureSpec(name=name, title=title, metric=metric) for name, title, metric in LOOSE]
    if experiment.figures:
        return experiment.figures
    name, settings = experiment.name, experiment.settings_by_variant().values()
    if experiment.kind != "training":
        return [FigureSpec(name=name, title=experiment.title)]
    values = {key: {float(of[key]) for of in settings} for key in experiment.numeric()}
    keys = [key for key in values if len(values[key]) > 1]
    found = [
        FigureSpec(name=f"{name}-swept{end}", title=f"{what} over {key}", x=key, metric=metric)
        for key in keys[:1]
        for end, what, metric in SWEPT
    ]
    if len(keys) > 1 and all(len(values[key]) >= LEAST_MAPPED for key in keys[:2]):
        title = f"Final accuracy over {keys[0]} and {keys[1]}"
        found.insert(0, FigureSpec(name=f"{name}-map", title=title, x=keys[0], y=keys[1]))
    over = [FigureSpec(name=f"{name}{end}", title=title, metric=m) for end, title, m in OVER_ROUNDS]
    return [*found, *(over[:1] if len(settings) > MOST_COURSES else over)]


class PlotPosition(NamedTuple):
    """Where a variant is drawn: in which plot, and at which value of the key."""

    plot: str
    x: float


def ends(shown: RunSelection, metric: str) -> dict[Line, BySeed]:
    """Return what a metric came to, by line and seed, accuracies as shares."""
    if metric == "accuracy":
        finals = shown.ends("final")
        return {line: {seed: value / 100 for seed, value in of.items()} for line, of in finals.items()}
    return shown.ends("late_loss" if metric == "loss" else metric)


def draw_swept(figure: Figure, key: str, shown: RunSelection) -> CurveDrawing | None:
    """Draw the final value of a metric over the values of a swept key."""
    assert shown.experiment is not None
    variants = shown.experiment.settings_by_variant()
    places: Mapping[str, PlotPosition] = arrange(variants, key)
    ticks = sorted({place.x for place in places.values()})
    log_x = ticks[0] > 0 and ticks[-1] > MOST_LINEAR * ticks[0]
    figure = replace(figure, x_title=key, log_x=log_x, ticks=ticks, split=True)
    if any(POWER in settings for settings in variants.values()):
        figure, places = _with_levels(figure, key, shown, places)
    groups: dict[tuple[str, str], list[tuple[float, BySeed]]] = {}
    for (curve, variant), values in ends(shown, figure.metric).items():
        if values:
            place = places[variant]
            groups.setdefault((curve, place.plot), []).append((place.x, values))
    drawn = []
    for (curve, plot), points in groups.items():
        points.sort(key=lambda point: point[0])
        means = [interval(of.values()) for _, of in points]
        value, half = np.array([(mean.value, mean.half) for mean in means]).T
        columns = {"round": np.array([x for x, _ in points]), **band(value, half, figure.metric)}
        drawn.append(Curve(curve, plot, columns, means[0].seeds))
    return draw_curves(figure, drawn, shown.schemes)


def _with_levels(
    figure: Figure, key: str, shown: RunSelection, places: Mapping[str, PlotPosition]
) -> tuple[Figure, Mapping[str, PlotPosition]]:
    """Tell the SNR below every P, or with the names of plots where it is not the same in all of them."""
    at = {x: [line for line in shown.lines if places[line[1]].x == x] for x in figure.ticks}
    below = [told(lines, shown) for lines in at.values()]
    if key == POWER and not any(" to " in words for words in below):
        return replace(figure, below=below if any(below) else ()), places
    plots: dict[str, list[Line]] = {}
    for line in shown.lines:
        plots.setdefault(places[line[1]].plot, []).append(line)
    names = {plot: with_level(plot, lines, shown) for plot, lines in plots.items()}
    return figure, {label: place._replace(plot=names.get(place.plot, "")) for label, place in places.items()}


def arrange(variants: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, PlotPosition]:
    """Return the place of every variant, given its settings: those that differ in the key alone share a plot.

    A plot is named by the words that the labels of its variants have in common.
    """
    plots: dict[str, list[str]] = {}
    for label, settings in variants.items():
        others = ", ".join(f"{name} = {value}" for name, value in sorted(settings.items()) if name != key)
        plots.setdefault(others, []).append(label)
    names = {}
    for others, labels in plots.items():
        first, *rest = (label.split(", ") for label in labels)
        names[others] = ", ".join(word for word in first if all(word in words for words in rest))
    if len(set(names.values())) < len(names):
        names = {others: others for others in plots}
    if len(plots) == 1:
        names = dict.fromkeys(plots, "")
    return {
        label: PlotPosition(names[others], float(variants[label][key]))
        for others, labels in plots.items()
        for label in labels
    }


def draw_map(figure: Figure, keys: tuple[str, str], shown: RunSelection) -> Iterator[Drawing]:
    """Draw a map for each curve and each combination of other swept keys, all with the same colours."""
    assert shown.experiment is not None
    settings = shown.experiment.settings_by_variant()
    groups: dict[str, list[dict[str, Any]]] = {}
    for (curve, variant), values in ends(shown, figure.metric).items():
        if not values:
            continue
        mean, of = interval(values.values()), settings[variant]
        row: dict[str, Any] = {"snr": told([(curve, variant)], shown)} if POWER in keys else {}
        row |= {"x": of[keys[0]], "y": of[keys[1]], "mean": mean.value, "seeds": mean.seeds}
        row["half"] = mean.high - mean.value if mean.seeds > 1 else None
        title = ", ".join([curve, *(f"{key} = {value}" for key, value in of.items() if key not in keys)])
        groups.setdefault(title, []).append(row)
    numbers = [row["mean"] for rows in groups.values() for row in rows]
    for place, (title, rows) in enumerate(groups.items(), start=1):
        chart = _map(figure, keys, rows, (min(numbers), max(numbers)))
        if len(groups) == 1:
            yield Drawing(figure, chart)
        else:
            named = replace(figure, name=f"{figure.name}-{place}", title=f"{figure.title}: {title}")
            yield Drawing(named, chart)


def _map(
    figure: Figure, keys: tuple[str, str], rows: list[dict[str, Any]], limits: tuple[float, float]
) -> Any:
    """Return coloured fields with their numbers in them, dark letters on light fields and light on dark."""
    form = figure.y_format.replace(".2~%", ".1%") or ".1f"
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        x=altair.X("x:O", title=keys[0], axis=altair.Axis(labelAngle=0)),
        y=altair.Y("y:O", title=keys[1], sort="descending"),
    )
    scale = altair.Scale(scheme="viridis", domain=list(limits), zero=False, nice=False)
    legend = altair.Legend(format=form)
    tips: Iterable[tuple[str, str, str]] = [
        *(("x:O", keys[0], ""), ("y:O", keys[1], ""), ("mean:Q", figure.y_title, form)),
        *(("half:Q", "±", form), ("seeds:Q", "seeds", "")),
        *([("snr:N", "SNR per symbol", "")] if POWER in keys else []),
    ]
    tooltip = [altair.Tooltip(of, title=title, **({"format": f} if f else {})) for of, title, f in tips]
    colour = altair.Color("mean:Q", title=figure.y_title, scale=scale, legend=legend)
    middle = (limits[0] + limits[1]) / 2
    letters = altair.condition(f"datum.mean > {middle!r}", altair.value("#000000"), altair.value("#ffffff"))
    fields = base.mark_rect().encode(color=colour, tooltip=tooltip)
    numbers = base.mark_text(fontSize=12).encode(text=altair.Text("mean:Q", format=form), color=letters)
    if POWER not in keys:
        return fields + numbers
    return fields + numbers + base.mark_text(fontSize=9, dy=13).encode(text="snr:N", color=letters)
