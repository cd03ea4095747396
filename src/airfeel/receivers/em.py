"""Learn the chain parameters from the last rounds while receiving (Algorithm 2)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import Amplitude, ChainParams, Message
from airfeel.beliefs.smoothing import SupportMoments, smooth_amplitude, smooth_support
from airfeel.beliefs.spike_slab import SpikeSlab, compare
from airfeel.beliefs.temporal import tell_amplitude

Array = NDArray[Any]

SMALLEST = 1e-6  # lower limit of p01 and beta: in single precision the chains would freeze below it
NEGLIGIBLE = 1e-2  # a coefficient with less than this share of the mean weight is passed over
HUGE = 1e200  # upper limit of xi, which is infinite for the smallest beta one can write
RARE = 1e-9  # lower limit of the activity and of 1 - activity
TOGETHER = 2**21  # coefficients looked at together: a window takes some 80 bytes of each in every round


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """A finished round: its prior, z = x + N(0, tau), and the posterior support that followed from them."""

    prior: SpikeSlab
    z: Array
    tau: Array
    support: Array

    def scaled(self, factor: float, dtype: Any) -> "Round":
        """Return the same round of ``factor`` times the signal, in another precision."""
        # Rounding is a noise, too, and more of it where the new precision is the lower one.
        tau = np.maximum(self.tau * factor**2, np.finfo(dtype).eps ** 2).astype(dtype)
        z = (self.z * factor).astype(dtype)
        return Round(self.prior.scaled(factor, dtype), z, tau, self.support.astype(dtype))

    def only(self, part: slice) -> "Round":
        """Return the same round of some of the coefficients."""
        prior = (_cut(array, part) for array in (self.prior.support, self.prior.mean, self.prior.variance))
        return Round(SpikeSlab(*prior), self.z[part], _cut(self.tau, part), self.support[part])


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A window as the two chains see it: arrays (rounds, coefficients).

    ``support`` is P(s = 1) given all rounds so far and ``likelihood`` the evidence pd of a round alone;
    ``amplitude`` and ``message`` are the same for the amplitude. ``square`` is E[r^2] given s = 1 and all
    rounds so far. Coefficients that were passed over, ``others``, have the summed support ``elsewhere``.
    """

    support: Array
    likelihood: Array
    amplitude: Amplitude
    message: Message
    square: Array
    others: int = 0
    elsewhere: float = 0.0


@dataclass(frozen=True, slots=True)
class Expectations:
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


def learn(
    window: Sequence[Round], chain: ChainParams, message: str, support_chain: bool, amplitude_chain: bool
) -> ChainParams:
    """Return the parameters for the next round."""
    size = window[0].support.size
    parts = [slice(first, first + TOGETHER) for first in range(0, size, TOGETHER)]
    found = []
    for part in parts:
        some = window if len(parts) == 1 else [r.only(part) for r in window]
        found.append(e_step(gather(some, message), chain, support_chain, amplitude_chain))
    sizes = [min(part.stop, size) - part.start for part in parts]
    return m_step(merged(found, sizes), chain, support_chain, amplitude_chain)


def merged(found: Sequence[Expectations], sizes: Sequence[int]) -> Expectations:
    """Return the statistics of all coefficients, given those of parts of them with their sizes.

    Of the power this is the mean as far as coefficients were not passed over, 1 % of the weight at most.
    """
    if len(found) == 1:
        return found[0]

    def mean(values: Iterable[float], weights: Sequence[float]) -> float:
        total = sum(weights)
        return sum(v * w for v, w in zip(values, weights, strict=True)) / total if total != 0 else 0.0

    both = [part.both for part in found]
    return Expectations(
        activity=mean((part.activity for part in found), sizes),
        before=sum(part.before for part in found),
        both=sum(both),
        power=mean((p.power for p in found), [p.activity * n for p, n in zip(found, sizes, strict=True)]),
        drift=mean((part.drift for part in found), both),
        jump=mean((part.jump for part in found), both),
    )


