"""The two Markov chains behind every coefficient x_n = s_n r_n (17)-(19): forward in time, and back.

A round is carried into the next prior (33)-(42) with one of three messages to the amplitude.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt

from airfeel import _checks
from airfeel.beliefs.spike_slab import Array, SpikeSlab, bounded_exp
from airfeel.ranges import Checked, Fraction, Probability

AmplitudeMessage = Literal["expansion", "moments", "joint"]
EPSILON = 1e-7  # the small support value that stands for 0 in the amplitude message (34)


@dataclass(frozen=True, slots=True)
class ChainParams(Checked):
    """Parameters of the support chain (18) and the amplitude chain (19).

    ``activity`` is lambda = P(s = 1), ``p01`` = P(1 -> 0), ``beta`` the forgetting coefficient of the
    amplitude and ``variance`` its stationary variance gamma.

    >>> chain = ChainParams(activity=0.05, p01=0.01, beta=0.01, variance=1.0)
    >>> round(chain.p10, 6)
    0.000526
    """

    activity: Probability
    p01: Fraction
    beta: Fraction
    variance: Annotated[float, Gt(0)] = 1.0

    def __post_init__(self) -> None:
        """Refuse values outside the ranges in which both chains exist."""
        Checked.__post_init__(self)
        limit = (1 - self.activity) / self.activity
        if self.p01 > limit * (1 + 1e-12):
            rule = f"must be <= (1 - activity)/activity = {limit:g}, or p10 > 1"
            raise _checks.reject("p01", self.p01, rule)

    @property
    def p10(self) -> float:
        """P(0 -> 1), which makes ``activity`` the stationary probability."""
        return min(1.0, self.activity * self.p01 / (1 - self.activity))

    @property
    def innovation_var(self) -> float:
        """Variance xi = (2 - beta) gamma / beta of the perturbation omega in (19)."""
        return (2 - self.beta) * self.variance / self.beta

    @property
    def process_var(self) -> float:
        """Variance q = beta^2 xi that one step of (19) adds to the amplitude."""
        return self.beta * (2 - self.beta) * self.variance

    def scaled(self, factor: float) -> "ChainParams":
        """Return the chains of ``factor`` times the signal."""
        return replace(self, variance=self.variance * factor**2)


@dataclass(frozen=True, slots=True, eq=False)
class Amplitude:
    """A Gaussian belief about every amplitude r_n."""

    mean: Array
    variance: Array

    def scaled(self, factor: float, dtype: Any) -> "Amplitude":
        """Return the belief about ``factor`` times the amplitude, in another precision."""
        return Amplitude((self.mean * factor).astype(dtype), (self.variance * factor**2).astype(dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A Gaussian message about every amplitude in information form: exp(shift r - precision r^2 / 2).

    Zero precision and shift say nothing. This form needs no infinities and holds for beta = 1 too.
    """

    precision: Array
    shift: Array


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """What is believed about every coefficient before a round.

    ``prior`` is all the decoder sees: the support, and the amplitude should the coefficient be active.
    ``idle`` is the amplitude should it be inactive; None where the amplitude is taken to be independent of
    the support.
    """

    prior: SpikeSlab
    idle: Amplitude | None = None

    def scaled(self, factor: float, dtype: Any) -> "Belief":
        """Return the belief about ``factor`` times the signal, in another precision."""
        idle = None if self.idle is None else self.idle.scaled(factor, dtype)
        return Belief(self.prior.scaled(factor, dtype), idle)


def stationary(chain: ChainParams, shape: int | tuple[int, ...], dtype: Any = np.float64) -> SpikeSlab:
    """Return the prior before anything was received: lam = lambda, mu = 0, v = gamma (16)."""
    return SpikeSlab(*(np.full(shape, value, dtype) for value in (chain.activity, 0.0, chain.variance)))


