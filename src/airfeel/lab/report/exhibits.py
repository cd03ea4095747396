"""What the page shows of an experiment: figures, tables, settings. Needs the extra ``report``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airfeel.config import identity, mistakes
from airfeel.lab.collect import Collected
from airfeel.lab.plan import COURSES, Experiment, FigureSpec
from airfeel.lab.report.charts import Drawing, Figure
from airfeel.lab.report.chosen_figures import figures
from airfeel.lab.report.costs import curve_cost_table
from airfeel.lab.report.curves import UNITS, CurveDrawing, draw_curves, make_curve
from airfeel.lab.report.finals import accuracy_table, gap_table, mean_gap_table
from airfeel.lab.report.groups import Group, settings_tables
from airfeel.lab.report.headline import headline, loose_headline, told, trained
from airfeel.lab.report.link_level import NOTE as LINK_NOTE
from airfeel.lab.report.link_level import POWER, links_table, with_level
from airfeel.lab.report.receptions import CUMULATIVE, NOTE, reception_table
from airfeel.lab.report.special_figures import FACTS, SPECIAL
from airfeel.lab.report.swept_figures import HOW, draw_swept
from airfeel.lab.report.swept_maps import draw_maps

Rows = list[list[str]]
AnyDrawing = Drawing | CurveDrawing
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
LOOSE = (
    ("accuracy", "Test accuracy", "accuracy"),
    ("nmse", "Recovery error", "nmse_db"),
    ("cumulative-nmse", "Recovery error of all rounds together", "cumulative_nmse_db"),
    ("loss", "Test loss", "loss"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title, the first row being the heading."""

    title: str
    rows: Rows
    note: str = ""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One part of the page: an experiment, or the runs that belong to none."""

    name: str
    title: str
    caption: str = ""
    headline: str = ""
    """for strangers: what was trained, and what came of it"""
    trained: str = ""
    """the same in a paragraph of plain sentences"""
    missing: str = ""
    """in words, how many runs are not there"""
    headlines: Sequence[Table] = ()
    """shown before the figures"""
    drawings: Sequence[AnyDrawing] = ()
    tables: Sequence[Table] = ()
    settings: Sequence[Table] = ()
    source: str = ""
    """the experiment as a file"""
    costs: Rows = field(default_factory=list)


def show_experiment(collected: Collected, taken: Collection[str] = ()) -> Exhibit:
    """Return all there is to see of an experiment; names in ``taken`` belong to other figures."""
    experiment = collected.experiment
    names = list(dict.fromkeys([*_present(collected), *(line.curve for line in collected.lines)]))
    gap = "Distance in points to training without radio, seed by seed; less is better."
    titled = (
        Table(
            "Final accuracy",
            accuracy_table(collected),
            "Percent, mean over the last tenth of the rounds, ± 95 %.",
        ),
        Table("Gap to error-free", gap_table(collected), gap),
        Table("Left out", _left_out(experiment)),
        Table("Recovery", _receptions(collected), NOTE),
    )
    return Exhibit(
        name=experiment.name,
        title=experiment.title,
        caption=experiment.caption,
        headline=headline(collected),
        trained=trained(collected),
        missing=_missing(collected),
        headlines=_filled([Table("Mean gap to error-free", mean_gap_table(collected), gap)]),
        drawings=[drawn for spec in figures(experiment) for drawn in _draw(spec, collected, names, taken)],
        tables=_filled([*_facts(collected), *titled]),
        settings=[*_settings(experiment), *_filled([Table("Links", links_table(collected), LINK_NOTE)])],
        source=experiment.to_toml(),
        costs=curve_cost_table(collected),
    )


def show_loose(groups: Sequence[Group], table: Rows) -> Exhibit:
    """Return what there is to see of runs that belong to no experiment."""
    names = [group.label for group in groups]
    drawings = []
    for name, title, metric in LOOSE:
        curves = [make_curve(group.label, "", [run.rows for run in group.runs], metric) for group in groups]
        drawn = draw_curves(_figure(name, title, metric), curves, names)
        drawings += [drawn] if drawn is not None else []
    last = Table("Last round", table, CUMULATIVE)
    return Exhibit(
        "runs",
        "Single runs",
        headline=loose_headline([(group.label, group.runs) for group in groups]),
        trained=told([run for group in groups for run in group.runs]),
        headlines=[last],
        drawings=drawings,
        settings=[Table(title, rows) for title, rows in settings_tables(groups)],
    )


def _draw(
    spec: FigureSpec, collected: Collected, names: Sequence[str], taken: Collection[str]
) -> list[AnyDrawing]:
    """Return the drawing of a figure, of a map one for each curve; none where there is nothing to show."""
    if spec.name in taken:
        spec = spec.model_copy(update={"name": f"{collected.experiment.name}-{spec.name}"})
    if spec.y:
        figure = _figure(spec.name, spec.title, spec.metric, spec.caption or HOW[spec.metric])
        return [*draw_maps(figure, (spec.x, spec.y), collected)]
    drawn = SPECIAL[spec.kind](spec, collected) if spec.kind in SPECIAL else _curves(spec, collected, names)
    return [] if drawn is None else [drawn]


def _curves(spec: FigureSpec, collected: Collected, names: Sequence[str]) -> CurveDrawing | None:
    figure = _figure(spec.name, spec.title, spec.metric, spec.caption)
    figure = replace(figure, subjects=_present(collected))
    if spec.x not in COURSES:
        figure = replace(figure, caption=spec.caption or HOW[spec.metric])
        return draw_swept(figure, spec.x, collected, names)
    figure = replace(figure, x=spec.x, split=spec.split)
    lines, names_of = collected.lines, _variant_names(collected)
    curves = [
        make_curve(line.curve, names_of[line.variant], list(line.rows.values()), spec.metric)
        for line in lines
    ]
    if spec.x in UNITS:  # curves that do not know them are left out
        curves = [curve for curve in curves if curve and curve.along(spec.x)]
    return draw_curves(figure, curves, names)


def _variant_names(collected: Collected) -> dict[str, str]:
    """Return how figures call the variants: those that set P with the SNR that it amounts to."""
    found = {}
    for name, settings in collected.experiment.settings_by_variant().items():
        lines = [line for line in collected.lines if line.variant == name]
        found[name] = with_level(name, lines) if name and POWER in settings else name
    return found


def _present(collected: Collected) -> list[str]:
    """Return the curves that the experiment is about, as far as something of them is there."""
    shown = {line.curve for line in collected.lines}
    return [name for name in collected.experiment.subjects if name in shown]


def _facts(collected: Collected) -> list[Table]:
    """Return the tables that belong to figures of a special kind, each kind once."""
    kinds = dict.fromkeys(spec.kind for spec in collected.experiment.figures)
    return [Table("In numbers", FACTS[kind](collected)) for kind in kinds if kind in FACTS]


def _left_out(experiment: Experiment) -> Rows:
    """Return which combinations there are not, and why."""
    rows = [[entry.curve, "; ".join(entry.variants) or "all", entry.why] for entry in experiment.left_out]
    return [["curve", "variants", "why"], *rows] if rows else []


def _receptions(collected: Collected) -> Rows:
    """Return how recovery went in training; studies of the theory have tables of their own."""
    return reception_table(collected) if collected.experiment.kind == "training" else []


def _figure(name: str, title: str, metric: str, caption: str = "") -> Figure:
    y_title, form, usual = METRICS[metric]
    return Figure(name, title, metric, y_title, y_format=form, caption=caption or usual)


def _missing(collected: Collected) -> str:
    if not collected.missing:
        return ""
    planned = collected.missing + sum(len(line.runs) for line in collected.lines)
    return f"{collected.missing} of {planned} runs are missing; figures and tables show what there is."


def _filled(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


def _settings(experiment: Experiment) -> list[Table]:
    """Return what the runs share, and in what curves and variants differ."""
    shared = {"rounds": experiment.rounds, "seeds": list(experiment.seeds), **experiment.base}
    rows = [[key, value] for key, value in _readable(shared).items()]
    found = [
        Table("All runs", [["setting", "value"], *rows]),
        Table("Curves", _by_label(experiment.curves)),
        Table("Variants", _by_label(experiment.variants)),
        Table("Every combination of", _by_key(experiment.grid)),
    ]
    return [table for table in found if len(table.rows) > 1]


def _by_label(entries: Sequence[Mapping[str, Any]]) -> Rows:
    flat = [_readable(entry) for entry in entries]
    keys = list(dict.fromkeys(key for entry in flat for key in entry))
    return [keys, *([entry.get(key, "") for key in keys] for entry in flat)]


def _by_key(grid: Mapping[str, Any]) -> Rows:
    return [["setting", "values"], *([key, value] for key, value in _readable(grid).items())]


def _readable(tree: Mapping[str, Any]) -> dict[str, str]:
    """Return settings by dotted key as text; a multiple of another key in words."""
    found: dict[str, str] = {}
    for key, value in mistakes.flatten(tree).items():
        owner, _, last = key.rpartition(".")
        if last == "of":
            found[owner] = str(value)
        elif last == "times":
            found[owner] = f"{value} × {found[owner]}"
        elif value is not None:
            found[key] = value if isinstance(value, str) else identity.value(value)
    return found
