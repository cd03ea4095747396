"""The Bernoulli-Gaussian belief lam N(mean, variance) + (1 - lam) delta_0 about a coefficient x = s r."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TILE = 1 << 14  # columns worked on at once: all temporaries of a tile stay in the caches


@dataclass(frozen=True, slots=True, eq=False)
class SpikeSlab:
    """Support probability, amplitude mean and amplitude variance, one of each per coefficient.

    As a prior these are lam_n, mu_n, v_n of (43); as a posterior pi_n, m1_n, v1_n (the amplitude given s =
    1).
    """

    support: Array
    mean: Array
    variance: Array

    def moments(self) -> tuple[Array, Array]:
        """Return mean and variance of every x_n, (28) and the summand of (29)."""
        mean = self.support * self.mean
        return mean, self.support * self.variance + mean * (self.mean - mean)

    def doubted(self, surprise: Array, activity: float | Array, variance: float | Array) -> "SpikeSlab":
        """Return the belief where a reception contradicts it by ``surprise``, extra amplitude variance or 0.

        It goes half the way back to the stationary support ``activity`` and widens the amplitudes, though not
        beyond their stationary ``variance``. What is known to be zero stays so.
        """
        touched = (surprise > 0) & (self.support > 0)
        support = np.where(touched, (self.support + activity) / 2, self.support)
        widened = np.maximum(self.variance, np.minimum(self.variance + surprise, variance))
        return SpikeSlab(support, self.mean, widened)

    def scaled(self, factor: float, dtype: Any) -> "SpikeSlab":
        """Return the belief about ``factor`` times the signal, in another precision."""
        mean, variance = (self.mean * factor).astype(dtype), (self.variance * factor**2).astype(dtype)
        return SpikeSlab(self.support.astype(dtype), mean, variance)


def log_odds(probability: Array) -> Array:
    """Return log(p / (1 - p)), infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probability / (1 - probability)))


def sigmoid(odds: Array) -> Array:
    """Turn log-odds into probabilities, in place."""
    np.negative(odds, out=odds)
    with np.errstate(over="ignore"):  # exp(large) = inf gives the right probability, 0
        np.exp(odds, out=odds)
    odds += 1
    return np.divide(1, odds, out=odds)


def weigh(mean: Array, variance: Array, z: Array, tau: Array) -> tuple[Array, Array, Array]:
    """Compare z = x + N(0, tau) under both supports, given the prior N(mean, variance) of the amplitude.

    Returns the log-likelihood ratio of s = 1 against s = 0 (33), and mean and variance of the amplitude given
    s = 1 (27). One logarithm per coefficient.
    """
    total = variance + tau
    ratio = np.log(total)
    np.divide(1, total, out=total)
    gain = variance * total
    innovation = z - mean
    active_mean = gain * innovation
    active_mean += mean
    gain *= tau
    innovation *= innovation
    innovation *= total
    square = np.multiply(z, z, out=total)
    square *= 1 / tau
    square -= innovation
    square -= ratio
    square += np.log(tau)
    square *= 0.5
    return square, active_mean, gain


def posterior(prior: SpikeSlab, odds: Array, z: Array, tau: Array) -> tuple[SpikeSlab, Array]:
    """Return the posterior given z = x + N(0, tau), and the log-likelihood ratio that led to it.

    ``odds`` are the log-odds of ``prior.support``, which callers use more than once.
    """
    ratio, mean, variance = weigh(prior.mean, prior.variance, z, tau)
    return SpikeSlab(sigmoid(ratio + odds), mean, variance), ratio


def denoise(prior: SpikeSlab, odds: Array, z: Array, tau: Array, out: Array) -> Array:
    """Write the posterior mean of x into ``out`` and return the summed posterior variance (28)(29).

    Arrays are (lanes, length), ``tau`` is (lanes, 1), the result is (lanes,). The work is done tile by tile.
    """
    spread = np.zeros(z.shape[0])
    for lanes, columns in tiles(*z.shape):
        tile = lanes, columns
        ratio, mean, variance = weigh(prior.mean[tile], prior.variance[tile], z[tile], tau[lanes])
        ratio += odds[tile]
        support = sigmoid(ratio)
        estimate = np.multiply(support, mean, out=out[tile])
        variance *= support
        spread[lanes] += variance.sum(axis=1)
        mean -= estimate
        spread[lanes] += np.einsum("ij,ij->i", mean, estimate)
    return spread


def tiles(lanes: int, length: int) -> Iterator[tuple[slice, slice]]:
    """Cut (lanes, length) into pieces of ``TILE`` columns, several lanes at once where these are short."""
    height = max(1, 2 * TILE // length)  # two tiles are a seventh faster than one: fewer calls of NumPy
    for top in range(0, lanes, height):
        for left in range(0, length, TILE):
            yield slice(top, min(top + height, lanes)), slice(left, min(left + TILE, length))