def expansion_message(support: Array, z: Array, tau: Array) -> Message:
    """Return the message to the amplitude by expanding its logarithm at r = z to second order (34)-(37).

    With s in {eps, 1} the message is the mixture of (1 - lam) exp(-(z - eps r)^2 / 2 tau) and lam exp(-(z -
    r)^2 / 2 tau), lam being the ``support`` before the round; ``w`` is the share of the second component at
    r = z. To first order in eps this is N(z, tau / w). Where the curvature is not negative the message says
    nothing.
    """
    idle = bounded_exp(z * z * (-((1 - EPSILON) ** 2) / (2 * tau)))
    idle *= 1 - support
    w = support / (support + idle)
    slope = z * (EPSILON * (1 - EPSILON) / tau)  # of the logarithm of the first component
    with np.errstate(over="ignore"):  # the share 1 - w that multiplies such a square is zero
        square = np.minimum(slope**2, np.finfo(slope.dtype).max)
    precision = (w + (1 - w) * EPSILON**2) / tau - w * (1 - w) * square
    informative = precision > 0
    precision *= informative
    slope *= 1 - w
    slope *= informative
    slope += precision * z
    return Message(precision, slope)


def mix(weight: Array, first: Amplitude | SpikeSlab, second: Amplitude | SpikeSlab) -> Amplitude:
    """Return the Gaussian with mean and variance of weight * first + (1 - weight) * second."""
    step = first.mean - second.mean
    shift = weight * step
    step -= shift  # (1 - weight) (mean_1 - mean_2)
    step *= shift
    variance = first.variance - second.variance
    variance *= weight
    variance += second.variance
    variance += step
    shift += second.mean
    return Amplitude(shift, variance)


def predict_support(support: Array, chain: ChainParams) -> Array:
    """Carry posterior support probabilities through one step of (18), see (39)."""
    return np.asarray(chain.p10 + (1 - chain.p01 - chain.p10) * support)


def predict_amplitude(amplitude: Amplitude, chain: ChainParams) -> Amplitude:
    """Carry the amplitude through one step of (19), see (41)(42)."""
    keep = 1 - chain.beta
    return Amplitude(keep * amplitude.mean, keep**2 * amplitude.variance + chain.process_var)


def came_from_active(support: Array, chain: ChainParams) -> tuple[Array, Array]:
    """Return P(s_t = 1) given that s_t+1 is 1, and given that it is 0; ``support`` is P(s_t = 1)."""
    tiny, idle = np.finfo(support.dtype).tiny, 1 - support
    stayed, left = (1 - chain.p01) * support, chain.p01 * support
    return stayed / (stayed + chain.p10 * idle + tiny), left / (left + (1 - chain.p10) * idle + tiny)


def tell_amplitude(
    prior: SpikeSlab, post: SpikeSlab, z: Array, tau: Array, message: str
) -> tuple[Message, Amplitude]:
    """Return what a round tells about every amplitude, and what is then believed about it.

    Given z, the amplitude is a mixture. ``message`` chooses how it becomes Gaussian: ``"expansion"`` is the
    paper's second-order expansion (34)-(37); ``"moments"`` and ``"joint"`` keep mean and variance of the
    exact posterior pi N(m1, v1) + (1 - pi) N(mu, v).
    """
    if message == "expansion":
        told = expansion_message(prior.support, z, tau)
        keep = 1 / (1 + prior.variance * told.precision)
        variance = prior.variance * keep
        return told, Amplitude(variance * told.shift + prior.mean * keep, variance)
    precision = post.support / tau  # the log-likelihood of the amplitude, averaged over the support
    return Message(precision, precision * z), mix(post.support, post, prior)


