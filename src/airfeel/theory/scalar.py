"""The scalar picture of Section V: one coefficient's chain, seen through Gaussian noise in every round."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.beliefs.chains import ChainParams
from airfeel.beliefs.spike_slab import SpikeSlab, posterior
from airfeel.ranges import LARGEST, SMALLEST
from airfeel.streams import stream

Array = NDArray[Any]

NODES = 4000  # of the quadrature; its error is that of rounding from about 500 on
TAIL = 12.0  # standard deviations beyond which nothing counts


def require_ranges(chain: ChainParams, ratio: float) -> None:
    """Refuse a signal, or a share s/N, of which squares and quotients would leave the numbers there are."""
    _checks.real("activity", chain.activity, at_least=SMALLEST)
    _checks.real("variance", chain.variance, at_least=SMALLEST, at_most=LARGEST)
    _checks.real("ratio", ratio, at_least=SMALLEST, at_most=1)


def linear_variance(v: Array, ratio: float, noise_var: float) -> Array:
    """Return tau = f(v) = (N/s - 1) v + (N/s) sigma^2, the linear module's transfer function (48)."""
    return (1 / ratio - 1) * v + noise_var / ratio


def unequal_variance(v: Array, believed: Array, ratio: float, noise_var: Array) -> Array:
    """Return tau for a noise variance of its own in every measurement, (48) generalised.

    The receiver weights each measurement by u = 1 / (v + sigma^2) with the v it believes in. Where that is
    the actual one, tau is (N/s) / mean(u) - v.
    """
    u = 1 / (believed + noise_var)
    together = u.mean(axis=1, keepdims=True) ** 2
    heard = (u**2 * (v + noise_var)).mean(axis=1, keepdims=True)
    return np.asarray(heard / (ratio * together) - v)


def standard_error(batches: Array) -> Array:
    """Return the standard error of the means over batches, which are the columns."""
    return np.asarray(batches.std(axis=1, ddof=1) / np.sqrt(batches.shape[1]))


def sample_paths(chain: ChainParams, batches: int, length: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield x and standard normal noise w, each (batches, length), round after round of stationary chains.

    Batches are independent of one another. Inside a batch the support is drawn in strata: of k active
    coefficients k p01 become inactive, up to rounding at random, so that the activity hardly fluctuates.
    Every coefficient by itself follows (18) and (19). Round t draws from streams of its own, so that more
    rounds continue the same chains.
    """
    shape = batches, length
    round = 1
    draw = stream(seed, "theory chain", round)
    active = _in_strata(draw, np.zeros(shape, dtype=bool)) < chain.activity
    amplitude = np.sqrt(chain.variance) * draw.standard_normal(shape)
    while True:
        yield np.where(active, amplitude, 0.0), stream(seed, "theory noise", round).standard_normal(shape)
        round += 1
        draw = stream(seed, "theory chain", round)
        switch = _in_strata(draw, active)
        active = np.where(active, switch >= chain.p01, switch < chain.p10)
        amplitude *= 1 - chain.beta
        amplitude += np.sqrt(chain.process_var) * draw.standard_normal(shape)


def _in_strata(draw: np.random.Generator, active: Array) -> Array:
    """Return uniform numbers, one in each of k equal intervals for the k members of a group.

    The groups are the active and the inactive coefficients of every batch.
    """
    uniform = draw.random(active.shape)
    for row, mask in zip(uniform, active, strict=True):
        for group in (mask, ~mask):
            members = row[group]
            row[group] = (draw.permutation(members.size) + members) / max(members.size, 1)
    return uniform


def first_round_mmse(chain: ChainParams, tau: float) -> float:
    """Return phi_1(tau): the MMSE of x from z = x + N(0, tau) under the prior (16), by quadrature.

    With z = tau^(1/2) sinh(u) the trapezoidal rule resolves the decision between active and idle near the
    noise level as well as the tail of the active coefficients.
    """
    tau = _checks.real("tau", tau, above=0)
    prior = SpikeSlab(*(np.full(NODES, value) for value in (chain.activity, 0.0, chain.variance)))
    wide = chain.variance + tau
    nodes, step = np.linspace(0, np.arcsinh(TAIL * np.sqrt(wide / tau)), NODES, retstep=True)
    z = np.sqrt(tau) * np.sinh(nodes)
    post = posterior(prior, z, np.asarray(tau))
    density = chain.activity * _normal(z, wide) + (1 - chain.activity) * _normal(z, tau)
    values = post.moments()[1] * density * np.sqrt(tau) * np.cosh(nodes)
    return float(2 * step * (values.sum() - values[0] / 2 - values[-1] / 2))


def _normal(z: Array, variance: float) -> Array:
    return np.asarray(np.exp(-(z**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))
