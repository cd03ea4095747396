"""The turbo decoder: one round, any prior per coefficient; it does not know that time exists.

Arrays are (blocks, length); what belongs to a block is (blocks, 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import ChainParams
from airfeel.beliefs.gaussian import divide
from airfeel.beliefs.spike_slab import SpikeSlab, denoise, odds_against
from airfeel.receivers.problem import Problem, Residual

Array = NDArray[Any]

CLOSEST = 0.999  # V is kept below this share of tau: a prior that does not fit can break V < tau
DIVERGENCE = 2.0  # the iteration is given up when the residual grows to this multiple of its smallest one
STATUS = ("converged", "iteration limit", "diverged")  # from good to bad


class Prior(NamedTuple):
    """A prior, with its odds against s = 1."""

    belief: SpikeSlab
    against: Array


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A decoded round: all that later steps need of it.

    ``z`` = x + N(0, ``tau``) is the pseudo-observation and ``post`` the posterior that rests on it and on
    ``prior``, which is not the one given where that was doubted (``surprised``).
    """

    prior: SpikeSlab
    post: SpikeSlab
    z: Array
    tau: Array
    iterations: int
    status: str
    surprised: bool


def decode_blocks(prior: SpikeSlab, problem: Problem, *options: Any) -> Decoded:
    """Decode N coefficients in a row, a few blocks at a time; the arrays of the result are rows, too."""
    laid_out = prior.each(problem.laid_out)
    parts = [decode(laid_out[blocks], part, *options) for blocks, part in problem.parts()]
    found = _joined(parts, laid_out)
    return replace(
        found,
        prior=found.prior.each(problem.in_line) if found.surprised else prior,
        post=found.post.each(problem.in_line),
        z=problem.in_line(found.z),
        tau=problem.in_line(found.tau),
    )


def decode(
    belief: SpikeSlab,
    problem: Problem,
    max_iterations: int = 25,
    tolerance: float = 5e-3,
    chain: ChainParams | None = None,
) -> Decoded:
    """Iterate linear step, denoising step and extrinsic step until tau stands still (Algorithm 1, lines 4-8).

    Strongly structured signals can make the iteration diverge: then the residual |y - A m| grows, and the
    iterate with the smallest one is returned; so it is at the iteration limit. With a ``chain`` a prior that
    the reception contradicts is doubted and goes back towards that chain's; the paper does not doubt.
    """
    (m, v), prior = start(belief), Prior(belief, odds_against(belief.support))
    post, mean = belief.each(np.empty_like), np.empty_like(m)  # each iteration writes over the last
    powers: list[Array] = []
    status = ""
    while not status:
        z, tau, residual = linear_step(problem, m, v)  # line 6
        powers.append(residual.power)
        noise = tau  # of z; more where the residual shows it
        if chain is not None:
            prior, noise = doubt(prior, tau, residual, problem, v, chain, first=len(powers) == 1)
        V = denoise_step(prior, z, noise, post, mean)  # line 7: (28)(29)
        m, v = extrinsic(mean, V, z, noise)  # line 7: (30)(31)
        status = verdict(powers, tau, problem.tau(v), max_iterations, tolerance)
    if status != "converged" and _best(powers).min() < len(powers):
        return _go_back(belief, problem, powers, status, (max_iterations, tolerance, chain))
    return Decoded(prior.belief, post, z, noise, len(powers), status, prior.belief is not belief)


def start(prior: SpikeSlab) -> tuple[Array, Array]:
    """Return the first message to the linear step, the prior's own moments (line 4 as it should be)."""
    m, spread = prior.moments()
    return m, spread.mean(axis=1, keepdims=True)


def linear_step(problem: Problem, m: Array, v: Array) -> tuple[Array, Array, Residual]:
    """Return z, its variance tau, and the residual: (22)(23)(25)(26) reduced by A A^T = I.

    z = m + (N/s) A^T (y - A m), tau = (N/s - 1) v + (N/s) sigma^2 where all measurements have the same noise.
    """
    residual = problem.residual(problem.observation - problem.forward(m), v)
    z = problem.adjoint(residual.weighted)
    z += m
    return z, problem.tau(v), residual


