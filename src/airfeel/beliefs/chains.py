"""The two Markov chains behind every coefficient x_n = s_n r_n (17)-(19): one step forward in time."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.beliefs.spike_slab import SpikeSlab, sigmoid

Array = NDArray[Any]

EPSILON = 1e-7  # the small support value that stands for 0 in the amplitude message (34)


@dataclass(frozen=True, slots=True)
class ChainParams:
    """Parameters of the support chain (18) and the amplitude chain (19).

    ``activity`` is lambda = P(s = 1), ``p01`` = P(1 -> 0), ``beta`` the forgetting coefficient of the
    amplitude and ``variance`` its stationary variance gamma.

    >>> chain = ChainParams(activity=0.05, p01=0.01, beta=0.01, variance=1.0)
    >>> round(chain.p10, 6)
    0.000526
    """

    activity: float
    p01: float
    beta: float
    variance: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values outside the ranges in which both chains exist."""
        activity = _checks.real("activity", self.activity, above=0, below=1)
        p01 = _checks.real("p01", self.p01, above=0, at_most=1)
        _checks.real("beta", self.beta, above=0, at_most=1)
        _checks.real("variance", self.variance, above=0)
        limit = (1 - activity) / activity
        if p01 > limit * (1 + 1e-12):
            raise _checks.reject("p01", p01, f"must be <= (1 - activity)/activity = {limit:g}, or p10 > 1")

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
        """Return the same chains for a signal multiplied by sqrt(factor)."""
        return replace(self, variance=self.variance * factor)


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A Gaussian message about the amplitude in information form: exp(shift r - precision r^2 / 2).

    Zero precision and shift say nothing. This form needs no infinities and holds for beta = 1 too.
    """

    precision: Array
    shift: Array


def stationary(chain: ChainParams, size: int, dtype: Any = np.float64) -> SpikeSlab:
    """Return the prior before anything was received: lam = lambda, mu = 0, v = gamma (16)."""
    values = (chain.activity, 0.0, chain.variance)
    return SpikeSlab(*(np.full(size, value, dtype=dtype) for value in values))


def expansion_message(odds: Array, z: Array, tau: Array) -> Message:
    """Return the message to the amplitude by expanding its logarithm at r = z to second order (34)-(37).

    With s in {eps, 1} the message is the mixture of (1 - lam) exp(-(z - eps r)^2 / 2 tau) and
    lam exp(-(z - r)^2 / 2 tau); ``w`` is the share of the second component at r = z. Where the curvature is not
    negative the message says nothing.
    """
    share = np.multiply(z, z)
    share *= (1 - EPSILON) ** 2 / (2 * tau)
    share += odds
    w = sigmoid(share)
    slope = z * (EPSILON * (1 - EPSILON) / tau)  # of the logarithm of the first component
    precision = (w + (1 - w) * EPSILON**2) / tau - w * (1 - w) * slope**2
    informative = precision > 0
    precision *= informative
    slope *= 1 - w
    slope *= informative
    slope += precision * z
    return Message(precision, slope)


def absorb(prior: SpikeSlab, message: Message) -> tuple[Array, Array]:
    """Return mean and variance of the amplitude's prior times a message."""
    variance = prior.variance / (1 + prior.variance * message.precision)
    mean = variance * message.shift + prior.mean * (variance / prior.variance)
    return mean, variance


def match_moments(prior: SpikeSlab, posterior: SpikeSlab) -> tuple[Array, Array]:
    """Return mean and variance of the amplitude's exact posterior pi N(m1, v1) + (1 - pi) N(mu, v)."""
    pi = posterior.support
    step = posterior.mean - prior.mean
    mean = prior.mean + pi * step
    step *= step
    step *= pi * (1 - pi)
    step += prior.variance + pi * (posterior.variance - prior.variance)
    return mean, step


def implied_message(prior: SpikeSlab, mean: Array, variance: Array) -> Message:
    """Return the message that turns the amplitude's prior into N(mean, variance).

    Where the posterior is wider than the prior there is no such Gaussian: the message says nothing.
    """
    precision = 1 / variance - 1 / prior.variance
    informative = precision > 0
    shift = mean / variance - prior.mean / prior.variance
    return Message(precision * informative, shift * informative)


def predict_support(support: Array, chain: ChainParams) -> Array:
    """Carry posterior support probabilities through one step of (18), see (39)."""
    return chain.p10 + (1 - chain.p01 - chain.p10) * support


def predict_amplitude(mean: Array, variance: Array, chain: ChainParams) -> tuple[Array, Array]:
    """Carry the amplitude through one step of (19), see (41)(42)."""
    keep = 1 - chain.beta
    return keep * mean, keep**2 * variance + chain.process_var
