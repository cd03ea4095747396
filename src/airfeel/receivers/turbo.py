"""What stands around the turbo iteration: doubt, the end, the way back where it is lost, parts of blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import ChainParams
from airfeel.beliefs.spike_slab import SpikeSlab
from airfeel.receivers.problem import Problem, Residual

Array = NDArray[Any]

DIVERGENCE = 2.0  # the iteration is given up when the residual grows to this multiple of its smallest one
STATUS = ("converged", "iteration limit", "diverged")  # from good to bad


def doubt(
    prior: SpikeSlab, v: Array, residual: Residual, problem: Problem, chain: ChainParams, first: bool
) -> tuple[SpikeSlab, Array]:
    """Doubt a prior that the first residual contradicts, and a v that any does; return the prior and tau.

    If m errs by v, the residual has its expected power. A mean of s squares does not reach 1 + 5 (2/s)^(1/2)
    times its expectation by chance, and less than twice is never a surprise. Beyond that v is not believed.
    Without this, chains that move much faster than the parameters in force say are never followed, and EM
    has nothing to learn from.
    """
    chance = 1 + np.maximum(1, 5 * np.sqrt(2 / problem.count))
    surprising = residual.power > chance * residual.expected
    excess = np.where(surprising, residual.power - residual.expected, 0).astype(v.dtype)
    if first and surprising.any():
        activity = np.maximum(prior.support.mean(axis=1, keepdims=True), np.finfo(v.dtype).tiny)
        with np.errstate(over="ignore"):  # how much beyond the stationary variance does not matter
            surprise = excess / activity
        prior = prior.doubted(surprise, chain.activity, chain.variance)
    return prior, problem.tau(v + excess)


def verdict(powers: Sequence[Array], tau: Array, ahead: Array, limit: int, tolerance: float) -> str:
    """Return how the iteration ended, or nothing while it goes on.

    It is lost when the residual of some block has left its smallest one far behind, and settled when the next
    tau, ``ahead``, is the last one up to ``tolerance`` in every block.
    """
    if len(powers) > 1 and (powers[-1] > DIVERGENCE * np.minimum.reduce(powers)).any():
        return "diverged"
    if float(np.abs(ahead / tau - 1).max()) <= tolerance:
        return "converged"
    return "" if len(powers) < limit else "iteration limit"


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A decoded round: all that later steps need of it.

    ``z`` = x + N(0, ``tau``) is the pseudo-observation and ``post`` the posterior that rests on it and on
    ``prior``, which is not the one given where that was doubted (``surprised``). ``powers`` are those of the
    residuals, iteration by iteration.
    """

    prior: SpikeSlab
    post: SpikeSlab
    z: Array
    tau: Array
    powers: Sequence[Array]
    status: str
    surprised: bool

    @property
    def iterations(self) -> int:
        """How many there were."""
        return len(self.powers)


def decode(iterate: Callable[..., Decoded], prior: SpikeSlab, problem: Problem, **options: Any) -> Decoded:
    """Decode N coefficients in a row, a few blocks at a time; the arrays of the result are rows, too."""
    laid_out = prior.each(problem.laid_out)
    parts = [settle(iterate, laid_out[blocks], part, **options) for blocks, part in problem.parts()]
    found = _joined(parts, laid_out)
    return replace(
        found,
        prior=found.prior.each(problem.in_line) if found.surprised else prior,
        post=found.post.each(problem.in_line),
        z=problem.in_line(found.z),
        tau=problem.in_line(found.tau),
    )


def settle(iterate: Callable[..., Decoded], prior: SpikeSlab, problem: Problem, **options: Any) -> Decoded:
    """Iterate, and where that does not come to rest return to the iterate with the smallest residual.

    Strongly structured signals can make the iteration diverge: then the residual |y - A m| grows. Each block
    has a best iterate of its own. Decoding once more up to there is rare, while copies of the best would not
    be.
    """
    found = iterate(prior, problem, **options)
    best = found.iterations - np.ravel(np.argmin(found.powers[::-1], axis=0))  # of several the last
    if found.status == "converged" or best.min() == found.iterations:
        return found
    if len(best) > 1:
        each = [slice(i, i + 1) for i in range(len(best))]
        return _joined([settle(iterate, prior[i], problem.only(i), **options) for i in each], prior)
    again = iterate(prior, problem, **{**options, "limit": int(best[0])})
    return replace(again, powers=found.powers, status=found.status)


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
        powers=max((part.powers for part in parts), key=len),
        status=max((part.status for part in parts), key=STATUS.index),
        surprised=surprised,
    )
