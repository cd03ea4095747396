"""What it takes until a training reaches an accuracy: rounds, symbols, seconds, joules of a device."""

from collections.abc import Iterator
from typing import Any

from airfeel.lab.charts import Figure
from airfeel.lab.curves import courses, draw_curves
from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.table import LINE, Frame, RunSelection, interval

STEP = 0.05  # targets that nobody asked for are multiples of this
COSTS = {
    "round": "rounds",
    "symbols": "symbols",
    "air_seconds": "seconds on air",
    "downlink_seconds": "seconds of the downlink",
    "seconds_in_all": "seconds in all",
    "joules": "joules",
}
OVER = {
    "air_seconds": ("seconds", "Test accuracy over time on air", "Time of the uplink alone."),
    "joules": ("joules", "Test accuracy over energy", "Energy sent by the device that spent most."),
}
NOTE = (
    "The first evaluated round that reaches the accuracy, mean over the seeds that do, ± 95 %. Two symbols "
    "are one complex channel use; seconds on air are those of the uplink, joules what the device that spent "
    "most has sent with."
)


@EXHIBITS.register("reaching", place=35)
def reaching(shown: RunSelection) -> Iterator[Any]:
    """What curves take to reach an accuracy, drawn over seconds and joules too.

    Without a target, and without any run in hertz and watts, there is nothing.
    """
    if not shown.is_training:
        return
    units = [key for key in OVER if key in shown.rounds and shown.rounds[key].notna().any()]
    target = usual_target(shown) if shown.target is None and units else shown.target
    rows = [] if target is None else reaching_table(shown, target)
    if len(rows) < 2:
        return
    yield TextTable(f"Until {100 * (target or 0):g} % accuracy", rows, NOTE, "first")
    name = shown.experiment.name if shown.experiment else "runs"
    for key in units:
        end, title, caption = OVER[key]
        drawn = [curve for curve in courses(shown, "accuracy") if curve.along(key)]
        words: Any = {"y_format": ".2~%", "x": key, "caption": caption}
        yield draw_curves(
            Figure(f"{name}-{end}", title, "accuracy", "test accuracy", **words), drawn, shown.schemes
        )


def reaching_table(shown: RunSelection, target: float) -> list[list[str]]:
    """Return one row per curve that has an accuracy."""
    known = shown.by_line[shown.by_line["accuracy"].notna()]
    if "downlink_seconds" in known:
        known = known.assign(seconds_in_all=known["air_seconds"] + known["downlink_seconds"])
    lines = set(known.groupby(LINE).groups)
    first = known[known["accuracy"] >= target].groupby([*LINE, "run"], sort=False).first().reset_index("run")
    costs = known.loc[:, [key for key in COSTS if key in known]].fillna(0).any()
    keys = [key for key in costs.index if costs[key]]
    rows = [["curve", "seeds that reach it", *(COSTS[key] for key in keys)]]
    for line, runs in shown.lines.items():
        if line in lines:
            found: Frame = first.loc[[line]] if line in first.index else first.iloc[:0]
            cells = [_cell([value for value in found[key] if value > 0], key) for key in keys]
            rows.append([", ".join(filter(None, line)), f"{len(found)} of {len(runs)}", *cells])
    return rows


def usual_target(shown: RunSelection) -> float | None:
    """Return the largest multiple of 5 % that every seed of every curve reaches; None where there is none."""
    best = shown.rounds.groupby("run")["accuracy"].max().fillna(0.0)
    return round(int(min(best, default=0.0) / STEP + 1e-9) * STEP, 2) or None


def _cell(values: list[float], key: str) -> str:
    """Return the mean with its interval; a dash where there is none, as without a radio."""
    return interval(values).words(",.0f" if key in ("round", "symbols") else ".3g") if values else "-"
