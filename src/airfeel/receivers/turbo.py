"""The turbo decoder: one round, any prior per coefficient; it does not know that time exists."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.gaussian import divide
from airfeel.beliefs.spike_slab import SpikeSlab, denoise, log_odds
from airfeel.receivers.lanes import Lanes

Array = NDArray[Any]

DIVERGENCE = 2.0  # a lane is given up when its residual grows to this multiple of its smallest one


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The pseudo-observation z = x + N(0, tau) of every lane: all that later steps need of the round.

    ``status`` holds ``"converged"``, ``"iteration limit"`` or ``"diverged"`` for every lane; ``surprise``
    is the extra amplitude variance with which the prior would have expected the reception, 0 unless it
    contradicts the prior.
    """

    z: Array
    tau: Array
    iterations: Array
    status: Array
    surprise: Array

    @staticmethod
    def empty(surprise: Array, like: Array) -> "Decoded":
        """Return room for the results of lanes shaped ``like`` this array."""
        count = len(like)
        tau = np.empty((count, 1), like.dtype)
        iterations, status = np.zeros(count, np.intp), np.full(count, "", dtype=object)
        return Decoded(np.empty_like(like), tau, iterations, status, surprise)

    def put(self, lanes: Array, z: Array, tau: Array, iteration: int, status: str) -> None:
        """Fill in the results of lanes that have ended."""
        if len(lanes):
            self.z[lanes], self.tau[lanes] = z, tau
            self.iterations[lanes], self.status[lanes] = iteration, status


@dataclass(slots=True, eq=False)
class _Working:
    """The lanes still being iterated; ``m`` and ``v`` are the extrinsic message to the linear step."""

    index: Array
    prior: SpikeSlab
    odds: Array
    lanes: Lanes
    doubts: bool
    chance: Array
    noise: Array
    m: Array
    v: Array
    previous: Array
    z: Array
    tau: Array
    best_z: Array
    best_tau: Array
    best_power: Array
    activity: Array
    variance: Array
    surprise: Array

    def select(self, keep: Array) -> "_Working":
        prior = SpikeSlab(self.prior.support[keep], self.prior.mean[keep], self.prior.variance[keep])
        rest = (self.chance, self.noise, self.m, self.v, self.previous, self.z, self.tau)
        best = (self.best_z, self.best_tau, self.best_power)
        model = (self.activity, self.variance, self.surprise)
        kept = (a[keep] for a in rest + best + model)
        return _Working(self.index[keep], prior, self.odds[keep], self.lanes.select(keep), self.doubts, *kept)


def decode(
    prior: SpikeSlab,
    lanes: Lanes,
    noise_var: Array,
    stationary: tuple[Array, Array] | None = None,
    max_iterations: int = 25,
    tolerance: float = 1e-2,
) -> Decoded:
    """Iterate linear step, denoising step and extrinsic step in every lane until its estimate stands still.

    A lane stops when the estimate moves less than ``tolerance`` times its norm. Strongly structured signals
    can make the iteration diverge: then the residual |y - A m| grows, and the iterate with the smallest one
    is returned. ``stationary``, activity and variance of every lane, is where a prior goes back to that the
    reception contradicts; without it no prior is doubted, as in the paper.
    """
    work = _start(prior, lanes, noise_var, stationary)
    result = Decoded.empty(work.surprise, like=prior.mean)
    for iteration in range(1, max_iterations + 1):
        settled, lost = _iterate(work, tolerance, first=iteration == 1)
        going = ~(settled | lost)
        if going.all():
            continue
        result.put(work.index[settled], work.z[settled], work.tau[settled], iteration, "converged")
        result.put(work.index[lost], work.best_z[lost], work.best_tau[lost], iteration, "diverged")
        if not going.any():
            return result
        work = work.select(going)
    result.put(work.index, work.best_z, work.best_tau, max_iterations, "iteration limit")
    return result


