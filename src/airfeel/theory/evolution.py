"""State evolution (48)-(53): what TSA-GA will achieve, before anything is sent.

For large N the turbo iteration sees every coefficient through z = x + N(0, tau), and two numbers per
iteration tell its whole story. They are found here by sampling scalar chains and running the receiver's own
messages on them.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np

from airfeel import _checks
from airfeel.beliefs.chains import AmplitudeMessage, Belief, ChainParams, carry, stationary
from airfeel.beliefs.spike_slab import Array, SpikeSlab, denoise, divide, posterior
from airfeel.ranges import GREATEST, LARGEST, MOST, SMALLEST, Checked, Count, NonNegative
from airfeel.theory.scalar import (
    Prediction,
    linear_variance,
    require_ranges,
    sample_paths,
    standard_error,
    unequal_variance,
)

BATCHES = 8  # independent groups of chains, each with a recursion of its own; their spread is the error bar
CLOSEST = 0.999  # the receiver's own guard: V is kept below this share of tau
FLOOR = 1e-15  # of the signal's power: less is rounding error


@dataclass(frozen=True, slots=True)
class Assumptions(Checked):
    """The options of :func:`state_evolution`, checked."""

    chain: ChainParams
    ratio: float
    noise_var: Array
    """(rounds, measurements), either of them 1 where all are alike"""
    amplitude_message: AmplitudeMessage
    recursion: Literal["actual", "paper"]
    start: Literal["prior", "signal"]
    max_iterations: Count
    tolerance: NonNegative

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        require_ranges(self.chain, self.ratio)
        Checked.__post_init__(self)

    @property
    def power(self) -> float:
        """Var[x] = lambda gamma."""
        return self.chain.activity * self.chain.variance

    def tau(self, v: Array, believed: Array, round: int) -> Array:
        """Return f(v), kept above the rounding error of the signal where recovery is exact."""
        noise_var, floor = self.noise_var[min(round, len(self.noise_var)) - 1], FLOOR * self.power
        if noise_var.size == 1:
            return np.maximum(linear_variance(v, self.ratio, float(noise_var[0])), floor)
        return np.maximum(unequal_variance(v, believed, self.ratio, np.maximum(noise_var, floor)), floor)


def state_evolution(
    chain: ChainParams,
    ratio: float = 0.1,
    noise_var: float | Array = 5e-4,
    rounds: int = 20,
    *,
    sent: Array | None = None,
    arriving: Array | None = None,
    amplitude_message: AmplitudeMessage = "joint",
    support_chain: bool = True,
    amplitude_chain: bool = True,
    recursion: Literal["actual", "paper"] = "actual",
    start: Literal["prior", "signal"] = "prior",
    samples: int = 80_000,
    seed: int = 0,
    max_iterations: int = 50,
    tolerance: float = 1e-3,
) -> Prediction:
    """Predict the error of TSA-GA with known chain parameters, round by round.

    Parameters
    ----------
    chain
        Of the signal, and known to the receiver.
    ratio, noise_var
        s/N, and sigma^2 of y = A x + n with orthonormal rows: a number, or one per measurement (as many as
        there are levels of noise equally often), or a table (rounds, measurements) whose columns may be one.
    rounds
        How many rounds to follow.
    sent, arriving
        By what factor the aggregate is smaller or larger in every round than the chain says, such as the
        share of the devices that were heard, and by what factor it arrives, where that is another one. The
        receiver knows neither. The error is that of what was sent, and relative to it.
    amplitude_message, support_chain, amplitude_chain
        The receiver, as in :class:`airfeel.TSAGA`; without both chains it is an independent Turbo-CS.
    recursion
        ``"paper"`` is (48)-(53): tau follows from the variance V the receiver believes in, as if its
        messages were exact. ``"actual"`` follows the true errors of the messages beside the believed ones,
        which differ where messages are approximate or a chain is switched off.
    start
        v_0 of every round: ``"prior"``, the prior's own moments as in the receiver, or ``"signal"``, Var[x]
        as in Theorems 1 and 2.
    samples, seed
        Number of scalar chains, in 8 independent batches whose spread gives the standard error.
    max_iterations, tolerance
        Stop a round when v moves by less than this share of itself.

    >>> chain = ChainParams(activity=0.05, p01=0.01, beta=0.01)
    >>> prediction = state_evolution(chain, ratio=0.2, noise_var=5e-4, rounds=3, samples=8000)
    >>> bool((prediction.nmse[1:] < prediction.nmse[:-1]).all())
    True
    """
    rounds = _checks.integer("rounds", rounds, at_least=1, at_most=MOST)
    left = np.ones(rounds) if sent is None else _factors("sent", sent, rounds, SMALLEST)
    came = left if arriving is None else _factors("arriving", arriving, rounds, -LARGEST)
    table = _noise_table(noise_var, rounds)
    given = Assumptions(chain, ratio, table, amplitude_message, recursion, start, max_iterations, tolerance)
    length = _checks.integer("samples", samples, at_least=100 * BATCHES, at_most=MOST) // BATCHES
    if samples * chain.activity < 1:
        rule = f"must be at least 1/activity = {1 / chain.activity:g}, or no coefficient is active"
        raise _checks.reject("samples", samples, rule)
    belief = Belief(stationary(chain, BATCHES * length))
    fixed: list[_FixedPoint] = []
    for t, (x, w) in enumerate(islice(sample_paths(chain, BATCHES, length, seed), rounds)):
        if fixed:  # carry every chain into this round with the receiver's own messages
            z, noise = fixed[-1].z, np.repeat(fixed[-1].tau, length)
            post = posterior(belief.prior, z, noise)
            switches = support_chain, amplitude_chain
            belief = carry(belief, post, z, noise, chain, amplitude_message, *switches)
        fixed.append(_follow_round(given, belief.prior, came[t] * x, w, (left[t] - came[t]) * x, t + 1))
    longest = max(len(done.course) for done in fixed)  # shorter courses are continued by their fixed points
    courses = [np.pad(d.course, ((0, longest - len(d.course)), (0, 0)), mode="edge") for d in fixed]
    tau, v, actual_tau, actual_v = np.moveaxis(np.array(courses), 2, 0)
    errors = np.array([done.mse[:, 0] for done in fixed])
    return Prediction(
        power=given.power,
        tau=tau,
        v=v,
        actual_tau=actual_tau,
        actual_v=actual_v,
        variance=np.array([float(done.variance.mean()) for done in fixed]),
        mse=errors.mean(axis=1),
        mse_error=standard_error(errors),
        iterations=np.array([len(done.course) for done in fixed]),
        level=left**2,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _FixedPoint:
    """One round at its fixed point: (z, tau), per-batch V and error, and the course of the four variances."""

    z: Array
    tau: Array
    variance: Array
    mse: Array
    course: Array


def _follow_round(
    given: Assumptions, prior: SpikeSlab, x: Array, w: Array, lost: Array, round: int
) -> _FixedPoint:
    """Iterate f and g on all batches, x and w being (batches, length), until v stands still in each.

    ``lost`` is what was sent beyond the x that arrives.
    """
    prior = prior.each(lambda array: array.reshape(x.shape))
    post, estimate = prior.each(np.empty_like), np.empty_like(x)
    mean, spread = prior.moments()
    v = spread.mean(axis=1, keepdims=True)
    actual_v = _mean_square(mean - x) if given.recursion == "actual" else v
    if given.start == "signal":
        v = actual_v = np.full((len(x), 1), given.power)
    course: list[list[Array]] = []
    while True:
        tau = given.tau(v, v, round)
        actual_tau = given.tau(actual_v, v, round)
        course.append([tau, v, actual_tau, actual_v])
        z = x + np.sqrt(actual_tau) * w
        variance = denoise(prior, z, tau, post, estimate)
        before = v
        extrinsic, v = divide(estimate, np.minimum(variance, CLOSEST * tau), z, tau)
        if len(course) == given.max_iterations or np.all(np.abs(v - before) <= given.tolerance * before):
            error = _mean_square(estimate - x - lost)
            return _FixedPoint(z.ravel(), tau, variance, error, np.mean(course, axis=(2, 3)))
        actual_v = v
        if given.recursion == "actual":
            actual_v = _mean_square(extrinsic - x)


def _noise_table(noise_var: float | Array, rounds: int) -> Array:
    """Return the variances as (rounds, measurements), either of them 1 where all are alike."""
    if np.ndim(noise_var) == 0:
        return np.array([[_checks.real("noise_var", noise_var, at_least=0, at_most=GREATEST)]])
    table = np.atleast_2d(np.asarray(noise_var, dtype=float))
    if table.ndim > 2 or len(table) not in (1, rounds) or table.size == 0:
        rule = f"must be a number, one per measurement, or a table of {rounds} rounds and measurements"
        raise ValueError(f"noise_var has shape {np.shape(noise_var)}: {rule}")
    if not ((table >= 0) & (table <= GREATEST)).all():
        raise ValueError(f"noise_var: every entry must be finite and >= 0 and <= {GREATEST:g}")
    if table.shape[1] > 1 and (table == table[:, :1]).all():
        return np.asarray(table[:, :1])
    return table


def _factors(name: str, values: Array, rounds: int, least: float) -> Array:
    factors = _checks.vector(name, values, rounds).astype(float)
    if not ((factors >= least) & (factors <= LARGEST)).all():
        raise ValueError(f"{name}: every entry must be >= {least:g} and <= {LARGEST:g}")
    return factors


def _mean_square(error: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", error, error)[:, None] / error.shape[1])
