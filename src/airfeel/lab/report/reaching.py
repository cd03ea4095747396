"""What it takes until a training reaches an accuracy: rounds, symbols, seconds on air, joules of a device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airfeel import _checks
from airfeel.lab.collect import Collected
from airfeel.lab.report.charts import Figure
from airfeel.lab.report.curves import CurveDrawing, draw_curves, make_curve
from airfeel.lab.report.exhibits import Exhibit, Table
from airfeel.lab.report.groups import Group
from airfeel.lab.report.means import Rows, interval

STEP = 0.05  # targets that nobody asked for are multiples of this
COSTS = {"round": "rounds", "symbols": "symbols", "air_seconds": "seconds on air", "joules": "joules"}
OVER = {
    "air_seconds": ("seconds", "Test accuracy over time on air", "Time of the uplink alone."),
    "joules": ("joules", "Test accuracy over energy", "Energy sent by the device that spent most."),
}
NOTE = (
    "The first evaluated round that reaches the accuracy, mean over the seeds that do, ± 95 %. Two symbols "
    "are one complex channel use; seconds are those of the uplink on air, joules what the device that spent "
    "most has sent with."
)


@dataclass(frozen=True, slots=True)
class Trained:
    """One curve: its name, its variant, and the records of every seed."""

    name: str
    variant: str
    runs: Sequence[Rows]

    @property
    def label(self) -> str:
        """Name and variant."""
        return ", ".join(filter(None, [self.name, self.variant]))


def reached(run: Rows, target: float) -> Mapping[str, float] | None:
    """Return the record of the first round whose accuracy is the target or more."""
    return next((row for row in run if row.get("accuracy") is not None and row["accuracy"] >= target), None)


def of_groups(groups: Sequence[Group]) -> list[Trained]:
    """Return the curves of runs that belong to no experiment."""
    return [Trained(group.label, "", [run.rows for run in group.runs]) for group in groups]


def of_experiment(collected: Collected) -> list[Trained]:
    """Return the curves of an experiment; studies of the theory train nothing."""
    if collected.experiment.kind != "training":
        return []
    return [Trained(line.curve, line.variant, list(line.rows.values())) for line in collected.lines]


def check_target(target: float | None) -> float | None:
    """Refuse an accuracy that is no share."""
    if target is None:
        return None
    try:
        return _checks.real("--target-accuracy", target, above=0, at_most=1)
    except ValueError as error:
        raise ValueError(f"{error}, such as 0.8 for 80 %") from None


def with_costs(exhibit: Exhibit, curves: Sequence[Trained], target: float | None) -> Exhibit:
    """Add to a part of the page what its curves take to reach an accuracy, over seconds and joules too.

    Without a target, and without any run in hertz and watts, nothing is added.
    """
    units = [
        key for key in OVER if any(row.get(key) for one in curves for run in one.runs for row in run[-1:])
    ]
    if target is None and units:
        target = usual_target(curves)
    rows = [] if target is None else reaching_table(curves, target)
    if not rows:
        return exhibit
    table = Table(f"Until {100 * (target or 0):g} % accuracy", rows, NOTE)
    drawings = [drawn for key in units if (drawn := _over(key, exhibit, curves)) is not None]
    return replace(exhibit, headlines=[*exhibit.headlines, table], drawings=[*exhibit.drawings, *drawings])


def reaching_table(curves: Sequence[Trained], target: float) -> list[list[str]]:
    """Return one row per curve; empty where no curve has an accuracy."""
    known = [one for one in curves if any(_accuracies(run) for run in one.runs)]
    if not known:
        return []
    keys = [key for key in COSTS if any(row.get(key) for one in known for run in one.runs for row in run)]
    rows = [["curve", "seeds that reach it", *(COSTS[key] for key in keys)]]
    for one in known:
        found = [row for run in one.runs if (row := reached(run, target)) is not None]
        cells = [_cell([row.get(key) for row in found], key) for key in keys]
        rows.append([one.label, f"{len(found)} of {len(one.runs)}", *cells])
    return rows


def usual_target(curves: Sequence[Trained]) -> float | None:
    """Return the largest multiple of 5 % that every seed of every curve reaches; None where there is none."""
    best = [max(_accuracies(run), default=0.0) for one in curves for run in one.runs]
    steps = int(min(best, default=0.0) / STEP + 1e-9)
    return round(steps * STEP, 2) or None


def _accuracies(run: Rows) -> list[float]:
    return [row["accuracy"] for row in run if row.get("accuracy") is not None]


def _cell(values: Sequence[float | None], key: str) -> str:
    """Return the mean with its interval; a dash where there is none, as without a radio."""
    known = [value for value in values if value]
    if not known:
        return "-"
    return interval(0, known).words(",.0f" if key in ("round", "symbols") else ".3g")


def _over(key: str, exhibit: Exhibit, curves: Sequence[Trained]) -> CurveDrawing | None:
    """Draw accuracy over seconds or joules."""
    name, title, caption = OVER[key]
    figure = Figure(f"{exhibit.name}-{name}", title, "accuracy", "test accuracy", y_format=".2~%", x=key)
    names = list(dict.fromkeys(one.name for one in curves))
    made = [make_curve(one.name, one.variant, one.runs, "accuracy") for one in curves]
    return draw_curves(
        replace(figure, caption=caption), [curve for curve in made if curve and curve.along(key)], names
    )
