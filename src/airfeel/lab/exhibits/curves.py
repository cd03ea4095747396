"""The course of a metric over rounds, symbols, seconds or joules, or what came out over swept keys."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airfeel.lab.charts import Drawing, Figure
from airfeel.lab.curves import CurveDrawing, courses, draw_curves
from airfeel.lab.exhibits import EXHIBITS
from airfeel.lab.exhibits.links import POWER, with_level
from airfeel.lab.exhibits.receptions import CUMULATIVE
from airfeel.lab.exhibits.swept import HOW, draw_map, draw_swept
from airfeel.lab.plan import COURSES, Experiment, FigureSpec, Metric
from airfeel.lab.table import UNITS, RunSelection

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
    drawn = courses(shown, spec.metric, _variant_names(shown))
    if spec.x in UNITS:  # curves that do not know them are left out
        drawn = [curve for curve in drawn if curve.along(spec.x)]
    yield draw_curves(replace(figure, x=spec.x, split=spec.split), drawn, shown.schemes)


def _variant_names(shown: RunSelection) -> dict[str, str]:
    """Return how figures call the variants: those that set P with the SNR that it amounts to."""
    settings = shown.experiment.settings_by_variant() if shown.experiment else {}
    return {
        name: with_level(name, [line for line in shown.lines if line[1] == name], shown)
        for name, keys in settings.items()
        if name and POWER in keys
    }


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
