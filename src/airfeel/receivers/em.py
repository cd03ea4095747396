"""Learn the chain parameters from the last rounds while receiving (Algorithm 2)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import Amplitude, ChainParams, Message
from airfeel.beliefs.smoothing import AmplitudeMoments, SupportMoments, smooth_amplitude, smooth_support
from airfeel.beliefs.temporal import Evidence

Array = NDArray[Any]

SMALLEST = 1e-6  # lower limit of p01 and beta: in single precision the chains would freeze below it
NEGLIGIBLE = 1e-2  # a coefficient with less than this share of the mean weight is passed over
RARE = 1e-9  # lower limit of the activity and of 1 - activity


@dataclass(frozen=True, slots=True)
class Statistics:
    """Expected statistics of a window.

    ``activity`` is the mean of E[s_i] over rounds and coefficients; ``before`` and ``both`` sum E[s_i-1]
    and E[s_i s_i-1] over pairs of rounds. ``power`` is the mean of E[r_i^2 | s_i = 1] weighted by
    E[s_i]; ``drift`` and ``jump`` are the means of E[r_i r_i-1 - r_i-1^2] and E[(r_i - r_i-1)^2] weighted by
    E[s_i s_i-1], as only a coefficient that is active in both rounds tells about beta. Without any such
    coefficient they are 0.
    """

    activity: float
    before: float
    both: float
    power: float
    drift: float
    jump: float


def e_step(
    window: Sequence[Evidence], chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> Statistics:
    """Smooth the window with the parameters in force and collect the statistics."""
    support = _support(window, chain, support_chain)
    weight = _added(support.smoothed)
    pick = _worth_smoothing(weight)
    amplitude = _amplitude(window, pick, chain, amplitude_chain)
    weights, pairs = [pick(s) for s in support.smoothed], [pick(b) for b in support.both]
    return Statistics(
        activity=_sum(weight) / (len(window) * weight.size),
        before=_sum(weight) - _sum(support.smoothed[-1]),
        both=_sum(_added(support.both)),
        power=_weighted_mean(weights, [pick(e.square) for e in window]),
        drift=_weighted_mean(pairs, amplitude.drift),
        jump=_weighted_mean(pairs, amplitude.jump),
    )


def m_step(
    statistics: Statistics, chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> ChainParams:
    """Return the parameters for the next round, each kept inside its valid range.

    p01 and beta maximise Q (63) (with unit weights); the activity and the variance are moment estimators.
    The variance counts a coefficient as far as it is active, because an inactive amplitude is not observed:
    E[s r^2] = E[s] E[r^2 | s = 1], for which E[s] E[r^2] would be up to 20 % too large. A parameter
    about which the window says nothing keeps its value, and so do those of a chain that is switched off.
    """
    s = statistics
    activity = min(max(s.activity, RARE), 1 - RARE)
    p01, beta, variance = chain.p01, chain.beta, chain.variance
    if support_chain and s.before > 0:
        p01 = 1 - s.both / s.before
    if s.power > 0:
        variance = s.power
    if amplitude_chain and s.jump > 0:
        xi = chain.innovation_var
        beta = (s.drift + math.sqrt(s.drift**2 + 4 * xi * s.jump)) / (2 * xi)
    p01 = min(max(p01, SMALLEST), 1.0, (1 - activity) / activity)
    return ChainParams(activity, p01, min(max(beta, SMALLEST), 1.0), variance)


def _support(window: Sequence[Evidence], chain: ChainParams, linked: bool) -> SupportMoments:
    filtered = [e.support for e in window]
    if linked:
        return smooth_support(filtered, [e.likelihood for e in window], chain)
    return SupportMoments(filtered, [a * b for a, b in pairwise(filtered)])


def _amplitude(
    window: Sequence[Evidence], pick: Callable[[Array], Array], chain: ChainParams, linked: bool
) -> AmplitudeMoments:
    if linked:
        filtered = [Amplitude(pick(e.amplitude.mean), pick(e.amplitude.variance)) for e in window]
        messages = [Message(pick(e.message.precision), pick(e.message.shift)) for e in window]
        return smooth_amplitude(filtered, messages, chain)
    return AmplitudeMoments([], [])


def _worth_smoothing(weight: Array) -> Callable[[Array], Array]:
    """Pick the coefficients whose amplitude counts: all but those with next to no weight in the window.

    They hold at most 1 % of the total weight, and where few coefficients are active they are most of the
    work. Where they are not, all are taken: picking out the others would cost more than it saves.
    """
    chosen = np.flatnonzero(weight > NEGLIGIBLE * float(weight.mean()))
    if 2 * len(chosen) >= len(weight):
        return lambda array: array
    return lambda array: array.take(chosen)  # half the time of array[chosen]


def _weighted_mean(weights: Sequence[Array], values: Sequence[Array]) -> float:
    total = _sum(_added(weights))
    if total == 0 or not values:
        return 0.0
    return _sum(_added([w * v for w, v in zip(weights, values, strict=True)])) / total


def _added(rounds: Sequence[Array]) -> Array:
    """Add up over the rounds of a window, before the one sum over all coefficients that has to be exact."""
    return sum(rounds[1:], start=rounds[0])


def _sum(array: Array) -> float:
    # Not np.dot: a BLAS that splits long sums over threads would make the result depend on their number.
    return float(array.sum(dtype=np.float64))
