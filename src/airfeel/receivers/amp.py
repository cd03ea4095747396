"""Approximate message passing, the receiver of A-DSGD (Donoho, Maleki and Montanari, PNAS 2009)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt
from scipy.sparse.linalg import LinearOperator

from airfeel import _checks
from airfeel.beliefs.spike_slab import Array, SpikeSlab, posterior
from airfeel.operators import GaussianMatrix, PartialDCT
from airfeel.ranges import Checked, Count, Probability
from airfeel.receivers import scale
from airfeel.receivers.base import Estimate, Info, Reception, Size, Tolerance, require_size
from airfeel.receivers.scale import Scaled
from airfeel.streams import stream

Denoiser = Callable[[Array, float], tuple[Array, Array, float]]  # z, tau to estimate, variance, mean slope

TEMPERATURE = 8.0  # differences of N SURE / tau below this are chance: one coefficient more or less makes two
DIVERGENCE = 4.0  # the iteration is given up when the residual's power grows to this multiple of its smallest
PATIENCE = 16  # iterations of a noisy threshold without a smaller power, after which it is at rest if near


@dataclass(frozen=True, slots=True)
class AMP(Checked):
    """AMP for an IID matrix with unit-norm columns, one round at a time.

    Parameters
    ----------
    activity
        Expected share of non-zero coefficients (k/N); used by the MMSE denoiser.
    denoiser
        ``"soft"``: soft threshold theta, as in A-DSGD, which needs to know nothing about the signal.
        ``"mmse"``: posterior mean under the Bernoulli-Gaussian prior (16), which knows as much as
        memoryless Turbo-CS.
    threshold
        alpha of a fixed soft threshold theta = alpha tau^(1/2); by default every iteration chooses theta.
    variance
        gamma of the MMSE denoiser's prior; estimated from each reception when not given.
    max_iterations, tolerance
        Stop after so many iterations, or when the estimate moves less than this share of its norm.

    Notes
    -----
    x <- eta(x + A^T z; tau),   z <- y - A x + (N/s) mean(eta') z.

    The last summand, the Onsager term, is what makes u = x + A^T z look like the signal in white noise of
    variance ``tau = |z|^2 / s``. So the error of the soft threshold is estimated without knowing the signal,
    and theta has the least estimate (:func:`sure_threshold`). The minimum is flat, and chance says where in
    it theta / tau^(1/2) lies: its mean over the iterations is used, in which the i-th has weight i. What
    chance is left may still move the estimate: the best iterate is returned when tau has not fallen for
    sixteen iterations.

    As tau = noise_var + (N/s) MSE, an iterate with tau above ``|y|^2 / s`` is worse than the estimate zero.
    If the iteration comes to rest there, farther than chance explains, or grows away from its best iterate,
    that one is returned (zero, if nothing was better) and ``info.status`` is ``"diverged"``.
    """

    activity: Probability
    denoiser: Literal["soft", "mmse"] = "soft"
    threshold: Annotated[float, Gt(0)] | None = None
    variance: Annotated[float, Gt(0)] | None = None
    max_iterations: Count = 40
    tolerance: Tolerance = 1e-2

    def init(self, size: int) -> Size:
        """Return the state, which is only the number of coefficients."""
        return Size(_checks.integer("size", size, at_least=1))

    def receive(self, state: Size, reception: Reception) -> tuple[Estimate, Size]:
        """Recover one round."""
        require_size(state.size, reception)
        require_unit_columns(reception.operator)
        if np.ndim(reception.noise_var):
            rule = "AMP wants the same for all, a number; TSAGA and TurboCS take either"
            raise ValueError(f"noise_var is one number per measurement: {rule}")
        unit = scale.follow(0.0, scale.level(reception.observation)) or 1.0
        heard = scale.apply(reception, unit, "float64")
        given = heard.observation, reception.operator, self._denoiser(state.size, heard)
        found, iterations, status = _iterate(*given, self.max_iterations, self.tolerance)
        info = Info(iterations, status, found.tau)
        return heard.restored(Estimate(found.mean, found.variance, info)), state

    def _denoiser(self, size: int, heard: Scaled) -> Denoiser:
        if self.denoiser == "soft":
            return _SoftThreshold(self.threshold)
        variance = heard.observation.size / size * heard.amplitude_power(self.activity)
        if self.variance is not None:
            variance = float(heard.width(self.variance))
        prior = SpikeSlab(*(np.broadcast_to(v, (size,)) for v in (self.activity, 0.0, variance)))
        return partial(_posterior_mean, prior)


class _SoftThreshold:
    """The soft threshold alpha tau^(1/2) with a given alpha, or with those of least risk.

    These are averaged, the i-th with weight i, so each reception gets a new object.
    """

    def __init__(self, alpha: float | None) -> None:
        self.searching, self._alpha, self._iteration = alpha is None, alpha or 0.0, 0

    def __call__(self, z: Array, tau: float) -> tuple[Array, Array, float]:
        """Return the estimate, its variance by Stein's unbiased risk, and the mean derivative."""
        if self.searching:
            self._iteration += 1
            found = sure_threshold(z, tau) / np.sqrt(tau)
            self._alpha += 2 / (self._iteration + 1) * (found - self._alpha)
        # Nothing is kept at the largest magnitude, as far above it as one likes.
        theta = min(self._alpha * math.sqrt(tau), float(np.abs(z).max()))
        kept = np.abs(z) > theta
        estimate = np.where(kept, z - np.sign(z) * theta, 0.0)
        risk = np.where(kept, tau + theta**2, np.maximum(z**2 - tau, 0.0))
        return estimate, risk, float(kept.mean())


def _posterior_mean(prior: SpikeSlab, z: Array, tau: float) -> tuple[Array, Array, float]:
    """Return posterior mean and variance; the derivative of the mean is variance / tau."""
    mean, variance = posterior(prior, z, np.asarray(tau)).moments()
    return mean, variance, float(variance.mean()) / tau


def sure_threshold(z: Array, tau: float) -> float:
    """Return the theta at which Stein's unbiased estimate of the risk of soft thresholding z is smallest.

    For z = x + N(0, tau I) the mean squared error is estimated, without knowing x, by

    SURE(theta) = mean(min(z^2, theta^2)) + 2 tau mean(1[z^2 > theta^2]) - tau.

    Between two neighbours among the sorted magnitudes of z the last mean is constant and the first one rises:
    every local minimum is at zero or at one of the magnitudes, and a sort and a cumulative sum give them all.
    Many are as good as the best, and rounding decides which one that is. Their mean with the weights
    exp(-N SURE / (8 tau)) is no worse, since the risk has a single valley, and continuous in z.
    """
    theta = np.sort(np.concatenate(([0.0], np.abs(z))))
    larger = np.arange(z.size, -1, -1)  # too many inside a tie, which only makes its last member count
    squares = np.square(theta)
    risk = np.cumsum(squares) + larger * (squares + 2 * tau)
    weight = np.exp((risk.min() - risk) / (TEMPERATURE * tau))
    return float(weight @ theta / weight.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Iterate:
    """An estimate, the noise level tau it was denoised at, and the power of the residual it leaves."""

    mean: Array
    variance: Array
    tau: float
    left: float


def _iterate(
    y: Array, operator: LinearOperator, denoise: Denoiser, max_iterations: int, tolerance: float
) -> tuple[_Iterate, int, str]:
    """Run AMP from zero; return the last iterate if it came to rest, else that with the least residual."""
    rows, size = operator.shape
    patience = PATIENCE if getattr(denoise, "searching", False) else max_iterations
    chance = 1 + 2 * np.sqrt(2 / rows)  # tau is a mean of s squares: two of its standard errors
    residual, power, stalled = y, _power(y), 0
    last = best = _Iterate(np.zeros(size), np.zeros(size), power, power)
    for iteration in range(1, max_iterations + 1):
        estimate, variance, derivative = denoise(last.mean + operator.rmatvec(residual), last.left)
        resting = np.linalg.norm(estimate - last.mean) <= tolerance * float(np.linalg.norm(estimate))
        residual = y - operator.matvec(estimate) + residual * (derivative * size / rows)
        last = _Iterate(estimate, variance, last.left, _power(residual))
        best, stalled = (last, 0) if last.left < best.left else (best, stalled + 1)
        if last.left > DIVERGENCE * best.left:
            return best, iteration, "diverged"
        if resting and last.left <= power:
            return last, iteration, "converged"
        if (resting or stalled >= patience) and last.left <= chance * best.left:
            return best, iteration, "converged"
        if resting:
            return best, iteration, "diverged"
    return best, max_iterations, "iteration limit" if last.left <= chance * power else "diverged"


def _power(residual: Array) -> float:
    return max(float(residual @ residual) / residual.size, np.finfo(float).eps ** 2)


def require_unit_columns(operator: LinearOperator) -> None:
    """Refuse a partial DCT, and what has columns far from unit norm, found by looking at a few of them."""
    if isinstance(operator, GaussianMatrix):
        return
    if isinstance(operator, PartialDCT):
        rule = "AMP wants an IID matrix with unit-norm columns like GaussianMatrix; for this use TurboCS"
        raise _checks.reject("operator", operator, rule)
    units = np.zeros((operator.shape[1], 8))
    units[stream(0, "unit columns").integers(0, operator.shape[1], 8), np.arange(8)] = 1
    norm = float(np.mean(np.square(operator.matmat(units)))) * operator.shape[0]
    if not 0.5 < norm < 2.0:
        rule = f"AMP wants unit-norm columns (the mean square norm is {norm:.3g}); GaussianMatrix has them"
        raise _checks.reject("operator", operator, rule)
