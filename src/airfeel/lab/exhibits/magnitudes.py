"""|x_n| over rounds as in Fig. 2 of the paper, and the three observations of Section III in numbers."""

from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.lab.charts import Drawing, Figure, altair
from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.plan import FigureSpec
from airfeel.lab.store import RunError, log
from airfeel.lab.studies.recorded import read_aggregates
from airfeel.lab.table import RunSelection, interval, observed
from airfeel.units import decibel

MOST = 100  # coefficients and rounds of the map; more than a page can show is left out
RANGE = 60.0  # dB below the largest magnitude that are told apart
WORDS = (
    ("1: sparse", "coefficients that are zero"),
    ("1: sparse", "coefficients that hold 90 % of the energy"),
    ("2: support varies slowly", "nonzero coefficients still nonzero in the next round"),
    ("2: support varies slowly", "nonzero coefficients nonzero two rounds later"),
    ("3: amplitudes correlated", "correlation with the next round"),
    ("3: amplitudes correlated", "correlation two rounds later"),
)


@EXHIBITS.register("magnitudes", place=1)
def magnitudes(shown: RunSelection, spec: FigureSpec) -> Iterator[Drawing | TextTable]:
    """Magnitudes of one seed as a map; the observations with their intervals over seeds."""
    for (_, variant), runs in shown.lines.items():
        if spec.variant in ("", variant):
            try:
                aggregates, records = read_aggregates(next(iter(runs.values())))
            except RunError as error:  # too few rounds, or damage in a run that no manifest vouches for
                log.warning(f"no figure {spec.name}: {error}")
            else:
                figure = Figure(spec.name, spec.title, "", "coefficient", caption=spec.caption)
                yield replace(magnitude_map(aggregates, records[0].round), figure=figure)
            break
    found = []
    for run in (run for runs in shown.lines.values() for run in runs.values()):
        try:
            found.append(astuple(observed(run)))
        except RunError as error:
            log.warning(f"no observations: {error}")
    if not found:
        return
    values = np.array(found).T
    rows = [[*text, interval(row).words(".3f")] for text, row in zip(WORDS, values, strict=True)]
    anew = interval(1 - values[0]).words(".3f")
    rows.insert(4, [WORDS[2][0], "the same for supports drawn anew in every round", anew])
    yield TextTable("In numbers", [["observation", "quantity", "mean with 95 % interval"], *rows])


def magnitude_map(aggregates: NDArray[np.floating[Any]], first_round: int) -> Drawing:
    """Draw |x_n| in dB over rounds for evenly spaced coefficients."""
    count, size = aggregates.shape
    places = np.unique(np.linspace(0, size - 1, min(MOST, size)).round().astype(int))
    stride = -(-count // MOST) // 2 * 2 + 1  # odd, or what alternates from round to round is hidden
    rounds = np.arange(0, count, stride)
    magnitude = np.abs(aggregates[np.ix_(rounds, places)])
    level = np.maximum(decibel((magnitude / max(magnitude.max(), 1e-300)) ** 2), -RANGE)
    rows = [
        {"round": int(at) + first_round, "place": place, "level": round(float(level[i, place]), 1)}
        for i, at in enumerate(rounds)
        for place in range(len(places))
    ]
    shade = altair.Scale(scheme="viridis", domain=[-RANGE, 0])
    ticks = [int(at) + first_round for at in rounds[:: max(1, len(rounds) // 10)]]
    axis, bare = altair.Axis(values=ticks, labelAngle=0), altair.Axis(labels=False, ticks=False)
    chart = altair.Chart(altair.InlineData(values=rows)).mark_rect()
    drawn = chart.encode(
        x=altair.X("round:O", title="communication round", axis=axis),
        y=altair.Y("place:O", title=f"{len(places)} of {size} coefficients", axis=bare),
        color=altair.Color("level:Q", title="|x| (dB)", scale=shade),
        stroke=altair.Stroke("level:Q", scale=shade, title="|x| (dB)"),
        tooltip=["round:O", altair.Tooltip("level:Q", title="|x| (dB)")],
    )
    return Drawing(Figure("magnitude", "magnitude of the aggregates", "", "coefficient"), drawn)
