"""The turbo iteration, what stands around it, and Turbo-CS, which runs it anew in every round.

Around it: doubt, the end, the way back where it is lost, parts of blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from airfeel import _checks
from airfeel.beliefs.chains import ChainParams
from airfeel.beliefs.spike_slab import Array, SpikeSlab, denoise, divide
from airfeel.ranges import Count, require
from airfeel.receivers import scale
from airfeel.receivers.base import Estimate, Info, Precision, Reception, Size, Tolerance, require_size
from airfeel.receivers.problem import Problem, Residual, orthonormal, pose
from airfeel.receivers.scale import Scaled

CLOSEST = 0.999  # V is kept below this share of tau: a prior that does not fit can break V < tau
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


def iterate(
    prior: SpikeSlab,
    problem: Problem,
    limit: int = 25,
    tolerance: float = 5e-3,
    chain: ChainParams | None = None,
    pace: float = 1.0,
) -> Decoded:
    """Iterate linear step, denoising step and extrinsic step until tau stands still (Algorithm 1, lines 4-8).

    With a ``chain`` a prior that the reception contradicts is doubted and goes back towards that chain's; the
    paper does not doubt. With a ``pace`` below one an iteration goes only this share of the way.
    """
    given, post = prior, prior.each(np.empty_like)  # each iteration writes over the last
    m, spread = prior.moments()  # line 4 as it should be
    v = spread.mean(axis=1, keepdims=True) if len(spread) > 1 else spread.mean()
    mean = spread  # its memory serves again
    powers: list[Array] = []
    status = ""
    while not status:  # line 5
        z, tau, residual = problem.linear_step(m, v)  # line 6: (22)(23)(25)(26)
        noise = tau  # of z; more where the residual shows it
        if chain is not None and (residual.power > 2 * residual.expected).any():
            prior, noise = doubt(prior, v, residual, problem, chain, first=not powers)
        V = np.minimum(denoise(prior, z, noise, post, mean), CLOSEST * noise)  # line 7: (28)(29)
        before = m, v
        m, v = divide(mean, V, z, noise)  # line 7: (30)(31)
        if pace < 1:
            m, v = (old + pace * (new - old) for old, new in zip(before, (m, v), strict=True))
        powers.append(residual.power)
        status = verdict(powers, tau, problem.tau(v), limit, pace * tolerance)
    return Decoded(prior, post, z, np.reshape(noise, (-1, 1)), powers, status, prior is not given)  # line 8


def decode(prior: SpikeSlab, problem: Problem, **options: Any) -> Decoded:
    """Decode N coefficients in a row, a few blocks at a time; the arrays of the result are rows, too."""
    laid_out = prior.each(problem.laid_out)
    parts = [settle(laid_out[blocks], part, **options) for blocks, part in problem.parts()]
    found = _joined(parts, laid_out)
    return replace(
        found,
        prior=found.prior.each(problem.in_line) if found.surprised else prior,
        post=found.post.each(problem.in_line),
        z=problem.in_line(found.z),
        tau=problem.in_line(found.tau),
    )


def settle(prior: SpikeSlab, problem: Problem, **options: Any) -> Decoded:
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
        return _joined([settle(prior[i], problem.only(i), **options) for i in each], prior)
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


@dataclass(frozen=True, slots=True, eq=False)
class TurboCS:
    """Turbo compressed sensing of a single round with the prior (16), or with one prior per coefficient.

    Parameters
    ----------
    activity, mean, variance
        P(s = 1), and mean and variance of the amplitude: numbers, or arrays with one value per coefficient.
        Without ``variance`` it is estimated from each reception.
    max_iterations, tolerance, precision
        As for :class:`~airfeel.TSAGA`.
    """

    activity: float | Array
    mean: float | Array = 0.0
    variance: float | Array | None = None
    max_iterations: Count = 25
    tolerance: Tolerance = 5e-3
    precision: Precision | None = None

    def __post_init__(self) -> None:
        """Refuse priors that are none."""
        rule = "must be a probability, 0 <= activity <= 1"
        _require("activity", self.activity, lambda a: (a >= 0) & (a <= 1), rule)
        _require("mean", self.mean, np.isfinite, "must be finite and real")
        if self.variance is not None:
            rule = "must be finite and >= 0"
            _require("variance", self.variance, lambda v: np.isfinite(v) & (v >= 0), rule)
        elif not np.mean(self.activity) > 0:
            raise _checks.reject("activity", self.activity, "must be > 0 somewhere, or variance be given")
        require(self)

    def init(self, size: int) -> Size:
        """Return the state, which is only the number of coefficients."""
        return Size(_checks.integer("size", size, at_least=1))

    def receive(self, state: Size, reception: Reception) -> tuple[Estimate, Size]:
        """Recover one round."""
        require_size(state.size, reception)
        reception, pace, longer = orthonormal(reception)
        loudness = scale.level(reception.observation)
        if loudness == 0 and self.variance is not None:
            loudness = scale.level(np.sqrt(np.atleast_1d(self.variance)))
        heard = scale.apply(reception, scale.follow(0.0, loudness) or 1.0, self.precision)
        problem, prior = pose(reception.operator, heard), self._prior(state.size, heard)
        options = {"limit": longer * self.max_iterations, "tolerance": self.tolerance, "pace": pace}
        found = decode(prior, problem, **options)
        info = Info(found.iterations, found.status, float(found.tau.mean()))
        return heard.restored(Estimate(*found.post.moments(), info)), state

    def _prior(self, size: int, heard: Scaled) -> SpikeSlab:
        if self.variance is None:
            variance = np.asarray(heard.amplitude_power(float(np.mean(self.activity))))
        else:
            variance = heard.width(self.variance)
        dtype = heard.observation.dtype
        return SpikeSlab(
            _fill("activity", self.activity, size, dtype),
            _fill("mean", heard.centre(self.mean), size, dtype),
            _fill("variance", variance, size, dtype),
        )


def _fill(name: str, value: ArrayLike, size: int, dtype: Any) -> Array:
    array = np.asarray(value, dtype=dtype)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} has shape {array.shape}: must be a number or a vector of length {size}")
    return np.broadcast_to(array, (size,))


def _require(name: str, value: Any, holds: Any, rule: str) -> None:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or not np.all(holds(array)):
        raise _checks.reject(name, value, rule)
