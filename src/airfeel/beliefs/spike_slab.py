"""The Bernoulli-Gaussian belief lam N(mean, variance) + (1 - lam) delta_0 about a coefficient x = s r."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from airfeel.arrays import Array as Array

TILE = 1 << 14  # columns worked on at once: all temporaries of a tile stay in the caches

# Exponents between which exp is neither 0 nor so large that the square root of a variance makes it infinite.
EXPONENTS = {
    np.dtype(kind): (float(np.log(np.finfo(kind).tiny)), float(np.log(np.finfo(kind).max) / 2))
    for kind in (np.float32, np.float64)
}


@dataclass(frozen=True, slots=True, eq=False)
class SpikeSlab:
    """Support probability, amplitude mean and amplitude variance, one of each per coefficient.

    As a prior these are lam_n, mu_n, v_n of (43); as a posterior pi_n, m1_n, v1_n (the amplitude given s =
    1).
    """

    support: Array
    mean: Array
    variance: Array

    def __getitem__(self, key: Any) -> "SpikeSlab":
        """Return the belief about some of the coefficients."""
        return SpikeSlab(self.support[key], self.mean[key], self.variance[key])

    def each(self, change: Callable[[Array], Array]) -> "SpikeSlab":
        """Return the belief with all arrays changed in the same way."""
        return SpikeSlab(change(self.support), change(self.mean), change(self.variance))

    @staticmethod
    def joined(parts: "Sequence[SpikeSlab]") -> "SpikeSlab":
        """Return beliefs about different coefficients as one."""
        arrays = zip(*((part.support, part.mean, part.variance) for part in parts), strict=True)
        return SpikeSlab(*(np.concatenate(array) for array in arrays))

    def moments(self) -> tuple[Array, Array]:
        """Return mean and variance of every x_n, (28) and the summand of (29)."""
        mean = self.support * self.mean
        return mean, self.support * self.variance + mean * (self.mean - mean)

    def doubted(self, surprise: Array, activity: float, variance: float) -> "SpikeSlab":
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


def bounded_exp(exponent: Array) -> Array:
    """Return exp, in place, kept off 0 and infinity, so that a support of 0 or 1 decides."""
    np.clip(exponent, *EXPONENTS[exponent.dtype], out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))


def compare(prior: SpikeSlab, z: Array, tau: Array, out: SpikeSlab) -> tuple[Array, Array]:
    """Compare z = x + N(0, tau) under both supports; write the amplitude given s = 1 into ``out`` (27).

    Returns e and w such that exp(e) w^(1/2) is the likelihood of s = 0 over that of s = 1 (33).
    """
    wide = prior.variance + tau
    gain = np.divide(prior.variance, wide, out=out.variance)
    step = z - prior.mean
    mean = np.multiply(gain, step, out=out.mean)
    mean += prior.mean
    gain *= tau
    step *= mean
    step += z * prior.mean
    step *= -0.5 / tau
    wide *= 1 / tau
    return step, wide


def update(prior: SpikeSlab, z: Array, tau: Array, out: SpikeSlab) -> None:
    """Write the posterior given z = x + N(0, tau) into ``out``: one exponential and one root each."""
    idle, wide = compare(prior, z, tau, out)
    idle = bounded_exp(idle)
    idle *= np.sqrt(wide, out=wide)
    idle *= np.subtract(1, prior.support, out=wide)
    idle += prior.support
    np.divide(prior.support, idle, out=out.support)


def posterior(prior: SpikeSlab, z: Array, tau: Array) -> SpikeSlab:
    """Return the posterior given z = x + N(0, tau): support, and the amplitude should it be active (27)."""
    shape = np.broadcast_shapes(np.shape(prior.mean), np.shape(z), np.shape(tau))
    out = SpikeSlab(*(np.empty(shape, np.asarray(z).dtype) for _ in range(3)))
    update(prior, z, tau, out)
    return out


def log_likelihood_ratio(prior: SpikeSlab, z: Array, tau: Array) -> tuple[Array, SpikeSlab]:
    """Return the logarithm of the likelihood of s = 1 over that of s = 0, and the amplitude given s = 1.

    Unlike :func:`posterior` it tells apart what is beyond all doubt.
    """
    shape = np.broadcast_shapes(prior.mean.shape, z.shape)
    out = SpikeSlab(prior.support, np.empty(shape), np.empty(shape))
    exponent, wide = compare(prior, z, tau, out)
    return -exponent - np.log(wide) / 2, out


def denoise(prior: SpikeSlab, z: Array, tau: Array, post: SpikeSlab, estimate: Array) -> Array:
    """Write the posterior and the mean of x; return the variance averaged over each block (28)(29).

    Arrays are (blocks, length), ``tau`` and the result are (blocks, 1), or numbers where there is one block.
    The work is done tile by tile.
    """
    if z.size <= TILE:
        spread = _denoise(prior, z, tau, post, estimate)
    else:
        spread = np.zeros(len(z), z.dtype)
        for tile in tiles(*z.shape):
            noise = tau[tile[0]] if np.ndim(tau) else tau
            spread[tile[0]] += _denoise(prior[tile], z[tile], noise, post[tile], estimate[tile])
    return np.divide(spread.reshape(np.shape(tau)), z.shape[1], dtype=z.dtype)


def _denoise(prior: SpikeSlab, z: Array, tau: Array, post: SpikeSlab, estimate: Array) -> Array:
    """Denoise one tile; return the sum of the variances over each block."""
    update(prior, z, tau, post)
    np.multiply(post.support, post.mean, out=estimate)
    variance = post.mean - estimate
    variance *= post.mean
    variance += post.variance
    return np.asarray(np.einsum("ij,ij->i", variance, post.support))


def tiles(blocks: int, length: int) -> Iterator[tuple[slice, slice]]:
    """Cut (blocks, length) into pieces of ``TILE`` columns, several blocks at once where these are short."""
    height = max(1, TILE // length)
    for top in range(0, blocks, height):
        for left in range(0, length, TILE):
            yield slice(top, min(top + height, blocks)), slice(left, min(left + TILE, length))


def divide(mean_a: Array, var_a: Array, mean_b: Array, var_b: Array) -> tuple[Array, Array]:
    """Return mean and variance of N(mean_a, var_a) / N(mean_b, var_b), the extrinsic message (30)(31).

    A variance is shared by many means. The quotient is a Gaussian only where ``var_a < var_b``, which the
    caller guards. Written over the difference of the variances, so that nothing is inverted twice.
    """
    gap = var_b - var_a
    mean = (var_b / gap) * mean_a
    mean -= (var_a / gap) * mean_b
    return mean, var_a * (var_b / gap)


def extrinsic_variance(var_a: Array, var_b: Array) -> Array:
    """Return (1 / var_a - 1 / var_b)^-1, the variance of the quotient: g of the state evolution (49)."""
    return np.asarray(var_a * (var_b / (var_b - var_a)))
