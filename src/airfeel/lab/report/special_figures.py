"""Figures that are no plain curves of training, and facts under them. Needs the extra ``report``."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace

import numpy as np

from airfeel.lab.collect import Collected, Line
from airfeel.lab.plan import FigureSpec
from airfeel.lab.report.charts import Drawing, Figure
from airfeel.lab.report.curves import Curve, CurveDrawing, draw_curves
from airfeel.lab.report.dot_charts import Point, dots
from airfeel.lab.report.inspection_charts import magnitude_map
from airfeel.lab.report.means import average, interval
from airfeel.lab.report.measures import observed, timings
from airfeel.lab.report.receptions import ENDINGS, ending_cells
from airfeel.lab.store import RunError
from airfeel.lab.studies.recorded import read_aggregates
from airfeel.lab.studies.recovery import steady

Facts = list[list[str]]

_log = logging.getLogger("airfeel")

BOUNDS = {
    "gap": "measured gap",
    "measured_bound": "bound from measured errors (83)",
    "printed_bound": "printed bound (61)",
}
COURSES = {"nmse_db": "simulated", "predicted_nmse_db": "state evolution"}


def draw_magnitudes(spec: FigureSpec, collected: Collected) -> Drawing | None:
    """Draw |x_n| over rounds for one seed, as Fig. 2 does."""
    lines = _lines(spec, collected)
    if not lines:
        return None
    run = next(iter(lines[0].runs.values()))
    try:
        aggregates, records = read_aggregates(run)
    except RunError as error:  # too few rounds, or damage in a run that no manifest vouches for
        _log.warning(f"no figure {spec.name}: {error}")
        return None
    return replace(magnitude_map(aggregates, records[0].round), figure=_figure(spec, "coefficient"))


def draw_evolution(spec: FigureSpec, collected: Collected) -> CurveDrawing | None:
    """Draw simulated and predicted NMSE over rounds."""
    return _forms(_figure(spec, "NMSE (dB)"), _courses(_lines(spec, collected), COURSES))


def draw_recovery(spec: FigureSpec, collected: Collected) -> Drawing | None:
    """Draw NMSE in steady state by setting and receiver, simulated and predicted."""
    points = [
        Point(line.curve, what, line.variant, interval(0, _steady(line, key)))
        for line in _lines(spec, collected)
        for key, what in COURSES.items()
    ]
    return dots(_figure(spec, "NMSE (dB)"), points, list(COURSES.values())) if points else None


def draw_bound(spec: FigureSpec, collected: Collected) -> CurveDrawing | None:
    """Draw the loss gap below the bounds of Theorem 3."""
    figure = replace(_figure(spec, "loss - smallest loss"), log_y=True)
    return _forms(figure, _courses(_lines(spec, collected), BOUNDS))


def draw_cost(spec: FigureSpec, collected: Collected) -> CurveDrawing | None:
    """Draw seconds per iteration over N, beside the growth of N log N."""
    curves = []
    for curve, measured in _costs(_lines(spec, collected)).items():
        sizes = sorted(measured)
        # Through the largest size: what does not grow with N matters least there.
        last = measured[sizes[-1]] / _growth(sizes[-1])
        growth = [interval(size, [last * _growth(size)]) for size in sizes]
        curves.append(Curve(curve, "measured", [interval(size, [measured[size]]) for size in sizes]))
        curves.append(Curve(curve, "growth of N log N", growth))
    figure = replace(_figure(spec, "seconds per iteration"), x_title="number of coefficients N")
    return _forms(replace(figure, log_x=True, log_y=True), curves)


def magnitude_facts(collected: Collected) -> Facts:
    """Return the three observations of Section III with their intervals over seeds."""
    words = (
        ("1: sparse", "coefficients that are zero"),
        ("1: sparse", "coefficients that hold 90 % of the energy"),
        ("2: support varies slowly", "nonzero coefficients still nonzero in the next round"),
        ("2: support varies slowly", "nonzero coefficients nonzero two rounds later"),
        ("3: amplitudes correlated", "correlation with the next round"),
        ("3: amplitudes correlated", "correlation two rounds later"),
    )
    found = []
    for run in (run for line in collected.lines for run in line.runs.values()):
        try:
            found.append(astuple(observed(run)))
        except RunError as error:
            _log.warning(f"no observations: {error}")
    if not found:
        return []
    values = np.array(found).T
    rows = [[*text, interval(0, list(row)).words(".3f")] for text, row in zip(words, values, strict=True)]
    chance = interval(0, list(1 - values[0])).words(".3f")
    anew = [words[2][0], "the same for supports drawn anew in every round", chance]
    rows.insert(4, anew)
    return [["observation", "quantity", "mean with 95 % interval"], *rows]


def recovery_facts(collected: Collected) -> Facts:
    """Return NMSE in steady state, simulated and predicted, and the receiver's iterations."""
    rows = [
        [
            line.variant,
            line.curve,
            interval(0, _steady(line, "nmse_db")).words(".2f"),
            f"{np.mean(_steady(line, 'predicted_nmse_db')):.2f}",
            f"{np.mean([row['iterations'] for rows in line.rows.values() for row in rows]):.1f}",
            *ending_cells(line.rows.values()),
        ]
        for line in collected.lines
    ]
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))
    heading = ["setting", "receiver", "NMSE (dB), second half of the rounds", "predicted", "iterations"]
    return [[*heading, *ENDINGS], *rows] if rows else []


