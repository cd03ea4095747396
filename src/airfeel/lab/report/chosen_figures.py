"""Which figures an experiment is shown by, where its file names none."""

from collections.abc import Sequence

from airfeel.lab.plan import Experiment, FigureSpec, Metric

MOST_COURSES = 4  # variants whose errors over rounds are drawn
LEAST_MAPPED = 3  # values of each of two keys from which on a map says more than small plots
SWEPT: tuple[tuple[str, str, Metric], ...] = (
    ("", "Final accuracy", "accuracy"),
    ("-cumulative-nmse", "Error of all rounds together", "cumulative_nmse_db"),
)
COURSES: tuple[tuple[str, str, Metric], ...] = (
    ("", "Test accuracy over rounds", "accuracy"),
    ("-nmse", "Error of the recovered sum in every round", "nmse_db"),
    ("-cumulative-nmse", "Error of all rounds together", "cumulative_nmse_db"),
)


def figures(experiment: Experiment) -> Sequence[FigureSpec]:
    """Return the figures asked for, else what suits the swept keys.

    The first key that is a number is the x axis; a second one makes a map, or several plots where either has
    few values. The course over rounds follows, unless there are many variants, with the errors of recovery.
    """
    if experiment.figures:
        return experiment.figures
    name = experiment.name
    if experiment.kind != "training":
        return [FigureSpec(name=name, title=experiment.title)]
    keys = [key for key in experiment.numeric() if len(_values(experiment, key)) > 1]
    found = [
        FigureSpec(name=f"{name}-swept{end}", title=f"{what} over {key}", x=key, metric=metric)
        for key in keys[:1]
        for end, what, metric in SWEPT
    ]
    if len(keys) > 1 and all(len(_values(experiment, key)) >= LEAST_MAPPED for key in keys[:2]):
        title = f"Final accuracy over {keys[0]} and {keys[1]}"
        found.insert(0, FigureSpec(name=f"{name}-map", title=title, x=keys[0], y=keys[1]))
    courses = [FigureSpec(name=f"{name}{end}", title=title, metric=metric) for end, title, metric in COURSES]
    many = len(experiment.settings_by_variant()) > MOST_COURSES
    return [*found, *(courses[:1] if many else courses)]


def _values(experiment: Experiment, key: str) -> set[float]:
    return {float(settings[key]) for settings in experiment.settings_by_variant().values()}
