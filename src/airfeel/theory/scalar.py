"""The scalar picture of Section V: one coefficient's chain, seen through Gaussian noise in every round.

And what state evolution predicts from it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from airfeel import _checks
from airfeel.arrays import Array as Array
from airfeel.arrays import Mask
from airfeel.beliefs.chains import ChainParams
from airfeel.beliefs.spike_slab import SpikeSlab, posterior
from airfeel.ranges import LARGEST, SMALLEST
from airfeel.streams import stream
from airfeel.units import decibel

NODES = 4000  # of the quadrature; its error is that of rounding from about 500 on
TAIL = 12.0  # standard deviations beyond which nothing counts


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The predicted course of recovery over some rounds; all variances are per coefficient.

    ``power`` is E[x^2], the reference of every NMSE. ``tau`` and ``v``, (rounds, iterations), are what the
    receiver believes: the variance of the pseudo-observation (48) and of the extrinsic message (49), with the
    fixed points in the last column. ``actual_tau`` and ``actual_v`` are the mean squared errors of the same
    two messages, equal as far as these are exact, and by definition in the paper's recursion. Per round,
    ``variance`` is V, the receiver's own mean posterior variance at the fixed point, ``mse`` the true mean
    squared error of the estimate with its standard error ``mse_error``, ``iterations`` those until the fixed
    point, and ``level`` the energy of what was sent over that of the chain: 1 where every device is heard.
    """

    power: float
    tau: Array
    v: Array
    actual_tau: Array
    actual_v: Array
    variance: Array
    mse: Array
    mse_error: Array
    iterations: Array
    level: Array | float = 1.0

    @property
    def nmse(self) -> Array:
        """The true error relative to the signal, per round."""
        return self.mse / (self.power * self.level)

    @property
    def nmse_error(self) -> Array:
        """Standard error of :attr:`nmse`."""
        return self.mse_error / (self.power * self.level)

    @property
    def nmse_db(self) -> Array:
        """:attr:`nmse` in decibel."""
        return decibel(self.nmse)

    @property
    def tau_fixed(self) -> Array:
        """The fixed points tau*_t of the rounds."""
        return np.asarray(self.tau[:, -1])

    @property
    def v_fixed(self) -> Array:
        """The fixed points v*_t of the rounds."""
        return np.asarray(self.v[:, -1])

    @property
    def steady_nmse(self) -> float:
        """Mean NMSE over the last quarter of the rounds."""
        return float(np.mean(late(self.nmse)))


def averaged(found: Sequence[Prediction]) -> Prediction:
    """Return the mean of predictions that were made independently; short courses end at their fixed points.

    Errors are taken relative to what each of them sent, so that their mean is that of the NMSE.
    """
    longest = max(one.tau.shape[1] for one in found)

    def mean(name: str) -> Array:
        courses = [getattr(one, name) for one in found]
        padded = [np.pad(c, ((0, 0), (0, longest - c.shape[1])), mode="edge") for c in courses]
        return np.asarray(np.mean(padded, axis=0))

    power = found[0].power
    errors = np.mean([one.nmse_error**2 for one in found], axis=0) / len(found)
    return Prediction(
        power=power,
        tau=mean("tau"),
        v=mean("v"),
        actual_tau=mean("actual_tau"),
        actual_v=mean("actual_v"),
        variance=np.mean([one.variance / one.level for one in found], axis=0),
        mse=np.mean([one.nmse for one in found], axis=0) * power,
        mse_error=np.sqrt(errors) * power,
        iterations=np.max([one.iterations for one in found], axis=0),
    )


def late(values: Array) -> Array:
    """Return the last quarter of the rounds, which stands for steady state.

    >>> late(np.arange(8))
    array([6, 7])
    """
    return values[-max(1, len(values) // 4) :]


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


def _in_strata(draw: np.random.Generator, active: Mask) -> Array:
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
