"""State evolution with exact posteriors: a mixture over every history of the support, for a few rounds.

This is the receiver of Theorems 1 and 2, which no practical receiver is: after t rounds it holds 2^t Gaussian
hypotheses per coefficient. It shows what the theorems promise and what TSA-GA's approximate messages lose.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from airfeel import _checks
from airfeel.beliefs.chains import Amplitude, ChainParams, predict_amplitude
from airfeel.beliefs.spike_slab import Array, SpikeSlab, extrinsic_variance, log_likelihood_ratio
from airfeel.theory.scalar import linear_variance, sample_paths, standard_error

BATCHES = 20  # enough for a standard error that can be trusted
LONGEST = 8  # rounds: 128 hypotheses for every sample


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """Beliefs about (s_t, r_t) for every history of the support: arrays (histories, batches, length).

    ``weight`` is the probability of the history, ``active`` that of s_t = 1 given it; ``mean`` and
    ``variance`` describe r_t.
    """

    weight: Array
    active: Array
    mean: Array
    variance: Array


@dataclass(frozen=True, slots=True, eq=False)
class ExactCourse:
    """tau[t, i] and v[t, i] of every batch: arrays (rounds, iterations, batches)."""

    tau: Array
    v: Array

    def rises(self, axis: int) -> float:
        """Return the largest rise of tau or v along rounds (0) or iterations (1), in standard errors.

        Batches are compared one by one: they share all random numbers from round to round.
        """
        steps = np.concatenate([np.diff(a, axis=axis).reshape(-1, BATCHES) for a in (self.tau, self.v)])
        spread, rise = standard_error(steps), steps.mean(axis=1)
        # Differences at the level of rounding are no rise.
        return float(np.max(np.where(rise > 1e-9 * self.v.max(), rise / np.maximum(spread, 1e-300), 0.0)))


def exact_evolution(
    chain: ChainParams,
    ratio: float,
    noise_var: float,
    rounds: int = 4,
    *,
    iterations: int = 20,
    samples: int = 16_000,
    seed: int = 0,
) -> ExactCourse:
    """Follow (48)-(53) with exact posteriors from v_0 = Var[x] in every round.

    Round t looks at the last t rounds of the same sampled chains, so that neighbouring rounds differ only in
    what the theorem compares: one more observation, and the levels of the noise.
    """
    rounds = _checks.integer("rounds", rounds, at_least=1, at_most=LONGEST)
    length = _checks.integer("samples", samples, at_least=10 * BATCHES) // BATCHES
    paths = list(islice(sample_paths(chain, BATCHES, length, seed), rounds))
    course: list[Array] = []  # of every round (iterations, 2, batches): tau and v
    for t in range(1, rounds + 1):
        seen = paths[rounds - t :]
        belief = start(chain)
        for (x, w), before in zip(seen[:-1], course, strict=True):
            belief = _next(belief, x, w, before[-1, 0][:, None], chain)
        v, found = np.full((BATCHES, 1), chain.activity * chain.variance), []
        for _ in range(iterations):
            tau = linear_variance(v, ratio, noise_var)
            found.append((tau, v))
            v = extrinsic_variance(mean_variance(belief, *seen[-1], tau), tau)
        course.append(np.array(found)[..., 0])
    return ExactCourse(*np.moveaxis(np.array(course), 2, 0))


def mean_variance(belief: Hypotheses, x: Array, w: Array, tau: Array) -> Array:
    """Return phi_t(tau): the mean posterior variance of x from z = x + tau^(1/2) w, of every batch."""
    weights, mean, variance = _posterior(belief, x + np.sqrt(tau) * w, tau)
    first = np.sum(weights[0] * mean, axis=0)
    second = np.sum(weights[0] * (variance + mean**2), axis=0)
    return np.asarray(np.mean(second - first**2, axis=-1, keepdims=True))


def start(chain: ChainParams) -> Hypotheses:
    """Return the belief before round 1: one history, the empty one."""
    one = np.ones((1, 1, 1))
    return Hypotheses(one, chain.activity * one, 0 * one, chain.variance * one)


def _posterior(belief: Hypotheses, z: Array, tau: Array) -> tuple[tuple[Array, Array], Array, Array]:
    """Return the weights of every history with s_t = 1 and with s_t = 0, and r_t given the former."""
    llr, told = log_likelihood_ratio(SpikeSlab(belief.active, belief.mean, belief.variance), z, tau)
    top = np.maximum(llr.max(axis=0), 0.0)
    on = belief.weight * belief.active * np.exp(llr - top)
    off = belief.weight * (1 - belief.active) * np.exp(-top)
    total = on.sum(axis=0) + off.sum(axis=0)
    return (on / total, off / total), told.mean, told.variance


def _next(belief: Hypotheses, x: Array, w: Array, tau: Array, chain: ChainParams) -> Hypotheses:
    """Split every history by s_t, take the observation in, and go one round on."""
    z = x + np.sqrt(tau) * w
    (on, off), mean, variance = _posterior(belief, z, tau)
    amplitude = Amplitude(
        np.concatenate([mean, belief.mean + 0 * z]), np.concatenate([variance, belief.variance + 0 * z])
    )
    after, active = predict_amplitude(amplitude, chain), np.repeat([1 - chain.p01, chain.p10], len(on))
    return Hypotheses(np.concatenate([on, off]), active[:, None, None], after.mean, after.variance)
