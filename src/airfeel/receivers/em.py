"""Learn the chain parameters from the last rounds while receiving (Algorithm 2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from airfeel.beliefs.chains import (
    Amplitude,
    ChainParams,
    Message,
    smooth_amplitude,
    smooth_support,
    tell_amplitude,
)
from airfeel.beliefs.spike_slab import Array, SpikeSlab, compare

SMALLEST = 1e-6  # lower limit of p01 and beta: in single precision the chains would freeze below it
NEGLIGIBLE = 1e-2  # a coefficient with less than this share of the mean weight is passed over
HUGE = 1e200  # upper limit of xi, which is infinite for the smallest beta one can write
RARE = 1e-9  # lower limit of the activity and of 1 - activity
TOGETHER = 2**17  # coefficients looked at together; more of them leave the caches


@dataclass(frozen=True, slots=True, eq=False)
class PastRound:
    """A finished round: its prior, z = x + N(0, tau), and the posterior support that followed from them."""

    prior: SpikeSlab
    z: Array
    tau: Array
    support: Array

    def scaled(self, factor: float, dtype: Any) -> "PastRound":
        """Return the same round of ``factor`` times the signal, in another precision."""
        # Rounding is a noise, too, and more of it where the new precision is the lower one.
        tau = np.maximum(self.tau * factor**2, np.finfo(dtype).eps ** 2).astype(dtype)
        z = (self.z * factor).astype(dtype)
        return PastRound(self.prior.scaled(factor, dtype), z, tau, self.support.astype(dtype))


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


class Expectations(NamedTuple):
    """Expected statistics of a window, all of them sums over rounds and coefficients.

    ``active`` is E[s_i], and ``cases`` of how many; ``power`` is E[s_i] E[r_i^2 | s_i = 1], and ``seen`` its
    weights E[s_i], as far as coefficients were not passed over. Over pairs of rounds, ``before`` and ``both``
    are E[s_i-1] and E[s_i s_i-1], ``drift`` and ``jump`` E[r_i r_i-1 - r_i-1^2] and E[(r_i - r_i-1)^2] with
    the weight E[s_i s_i-1], as only a coefficient that is active in both rounds tells about beta.
    """

    cases: float
    active: float
    seen: float
    power: float
    before: float
    both: float
    drift: float
    jump: float


def learn(
    window: Sequence[PastRound], chain: ChainParams, message: str, support_chain: bool, amplitude_chain: bool
) -> ChainParams:
    """Return the parameters for the next round, from sums over parts of the coefficients."""
    parts = (slice(first, first + TOGETHER) for first in range(0, window[0].support.size, TOGETHER))
    switches = support_chain, amplitude_chain
    found = [e_step(gather(window, message, part), chain, *switches) for part in parts]
    return m_step(Expectations(*map(sum, zip(*found, strict=True))), chain, *switches)


def gather(window: Sequence[PastRound], message: str, part: slice = slice(None)) -> Evidence:
    """Return what the window tells about the coefficients that count.

    The others, with next to no weight in the window, hold at most 1 % of the total weight, and where few
    coefficients are active they would be most of the work. Where they are not, all are taken.
    """
    weight = window[0].support[part].copy()
    for r in window[1:]:
        weight += r.support[part]
    total = _sum(weight)
    chosen = np.flatnonzero(weight > NEGLIGIBLE * total / weight.size)
    if 2 * chosen.size >= weight.size:
        chosen = np.arange(weight.size)
    chosen += part.start or 0

    table = np.empty((6, len(window), chosen.size), weight.dtype)
    for i, r in enumerate(window):
        each = r.prior.support, r.prior.mean, r.prior.variance, r.z, r.tau, r.support
        for row, array in zip(table[:, i], each, strict=True):
            if array.size == 1:
                row[:] = array
            else:
                array.take(chosen, out=row, mode="clip")  # a quarter of the time of array[chosen]
    prior, (z, tau, support) = SpikeSlab(*table[:3]), table[3:]
    post = SpikeSlab(support, np.empty_like(z), np.empty_like(z))
    compare(prior, z, tau, post)
    told, amplitude = tell_amplitude(prior, post, z, tau, message)
    square = post.variance + post.mean**2
    others = weight.size - chosen.size
    elsewhere = total - _sum(support)
    # The evidence pd that turns the support before the round into that after it; 1/2 if nothing could.
    tiny = np.finfo(support.dtype).tiny
    on, off = (1 - prior.support) * support, prior.support * (1 - support)
    on += tiny
    off += on
    off += tiny
    likelihood = np.divide(on, off, out=on)
    return Evidence(support, likelihood, amplitude, told, square, others, elsewhere)


def e_step(
    evidence: Evidence, chain: ChainParams, support_chain: bool = True, amplitude_chain: bool = True
) -> Expectations:
    """Smooth the window with the parameters in force and collect the statistics."""
    filtered = evidence.support
    if support_chain:
        weight, pairs = smooth_support(filtered, evidence.likelihood, chain)
    else:
        weight, pairs = filtered, filtered[1:] * filtered[:-1]
    drift = jump = 0.0
    if amplitude_chain:
        moments = smooth_amplitude(evidence.amplitude, evidence.message, chain)
        drift, jump = (_sum(moment * pairs) for moment in moments)
    seen = _sum(weight)
    return Expectations(
        cases=weight.size + len(weight) * evidence.others,
        active=seen + evidence.elsewhere,
        seen=seen,
        power=_sum(evidence.square * weight),
        before=_sum(weight[:-1]),
        both=_sum(pairs),
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
    activity = min(max(found.active / found.cases, RARE), 1 - RARE)
    p01, beta, variance = chain.p01, chain.beta, chain.variance
    if support_chain and found.before > 0:
        p01 = 1 - found.both / found.before
    if found.seen > 0 and found.power > 0:
        variance = found.power / found.seen
    if amplitude_chain and found.both > 0 and found.jump > 0:
        xi, drift, jump = min(chain.innovation_var, HUGE), found.drift / found.both, found.jump / found.both
        beta = (drift + math.sqrt(drift**2 + 4 * xi * jump)) / (2 * xi)
    p01 = min(max(p01, SMALLEST), 1.0, (1 - activity) / activity)
    return ChainParams(activity, p01, min(max(beta, SMALLEST), 1.0), variance)


def _sum(array: Array) -> float:
    # Not np.dot: a BLAS that splits long sums over threads would make the result depend on their number.
    return float(array.sum(dtype=np.float64))