def carry(
    belief: Belief,
    post: SpikeSlab,
    z: Array,
    tau: Array,
    chain: ChainParams,
    message: str,
    support_chain: bool = True,
    amplitude_chain: bool = True,
) -> Belief:
    """Return the belief before the next round (39)(41)(42); a chain switched off forgets everything.

    The decoder only asks for the amplitude of an active coefficient. Most of those were active before, so
    their amplitude was observed: ``"joint"`` keeps active and inactive coefficients apart, and the support
    chain mixes the two kinds. In tracking this is the interacting-multiple-model filter.
    """
    if message == "joint" and support_chain and amplitude_chain:
        support = predict_support(post.support, chain)
        idle = belief.idle or Amplitude(belief.prior.mean, belief.prior.variance)
        shares = came_from_active(post.support, chain)
        now, rest = (predict_amplitude(mix(share, post, idle), chain) for share in shares)
        return Belief(SpikeSlab(support, now.mean, now.variance), rest)
    fresh = stationary(chain, post.support.shape, post.support.dtype)
    support, amplitude = fresh.support, Amplitude(fresh.mean, fresh.variance)
    if support_chain:
        support = predict_support(post.support, chain)
    if amplitude_chain:
        _, known = tell_amplitude(belief.prior, post, z, tau, message)
        amplitude = predict_amplitude(known, chain)
    return Belief(SpikeSlab(support, amplitude.mean, amplitude.variance))


# Back over a window: arrays are (rounds, coefficients), and a pair i is (i - 1, i).


def smooth_support(filtered: Array, likelihood: Array, chain: ChainParams) -> tuple[Array, Array]:
    """Pass (65)-(69) backwards: return E[s_i] of every round and E[s_i s_i-1] of every pair.

    ``filtered`` is P(s_i = 1) given the rounds up to i; ``likelihood`` is the evidence pd of round i alone.
    """
    leave, stay, enter, rest = chain.p01, 1 - chain.p01, chain.p10, 1 - chain.p10
    tiny = np.finfo(filtered.dtype).tiny  # for rounds that exclude one another, possible only with p01 = 1
    on, off = likelihood.copy(), 1 - likelihood  # lb(last) = 1/2, and factors common to on and off cancel
    for i in range(len(on) - 1, 1, -1):
        from_active, from_idle = stay * on[i] + leave * off[i], enter * on[i] + rest * off[i]
        total = np.maximum(from_active + from_idle, tiny)
        on[i - 1] *= from_active / total
        off[i - 1] *= from_idle / total
    on, off, earlier = on[1:], off[1:], filtered[:-1]
    active = earlier * (stay * on + leave * off)
    weight = np.maximum(active + (1 - earlier) * (enter * on + rest * off), tiny)
    smoothed = np.concatenate([active / weight, filtered[-1:]])
    return smoothed, earlier * (stay * on) / weight


def smooth_amplitude(filtered: Amplitude, message: Message, chain: ChainParams) -> tuple[Array, Array]:
    """Return E[r_i r_i-1 - r_i-1^2] and E[(r_i - r_i-1)^2] of every pair, given the whole window.

    The amplitude messages go backwards in information form and are combined with the forward ones.
    For each pair the joint of (r_i-1, r_i) is Gaussian with precision [[1/vf + a^2/q, -a/q], [-a/q, 1/q +
    J]], where N(mf, vf) is the filtered belief at i - 1 and (J, h) all that the rounds from i on say about
    r_i. The moments below are its inverse written without cancellation, so that they also hold for beta =
    1, flat messages and vanishing q.
    """
    beta, a, q = chain.beta, 1 - chain.beta, chain.process_var
    precision, shift = message.precision.copy(), message.shift.copy()
    for i in range(len(shift) - 1, 1, -1):
        w = 1 + q * precision[i]
        precision[i - 1] += a * a * precision[i] / w
        shift[i - 1] += a * shift[i] / w
    precision, shift, mf, vf = precision[1:], shift[1:], filtered.mean[:-1], filtered.variance[:-1]
    qj = q * precision
    w = 1 + qj
    inverse = 1 / (w + a * a * vf * precision)
    before = (w * mf + a * vf * shift) * inverse
    step = (a * mf + (q + a * a * vf) * shift) * inverse - before
    drift = before * step - vf * (beta + qj) * inverse
    return drift, step * step + (vf * (beta * beta + qj) + q) * inverse
