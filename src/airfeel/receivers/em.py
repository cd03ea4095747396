"""Learn the chain parameters from the last rounds while receiving (Algorithm 2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import ChainParams
from airfeel.beliefs.smoothing import AmplitudeMoments, SupportMoments, smooth_amplitude, smooth_support
from airfeel.beliefs.temporal import Evidence

Array = NDArray[Any]

SMALLEST = 1e-6  # lower limit of p01 and beta: in single precision the chains would freeze below it
RARE = 1e-9  # lower limit of the activity and of 1 - activity


@dataclass(frozen=True, slots=True)
class Statistics:
    """Expected statistics of a window, summed over coefficients and rounds (or pairs of rounds).

    ``rounds`` counts coefficients times rounds; ``active`` sums E[s_i], ``power`` sums E[s_i r_i^2];
    ``before`` sums E[s_i-1] and ``both`` sums E[s_i s_i-1] over pairs. ``drift`` and ``jump`` sum E[r_i
    r_i-1 - r_i-1^2] and E[(r_i - r_i-1)^2] over pairs, each weighted by E[s_i s_i-1]: only a coefficient
    that is active in both rounds tells about beta.
    """

    rounds: int
    active: float
    power: float
    before: float
    both: float
    drift: float
    jump: float


def e_step(
    window: Sequence[Evidence], chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> Statistics:
    """Smooth the window with the parameters in force and collect the statistics."""
    support = _support(window, chain, support_chain)
    amplitude = _amplitude(window, chain, amplitude_chain)
    return Statistics(
        rounds=len(window) * window[0].likelihood.size,
        active=_total(support.smoothed),
        power=_weighted(support.smoothed, amplitude.square),
        before=_total(support.smoothed[:-1]),
        both=_total(support.both),
        drift=_weighted(support.both, amplitude.drift),
        jump=_weighted(support.both, amplitude.jump),
    )


def m_step(
    statistics: Statistics, chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> ChainParams:
    """Return the parameters for the next round, each kept inside its valid range.

    p01 and beta maximise Q (63) (with unit weights); the activity and the variance are moment estimators.
    The variance counts active coefficients only, because an inactive amplitude is not observed. A parameter
    about which the window says nothing keeps its value, and so do those of a chain that is switched off.
    """
    s = statistics
    activity = min(max(s.active / s.rounds, RARE), 1 - RARE)
    p01, beta, variance = chain.p01, chain.beta, chain.variance
    if support_chain and s.before > 0:
        p01 = 1 - s.both / s.before
    if s.active > 0 and s.power > 0:
        variance = s.power / s.active
    if amplitude_chain and s.both > 0:
        n_xi = s.both * chain.innovation_var
        beta = (s.drift + np.sqrt(s.drift**2 + 4 * n_xi * s.jump)) / (2 * n_xi)
    p01 = min(max(p01, SMALLEST), 1.0, (1 - activity) / activity)
    return ChainParams(activity, p01, float(min(max(beta, SMALLEST), 1.0)), variance)


def _support(window: Sequence[Evidence], chain: ChainParams, linked: bool) -> SupportMoments:
    filtered = [e.support for e in window]
    if linked:
        return smooth_support(filtered, [e.likelihood for e in window], chain)
    return SupportMoments(filtered, [a * b for a, b in pairwise(filtered)])


def _amplitude(window: Sequence[Evidence], chain: ChainParams, linked: bool) -> AmplitudeMoments:
    filtered = [e.amplitude for e in window]
    if linked:
        return smooth_amplitude(filtered, [e.message for e in window], chain)
    return AmplitudeMoments([r.variance + r.mean**2 for r in filtered], [], [])


def _total(arrays: Iterable[Array]) -> float:
    return float(sum(a.sum(dtype=np.float64) for a in arrays))


def _weighted(weights: Sequence[Array], values: Sequence[Array]) -> float:
    return float(sum(np.dot(w, v) for w, v in zip(weights, values, strict=False)))
