"""What aggregates look like over the rounds: support, amplitudes, and the chains that fit them."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import ChainParams
from airfeel.lab.store import FinishedRun
from airfeel.lab.studies.recorded import read_aggregates

Array = NDArray[np.floating[Any]]

LAGS = 30  # rounds over which persistence and correlation are followed
LEAST = 1e-4  # lower limit of fitted p01 and beta
ENERGY = 0.9  # share of the energy whose owners are counted


@dataclass(frozen=True, slots=True, eq=False)
class AggregateStatistics:
    """What the aggregates look like.

    ``activity``, ``leaving`` and ``entering`` are the share of nonzero coefficients and of those that became
    zero or nonzero, per round; ``level`` the root mean square of the nonzero ones. ``persistence`` is
    P(s_t+d = 1 | s_t = 1) and ``correlation`` that of the amplitudes of coefficients nonzero in both rounds,
    for d = 0, 1, ...; ``kurtosis`` is 3 for Gaussian amplitudes.
    """

    activity: Array
    leaving: Array
    entering: Array
    level: Array
    persistence: Array
    correlation: Array
    kurtosis: float
    chain: ChainParams


def statistics(aggregates: Array) -> AggregateStatistics:
    """Return support and amplitude statistics; amplitudes are taken relative to their level in each round."""
    active = aggregates != 0
    level = np.sqrt(np.sum(aggregates**2, axis=1) / np.maximum(active.sum(axis=1), 1))
    amplitude = aggregates / level[:, None]
    lags = range(min(LAGS, len(aggregates) // 2) + 1)
    persistence = np.array([_share(active[d:], active[: len(active) - d]) for d in lags])
    correlation = np.array([_correlation(amplitude, active, d) for d in lags])
    values = amplitude[active]
    return AggregateStatistics(
        activity=active.mean(axis=1),
        leaving=np.array([1 - _share(now, before) for before, now in pairwise(active)]),
        entering=np.array([_share(now, ~before) for before, now in pairwise(active)]),
        level=level,
        persistence=persistence,
        correlation=correlation,
        kurtosis=float(np.mean(values**4) / np.mean(values**2) ** 2),
        chain=fit(float(active.mean()), float(1 - persistence[1]), float(1 - correlation[1])),
    )


@dataclass(frozen=True, slots=True)
class Observations:
    """The three observations of Section III in numbers, means over the rounds of a run.

    Parameters
    ----------
    sparsity
        Observation 1: share of the coefficients that are zero.
    energetic
        The same without a threshold: share of the coefficients that hold 90 % of the energy.
    persistence, persistence_lag2
        Observation 2: share of the nonzero coefficients that are nonzero in the next round, and in the one
        after. Supports drawn anew in every round would have 1 - sparsity.
    correlation, correlation_lag2
        Observation 3: correlation of the amplitudes with those of the next round, and of the one after,
        where both are nonzero. Error feedback makes aggregates flicker, so that two rounds may be more
        alike than neighbours.
    """

    sparsity: float
    energetic: float
    persistence: float
    persistence_lag2: float
    correlation: float
    correlation_lag2: float


def observations(run: Path | FinishedRun) -> Observations:
    """Measure the paper's three observations (Fig. 2) on a run with ``run.record_aggregates``."""
    aggregates, _ = read_aggregates(run)
    found = statistics(aggregates)
    return Observations(
        sparsity=float(1 - found.activity.mean()),
        energetic=_energetic(aggregates),
        persistence=float(found.persistence[1]),
        persistence_lag2=float(found.persistence[2]),
        correlation=float(found.correlation[1]),
        correlation_lag2=float(found.correlation[2]),
    )


def _energetic(aggregates: Array) -> float:
    """Return the smallest share of coefficients that holds ``ENERGY`` of every round's energy, on average."""
    energy = np.cumsum(np.sort(aggregates**2, axis=1)[:, ::-1], axis=1)
    return float(np.mean(np.sum(energy < ENERGY * energy[:, -1:], axis=1) + 1) / aggregates.shape[1])


def fit(activity: float, p01: float, beta: float) -> ChainParams:
    """Return the chains with these moments, kept inside the valid range; the variance is 1."""
    activity = min(max(activity, 1e-6), 1 - 1e-6)
    p01 = min(max(p01, LEAST), 1.0, (1 - activity) / activity)
    return ChainParams(activity, p01, min(max(beta, LEAST), 1.0))


def _share(now: NDArray[np.bool_], given: NDArray[np.bool_]) -> float:
    """Return the share of ``now`` among ``given``; 0 where nothing is given."""
    return float(np.count_nonzero(now & given)) / max(1, int(np.count_nonzero(given)))


def _correlation(amplitude: Array, active: NDArray[np.bool_], lag: int) -> float:
    """Return the correlation of amplitudes ``lag`` rounds apart, where both are active."""
    now, before = slice(lag, None), slice(None, len(amplitude) - lag)
    both = active[now] & active[before]
    a, b = amplitude[now][both], amplitude[before][both]
    scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
    return float(np.sum(a * b) / scale) if scale > 0 else 0.0
