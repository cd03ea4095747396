"""Figures of an inspection. Needs the extra ``report``."""

from typing import Any

import altair
import numpy as np
from numpy.typing import NDArray

from airfeel.lab.report.charts import Drawing, Figure
from airfeel.lab.report.curves import CurveDrawing, plain_curves
from airfeel.lab.studies.inspection import Recovery, model_correlation, model_persistence
from airfeel.lab.studies.recorded import AggregateStatistics, Recorded
from airfeel.units import decibel

Array = NDArray[np.floating[Any]]

MAP_COEFFICIENTS, MAP_ROUNDS = 100, 100  # of the magnitude map; more than a page can show is left out
MAP_RANGE = 60.0  # dB below the largest magnitude that are told apart


def draw_inspection(
    recorded: Recorded, found: AggregateStatistics, recovery: Recovery
) -> list[Drawing | CurveDrawing]:
    """Return sparsity, persistence, correlation, magnitude map and recovery."""
    lags = len(found.persistence)
    counted, learned = "chain counted from round to round", "chain the receiver learned"
    rounds = np.arange(len(recorded.aggregates)) + recorded.first_round
    return [
        plain_curves(
            Figure("sparsity", "support over time", "", "share of coefficients"),
            {
                "nonzero": (rounds, found.activity),
                "nonzero that become zero": (rounds[1:], found.leaving),
                "zero that become nonzero": (rounds[1:], found.entering),
            },
        ),
        plain_curves(
            Figure("persistence", "support persistence", "", "P(still nonzero)", x_title="rounds later"),
            {
                "measured": (range(lags), found.persistence),
                counted: (range(lags), model_persistence(found.chain, lags)),
                learned: (range(lags), model_persistence(recovery.learned, lags)),
            },
        ),
        plain_curves(
            Figure("correlation", "amplitude autocorrelation", "", "correlation", x_title="rounds later"),
            {
                "measured": (range(lags), found.correlation),
                counted: (range(lags), model_correlation(found.chain, lags)),
                learned: (range(lags), model_correlation(recovery.learned, lags)),
            },
        ),
        magnitude_map(recorded.aggregates, recorded.first_round),
        plain_curves(
            Figure("recovery", "recovery of the recorded aggregates", "", "NMSE (dB)"),
            {
                "with memory": (rounds, decibel(recovery.measured.memory)),
                "without memory": (rounds, decibel(recovery.measured.alone)),
                "with memory, predicted": (rounds, decibel(recovery.predicted.memory)),
                "without memory, predicted": (rounds, decibel(recovery.predicted.alone)),
            },
        ),
    ]


def magnitude_map(aggregates: Array, first_round: int) -> Drawing:
    """Draw |x_n| in dB over rounds for evenly spaced coefficients, as the paper's Fig. 2 does."""
    count, size = aggregates.shape
    places = np.unique(np.linspace(0, size - 1, min(MAP_COEFFICIENTS, size)).round().astype(int))
    stride = -(-count // MAP_ROUNDS) // 2 * 2 + 1  # odd, or what alternates from round to round is hidden
    rounds = np.arange(0, count, stride)
    magnitude = np.abs(aggregates[np.ix_(rounds, places)])
    level = np.maximum(decibel((magnitude / max(magnitude.max(), 1e-300)) ** 2), -MAP_RANGE)
    rows = [
        {"round": int(round) + first_round, "place": row, "level": round_(level[i, row])}
        for i, round in enumerate(rounds)
        for row in range(len(places))
    ]
    shade = altair.Scale(scheme="viridis", domain=[-MAP_RANGE, 0])
    bare = altair.Axis(labels=False, ticks=False)
    chart = (
        altair.Chart(altair.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=altair.X(
                "round:O",
                title="communication round",
                axis=altair.Axis(values=_ticks(rounds + first_round), labelAngle=0),
            ),
            y=altair.Y("place:O", title=f"{len(places)} of {size} coefficients", axis=bare),
            color=altair.Color("level:Q", title="|x| (dB)", scale=shade),
            stroke=altair.Stroke("level:Q", scale=shade, title="|x| (dB)"),
            tooltip=["round:O", altair.Tooltip("level:Q", title="|x| (dB)")],
        )
    )
    figure = Figure("magnitude", "magnitude of the aggregates", "", "coefficient")
    return Drawing(figure, chart)


def round_(value: float) -> float:
    """Keep a tenth of a decibel."""
    return round(float(value), 1)


def _ticks(rounds: NDArray[np.intp]) -> list[int]:
    return [int(round) for round in rounds[:: max(1, len(rounds) // 10)]]