def denoise_step(prior: Prior, z: Array, tau: Array, post: SpikeSlab, mean: Array) -> Array:
    """Write the posterior and the mean of x; return its variance V averaged over each block (27)-(29)."""
    return np.minimum(denoise(*prior, z, tau, post, mean), CLOSEST * tau)


def extrinsic(mean: Array, V: Array, z: Array, tau: Array) -> tuple[Array, Array]:
    """Return what the denoiser adds to z: the posterior N(mean, V) over the message N(z, tau), (30)(31)."""
    return divide(mean, V, z, tau)


def verdict(powers: Sequence[Array], tau: Array, ahead: Array, max_iterations: int, tolerance: float) -> str:
    """Return how the iteration ended, or nothing while it goes on.

    It is lost when the residual of some block has left its smallest one far behind, and settled when the next
    tau, ``ahead``, is the last one up to ``tolerance`` in every block.
    """
    grows = len(powers) > 1 and bool((powers[-1] > powers[-2]).any())
    if grows and (powers[-1] > DIVERGENCE * np.min(powers, axis=0)).any():
        return "diverged"
    with np.errstate(over="ignore"):  # any change is small enough for an infinite tolerance
        still = np.abs(ahead - tau) <= min(tolerance, float(np.finfo(tau.dtype).max)) * tau
    if still.all():
        return "converged"
    return "" if len(powers) < max_iterations else "iteration limit"


def doubt(
    prior: Prior, tau: Array, residual: Residual, problem: Problem, v: Array, chain: ChainParams, first: bool
) -> tuple[Prior, Array]:
    """Doubt a prior that the first residual contradicts, and read the variance of z off the residual.

    If m errs by v, the residual has its expected power. A mean of s squares does not reach 1 + 5 (2/s)^(1/2)
    times its expectation by chance, and less than twice is never a surprise. Beyond that v is not believed.
    Without this, chains that move much faster than the parameters in force say are never followed, and EM
    has nothing to learn from.
    """
    if not (residual.power > 2 * residual.expected).any():
        return prior, tau
    chance = 1 + np.maximum(1, 5 * np.sqrt(2 / problem.count))
    surprising = residual.power > chance * residual.expected
    excess = np.where(surprising, residual.power - residual.expected, 0).astype(tau.dtype)
    if first and surprising.any():
        activity = np.maximum(prior.belief.support.mean(axis=1, keepdims=True), np.finfo(tau.dtype).tiny)
        with np.errstate(over="ignore"):  # how much beyond the stationary variance does not matter
            surprise = excess / activity
        belief = prior.belief.doubted(surprise, chain.activity, chain.variance)
        prior = Prior(belief, odds_against(belief.support))
    return prior, problem.tau(v + excess)


def _best(powers: Sequence[Array]) -> Array:
    """Return the number of the iteration that left the smallest residual, of several the last."""
    return len(powers) - np.asarray(np.argmin(powers[::-1], axis=0))


def _go_back(
    belief: SpikeSlab, problem: Problem, powers: Sequence[Array], status: str, options: tuple[Any, ...]
) -> Decoded:
    """Decode once more, but only up to the smallest residual: rare, while copies of the best would not be.

    Each block has a best iterate of its own.
    """
    blocks = len(powers[0])
    if blocks > 1:
        each = [slice(i, i + 1) for i in range(blocks)]
        return _joined([decode(belief[i], problem.only(i), *options) for i in each], belief)
    best = decode(belief, problem, int(_best(powers)[0, 0]), *options[1:])
    return replace(best, iterations=len(powers), status=status)


def _joined(parts: Sequence[Decoded], given: SpikeSlab) -> Decoded:
    """Return several blocks, decoded apart with their shares of the ``given`` prior, as one."""
    if len(parts) == 1:
        return parts[0]
    surprised = any(part.surprised for part in parts)
    return Decoded(
        prior=SpikeSlab.joined([part.prior for part in parts]) if surprised else given,
        post=SpikeSlab.joined([part.post for part in parts]),
        z=np.concatenate([part.z for part in parts]),
        tau=np.concatenate([part.tau for part in parts]),
        iterations=max(part.iterations for part in parts),
        status=max((part.status for part in parts), key=STATUS.index),
        surprised=surprised,
    )