def gather(window: Sequence[Round], message: str) -> Evidence:
    """Return what the window tells about the coefficients that count.

    The others, with next to no weight in the window, hold at most 1 % of the total weight, and where few
    coefficients are active they would be most of the work. Where they are not, all are taken.
    """
    weight = window[0].support.copy()
    for r in window[1:]:
        weight += r.support
    total = _sum(weight)
    chosen = np.flatnonzero(weight > NEGLIGIBLE * total / weight.size)
    if 2 * chosen.size >= weight.size:
        chosen = np.arange(weight.size)

    def take(arrays: Iterable[Array]) -> Array:
        found = np.empty((len(window), chosen.size), weight.dtype)
        for row, array in zip(found, arrays, strict=True):
            if array.size == 1:
                row[:] = array
            else:
                array.take(chosen, out=row, mode="clip")  # a quarter of the time of array[chosen]
        return found

    prior = SpikeSlab(
        take(r.prior.support for r in window),
        take(r.prior.mean for r in window),
        take(r.prior.variance for r in window),
    )
    z, tau, support = take(r.z for r in window), take(r.tau for r in window), take(r.support for r in window)
    post = SpikeSlab(support, np.empty_like(z), np.empty_like(z))
    compare(prior, z, tau, post)
    told, amplitude = tell_amplitude(prior, post, z, tau, message)
    square = post.variance + post.mean**2
    others = weight.size - chosen.size
    elsewhere = total - _sum(support)
    return Evidence(support, _likelihood(prior.support, support), amplitude, told, square, others, elsewhere)


def _likelihood(before: Array, after: Array) -> Array:
    """Return the evidence pd that turns the probability ``before`` into ``after``; 1/2 if nothing could."""
    on, off = (1 - before) * after, before * (1 - after)
    total = on + off
    return np.asarray(np.divide(on, total, out=np.full_like(on, 0.5), where=total > 0))


def e_step(
    evidence: Evidence, chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> Expectations:
    """Smooth the window with the parameters in force and collect the statistics."""
    filtered = evidence.support
    if support_chain:
        support = smooth_support(filtered, evidence.likelihood, chain)
    else:
        support = SupportMoments(filtered, filtered[1:] * filtered[:-1])
    weight, pairs = support.smoothed, support.both
    drift = jump = 0.0
    if amplitude_chain:
        moments = smooth_amplitude(evidence.amplitude, evidence.message, chain)
        drift, jump = _mean(moments.drift, pairs), _mean(moments.jump, pairs)
    rounds, picked = weight.shape
    return Expectations(
        activity=(_sum(weight) + evidence.elsewhere) / (rounds * (picked + evidence.others)),
        before=_sum(weight[:-1]),
        both=_sum(pairs),
        power=_mean(evidence.square, weight),
        drift=drift,
        jump=jump,
    )


def m_step(
    found: Expectations, chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> ChainParams:
    """Return the parameters for the next round, each kept inside its valid range.

    p01 and beta maximise Q (63) (with unit weights); the activity and the variance are moment estimators.
    The variance counts a coefficient as far as it is active, because an inactive amplitude is not observed:
    E[s r^2] = E[s] E[r^2 | s = 1], for which E[s] E[r^2] would be up to 20 % too large. A parameter
    about which the window says nothing keeps its value, and so do those of a chain that is switched off.
    """
    activity = min(max(found.activity, RARE), 1 - RARE)
    p01, beta, variance = chain.p01, chain.beta, chain.variance
    if support_chain and found.before > 0:
        p01 = 1 - found.both / found.before
    if found.power > 0:
        variance = found.power
    if amplitude_chain and found.jump > 0:
        xi = min(chain.innovation_var, HUGE)
        beta = (found.drift + math.sqrt(found.drift**2 + 4 * xi * found.jump)) / (2 * xi)
    p01 = min(max(p01, SMALLEST), 1.0, (1 - activity) / activity)
    return ChainParams(activity, p01, min(max(beta, SMALLEST), 1.0), variance)


def _cut(array: Array, part: slice) -> Array:
    return array if array.size == 1 else array[part]


def _mean(values: Array, weight: Array) -> float:
    total = _sum(weight)
    return _sum(values * weight) / total if total != 0 else 0.0


def _sum(array: Array) -> float:
    # Not np.dot: a BLAS that splits long sums over threads would make the result depend on their number.
    return float(array.sum(dtype=np.float64))
