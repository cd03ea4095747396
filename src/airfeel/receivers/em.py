"""Learn the chain parameters from the last rounds while receiving (Algorithm 2)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import Amplitude, ChainParams, Message, side_by_side
from airfeel.beliefs.smoothing import AmplitudeMoments, SupportMoments, smooth_amplitude, smooth_support
from airfeel.beliefs.temporal import Evidence

Array = NDArray[Any]
Window = Sequence[Evidence]
Pick = Callable[[Array], Array]

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
    window: Window, chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> Statistics:
    """Smooth the window with the parameters in force and collect the statistics."""
    return e_steps([window], [chain], support_chain, amplitude_chain)[0]


def e_steps(
    windows: Sequence[Window], chains: Sequence[ChainParams], support_chain: bool, amplitude_chain: bool
) -> list[Statistics]:
    """Do the E-step of several streams with equally long windows; each gets what it would get alone.

    The arrays of one support chain fill the cache, so these are smoothed one by one. Few amplitudes count,
    and those of all streams are smoothed together.
    """
    looks = [_look_back(window, chain, support_chain) for window, chain in zip(windows, chains, strict=True)]
    active = [look.active for look in looks]
    if sum(stream.weights[0].size for stream in active) <= windows[0][0].support.size:
        amplitudes = _amplitude_means(active, chains, amplitude_chain)
    else:  # these too would leave the cache
        amplitudes = [
            _amplitude_means([stream], [chain], amplitude_chain)[0]
            for stream, chain in zip(active, chains, strict=True)
        ]
    return [
        Statistics(look.activity, look.before, look.both, *means)
        for look, means in zip(looks, amplitudes, strict=True)
    ]


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


class _LookBack(NamedTuple):
    """What the support chain of one stream tells, and the coefficients whose amplitudes count."""

    activity: float
    before: float
    both: float
    active: "_Active"


def _look_back(window: Window, chain: ChainParams, linked: bool) -> _LookBack:
    support = _support(window, chain, linked)
    weight = _added(support.smoothed)
    total = _sum(weight)
    return _LookBack(
        activity=total / (len(window) * weight.size),
        before=total - _sum(support.smoothed[-1]),
        both=_sum(_added(support.both)),
        active=_Active.picked(window, support, _worth_smoothing(weight)),
    )


def _support(window: Window, chain: ChainParams, linked: bool) -> SupportMoments:
    filtered = [e.support for e in window]
    if linked:
        return smooth_support(filtered, [e.likelihood for e in window], chain)
    return SupportMoments(filtered, [a * b for a, b in pairwise(filtered)])


def _worth_smoothing(weight: Array) -> Pick:
    """Pick the coefficients whose amplitude counts: all but those with next to no weight in the window.

    They hold at most 1 % of the total weight, and where few coefficients are active they are most of the
    work. Where they are not, all are taken: picking out the others would cost more than it saves.
    """
    chosen = np.flatnonzero(weight > NEGLIGIBLE * float(weight.mean()))
    if 2 * len(chosen) >= len(weight):
        return lambda array: array
    return lambda array: array.take(chosen)  # half the time of array[chosen]


class _Active(NamedTuple):
    """The coefficients that count, one array per round of the window (per pair of rounds in ``pairs``)."""

    weights: list[Array]
    pairs: list[Array]
    squares: list[Array]
    filtered: list[Array]
    filtered_variance: list[Array]
    precision: list[Array]
    shift: list[Array]

    @staticmethod
    def picked(window: Window, support: SupportMoments, pick: Pick) -> "_Active":
        """Take them out of one stream."""
        return _Active(
            [pick(smoothed) for smoothed in support.smoothed],
            [pick(both) for both in support.both],
            [pick(e.square) for e in window],
            [pick(e.amplitude.mean) for e in window],
            [pick(e.amplitude.variance) for e in window],
            [pick(e.message.precision) for e in window],
            [pick(e.message.shift) for e in window],
        )

    @staticmethod
    def joined(streams: Sequence["_Active"]) -> "_Active":
        """Put those of several streams into long rows."""
        if len(streams) == 1:
            return streams[0]
        return _Active(*(_join_rounds(field) for field in zip(*streams, strict=True)))


def _join_rounds(streams: Sequence[Sequence[Array]]) -> list[Array]:
    return [np.concatenate(same_round) for same_round in zip(*streams, strict=True)]


def _amplitude_means(
    streams: Sequence[_Active], chains: Sequence[ChainParams], linked: bool
) -> list[tuple[float, float, float]]:
    """Return power, drift and jump of every stream."""
    counts = [stream.weights[0].size for stream in streams]
    active = _Active.joined(streams)
    moments = AmplitudeMoments([], [])
    if linked:
        chain = side_by_side(chains, active.shift[0].dtype, counts)
        filtered = [Amplitude(*pair) for pair in zip(active.filtered, active.filtered_variance, strict=True)]
        messages = [Message(*pair) for pair in zip(active.precision, active.shift, strict=True)]
        moments = smooth_amplitude(filtered, messages, chain)
    weight, pair_weight = _parts(active.weights, counts), _parts(active.pairs, counts)
    power = _quotients(_parts(_products(active.weights, active.squares), counts), weight)
    drift = _quotients(_parts(_products(active.pairs, moments.drift), counts), pair_weight)
    jump = _quotients(_parts(_products(active.pairs, moments.jump), counts), pair_weight)
    return list(zip(power, drift, jump, strict=True))


def _products(weights: Sequence[Array], values: Sequence[Array]) -> list[Array]:
    return [w * v for w, v in zip(weights, values, strict=True)] if values else []


def _parts(rounds: Sequence[Array], counts: Sequence[int]) -> list[float]:
    """Add up over the rounds and over each stream's part of the row."""
    if not rounds:
        return [0.0] * len(counts)
    row, sums, end = _added(rounds), [], 0
    for count in counts:
        sums.append(_sum(row[end : end + count]))
        end += count
    return sums


def _quotients(sums: Sequence[float], weights: Sequence[float]) -> list[float]:
    return [part / weight if weight != 0 else 0.0 for part, weight in zip(sums, weights, strict=True)]


def _added(rounds: Sequence[Array]) -> Array:
    """Add up over the rounds of a window, before the one sum over all coefficients that has to be exact."""
    return sum(rounds[1:], start=rounds[0])


def _sum(array: Array) -> float:
    # Not np.dot: a BLAS that splits long sums over threads would make the result depend on their number.
    return float(array.sum(dtype=np.float64))