def _start(
    prior: SpikeSlab, lanes: Lanes, noise_var: Array, stationary: tuple[Array, Array] | None
) -> _Working:
    """Begin with the prior's own moments."""
    m, spread = prior.moments()
    count = len(m)
    activity, variance = stationary or (np.zeros(count), np.zeros(count))
    return _Working(
        index=np.arange(count),
        prior=prior,
        odds=log_odds(prior.support),
        lanes=lanes,
        noise=np.asarray(noise_var).astype(m.dtype)[:, None],
        m=m,
        v=spread.mean(axis=1, keepdims=True),
        previous=np.zeros_like(m),
        z=m,
        tau=np.ones((count, 1), m.dtype),
        best_z=m,
        best_tau=np.ones((count, 1), m.dtype),
        best_power=np.full(count, np.inf),
        doubts=stationary is not None,
        chance=(1 + np.maximum(1, 5 * np.sqrt(2 / lanes.rows)))[:, None],
        activity=activity.astype(m.dtype)[:, None],
        variance=variance.astype(m.dtype)[:, None],
        surprise=np.zeros((count, 1), m.dtype),
    )


def _iterate(work: _Working, tolerance: float, first: bool) -> tuple[Array, Array]:
    """Do one turbo iteration; return which lanes settled and which are lost."""
    z, tau, power = linear_step(work.m, work.v, work.lanes, work.noise)
    if work.doubts:
        tau = _heed_surprise(work, tau, power, first)
    estimate = np.empty_like(z)
    variance = denoise(work.prior, work.odds, z, tau, out=estimate) / z.shape[1]
    work.z, work.tau = z, tau
    lost = _remember_best(work, power)
    moved = np.subtract(estimate, work.previous, out=work.previous)
    settled = _square(moved) <= tolerance**2 * _square(estimate)
    work.previous = estimate
    # The quotient of Gaussians needs V < tau, which a prior that does not fit can break.
    V = np.minimum(variance.astype(z.dtype)[:, None], 0.999 * tau)
    work.m, work.v = divide(estimate, V, z, tau)
    return settled & ~lost, lost


def linear_step(m: Array, v: Array, lanes: Lanes, noise: Array) -> tuple[Array, Array, Array]:
    """Return z, its variance tau, and the residual power: (22)(23)(25)(26) reduced by A A^T = I.

    ``tau`` is kept above the rounding error of the unit signal scale, so that s = N without noise needs no
    case of its own.
    """
    ratio = lanes.ratio
    z, power = lanes.backproject(m)
    z *= ratio
    z += m
    tau = (ratio - 1) * v + ratio * noise
    return z, np.maximum(tau, np.finfo(m.dtype).eps ** 2), power


def _heed_surprise(work: _Working, tau: Array, power: Array, first: bool) -> Array:
    """Return the variance of z as the residual shows it, and doubt a prior that a first residual contradicts.

    If m errs by v, the residual has the power v + sigma^2. A mean of s squares does not reach 1 + 5
    (2/s)^(1/2) times its expectation by chance, and less than twice is never a surprise; beyond that, the
    error is read off the residual. Without this, chains that move much faster than the parameters in force
    say are never followed, and EM has nothing to learn from.
    """
    left, expected = power[:, None], work.v + work.noise
    surprising = left > work.chance * expected
    if not surprising.any():
        return tau
    excess = np.where(surprising, left - expected, 0).astype(tau.dtype)
    if first:
        activity = work.prior.support.mean(axis=1, keepdims=True)
        work.surprise[:] = excess / np.maximum(activity, np.finfo(tau.dtype).tiny)
        work.prior = work.prior.doubted(work.surprise, work.activity, work.variance)
        work.odds = log_odds(work.prior.support)
    tau += (work.lanes.ratio - 1) * excess
    return tau


def _remember_best(work: _Working, power: Array) -> Array:
    """Keep the iterate with the smallest residual; return which lanes have left it far behind."""
    lost = power > DIVERGENCE * work.best_power
    better = power <= work.best_power
    if better.all():
        work.best_z, work.best_tau, work.best_power = work.z, work.tau, power
    elif better.any():
        work.best_z = np.where(better[:, None], work.z, work.best_z)
        work.best_tau = np.where(better[:, None], work.tau, work.best_tau)
        work.best_power = np.minimum(work.best_power, power)
    return lost


def _square(x: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", x, x))