def bound_facts(collected: Collected) -> Facts:
    """Return gap and bounds after the last round, and whether the bounds hold in every round."""
    rows = []
    for line in collected.lines:
        last = [rows[-1] for rows in line.rows.values()]
        every = [row for rows in line.rows.values() for row in rows]
        sound = sum(row["gap"] <= min(row["measured_bound"], row["printed_bound"]) for row in every)
        values = [f"{np.mean([row[key] for row in last]):.3g}" for key in BOUNDS]
        rows.append([line.label, str(last[0]["round"]), *values, f"{sound} of {len(every)}"])
    return [["scheme", "round", *BOUNDS.values(), "rounds in which both hold"], *rows] if rows else []


def cost_facts(collected: Collected) -> Facts:
    """Return seconds per round and iteration by size, and how much N log N leaves unexplained."""
    rows = []
    for line in collected.lines:
        size = _size(line)
        rounds = [seconds for run in line.runs.values() for seconds in run.seconds.values()]
        single = _costs([line])[line.curve][size]
        share = 1e9 * single / _growth(size)
        rows.append([f"{size:,}", f"{np.median(rounds):.3g}", f"{single:.3g}", f"{share:.2f}"])
    heading = ["N", "seconds per round", "seconds per iteration", "ns per iteration / (N log2 N)"]
    return [heading, *rows] if rows else []


SPECIAL: dict[str, Callable[[FigureSpec, Collected], Drawing | CurveDrawing | None]] = {
    "magnitudes": draw_magnitudes,
    "evolution": draw_evolution,
    "recovery": draw_recovery,
    "bound": draw_bound,
    "cost": draw_cost,
}
FACTS: dict[str, Callable[[Collected], Facts]] = {
    "magnitudes": magnitude_facts,
    "recovery": recovery_facts,
    "bound": bound_facts,
    "cost": cost_facts,
}


def _figure(spec: FigureSpec, y_title: str) -> Figure:
    return Figure(spec.name, spec.title, "", y_title, caption=spec.caption)


def _lines(spec: FigureSpec, collected: Collected) -> list[Line]:
    return [line for line in collected.lines if spec.variant in ("", line.variant)]


def _forms(figure: Figure, curves: Sequence[Curve]) -> CurveDrawing | None:
    """Draw curves that come in several forms, told apart as variants are."""
    return draw_curves(figure, curves, list(dict.fromkeys(curve.name for curve in curves)))


def _courses(lines: Sequence[Line], keys: Mapping[str, str]) -> list[Curve]:
    """Return the means over seeds of some columns, round by round."""
    alone = len({line.variant for line in lines}) == 1
    return [
        Curve(line.curve if alone else line.label, what, average(list(line.rows.values()), key))
        for line in lines
        for key, what in keys.items()
    ]


def _steady(line: Line, key: str) -> list[float]:
    """Return the NMSE of every seed in the second half of the rounds."""
    return [steady([row[key] for row in rows]) for rows in line.rows.values()]


def _costs(lines: Sequence[Line]) -> dict[str, dict[int, float]]:
    """Return the median seconds per iteration by curve and N, over the rounds of all seeds."""
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        runs = [timings(run) for run in line.runs.values()]
        # The first round also plans the transform.
        late = [pair for pairs in runs for pair in pairs[1:] or pairs]
        median = float(np.median([seconds / iterations for seconds, iterations in late]))
        found.setdefault(line.curve, {})[_size(line)] = median
    return found


def _size(line: Line) -> int:
    return int(next(iter(line.runs.values())).settings["size"])


def _growth(size: int) -> float:
    return float(size * np.log2(size))
