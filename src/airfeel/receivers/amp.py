"""Approximate message passing, the receiver of A-DSGD (Donoho, Maleki and Montanari, PNAS 2009)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from airfeel import _checks
from airfeel.beliefs.soft_threshold import minimax_threshold
from airfeel.beliefs.spike_slab import SpikeSlab, posterior
from airfeel.operators import GaussianMatrix, PartialDCT
from airfeel.receivers import scale
from airfeel.receivers.base import Estimate, Info, Reception, Size, require_size
from airfeel.receivers.scale import Scaled
from airfeel.streams import stream

Array = NDArray[Any]

DENOISERS = ("soft", "mmse")
DIVERGENCE = 4.0  # the iteration is given up when the residual's power grows to this multiple of its smallest


@dataclass(frozen=True, slots=True)
class AMP:
    """AMP for an IID matrix with unit-norm columns, one round at a time.

    Parameters
    ----------
    activity
        Expected share of non-zero coefficients (k/N); used by the MMSE denoiser.
    denoiser
        ``"soft"``: soft threshold theta = alpha tau^(1/2), with ``tau = |residual|^2 / s``, as in A-DSGD.
        ``"mmse"``: posterior mean under the Bernoulli-Gaussian prior (16), which knows as much as
        memoryless Turbo-CS.
    threshold
        alpha; by default the minimax choice for the given s/N, see :func:`minimax_threshold`.
    variance
        gamma of the MMSE denoiser's prior; estimated from each reception when not given.
    max_iterations, tolerance
        Stop after so many iterations, or when the estimate moves less than this share of its norm.

    Notes
    -----
    x <- eta(x + A^T z; tau),   z <- y - A x + (N/s) mean(eta') z.

    The last summand, the Onsager term, is what makes x + A^T z look like the signal in white noise of
    variance ``tau = |z|^2 / s``. As tau = noise_var + (N/s) MSE, an iterate with tau above ``|y|^2 / s`` is
    worse than the estimate zero. If the iteration ends there or grows away from its best iterate, that one
    is returned (zero, if nothing was better) and ``info.status`` is ``"diverged"``.
    """

    activity: float
    denoiser: str = "soft"
    threshold: float | None = None
    variance: float | None = None
    max_iterations: int = 40
    tolerance: float = 1e-2

    def __post_init__(self) -> None:
        """Refuse parameters outside their range."""
        _checks.real("activity", self.activity, above=0, below=1)
        _checks.choice("denoiser", self.denoiser, DENOISERS)
        if self.threshold is not None:
            _checks.real("threshold", self.threshold, above=0)
        if self.variance is not None:
            _checks.real("variance", self.variance, above=0)
        _checks.integer("max_iterations", self.max_iterations, at_least=1)
        _checks.real("tolerance", self.tolerance, at_least=0)

    def init(self, size: int) -> Size:
        """Return the state, which is only the number of coefficients."""
        return Size(_checks.integer("size", size, at_least=1))

    def receive(self, state: Size, reception: Reception) -> tuple[Estimate, Size]:
        """Recover one round."""
        require_size(state.size, reception)
        require_unit_columns(reception.operator)
        if np.ndim(reception.noise_var):
            raise ValueError("noise_var is one number per measurement: AMP wants the same for all, a number")
        loudness = scale.level(reception.observation)
        unit = scale.power_of_two(loudness) if loudness > 0 else 1.0
        heard = scale.apply(reception, unit, np.float64)
        denoise = self._denoiser(state.size, heard)
        found, iterations, status = _iterate(
            heard.observation, reception.operator, denoise, self.max_iterations, self.tolerance
        )
        mean, variance = scale.restore(found.mean, found.variance, unit, reception.observation.dtype)
        return Estimate(
            mean, variance, Info(iterations, status, scale.restore_variance(found.tau, unit))
        ), state

    def _denoiser(self, size: int, heard: Scaled) -> "_Soft | _Mmse":
        ratio = heard.observation.size / size
        if self.denoiser == "soft":
            return _Soft(minimax_threshold(ratio) if self.threshold is None else self.threshold)
        variance = ratio * heard.amplitude_power(self.activity)
        if self.variance is not None:
            variance = float(scale.prior_width(self.variance, heard.scale))
        return _Mmse(self.activity, variance)


@dataclass(frozen=True, slots=True)
class _Soft:
    threshold: float

    def __call__(self, z: Array, tau: float) -> tuple[Array, Array, float]:
        """Return the estimate, its variance by Stein's unbiased risk, and the mean derivative."""
        theta = self.threshold * np.sqrt(tau)
        kept = np.abs(z) > theta
        estimate = np.where(kept, z - np.sign(z) * theta, 0.0)
        risk = np.where(kept, tau + theta**2, np.maximum(z**2 - tau, 0.0))
        return estimate, risk, float(kept.mean())


@dataclass(frozen=True, slots=True)
class _Mmse:
    activity: float
    variance: float

    def __call__(self, z: Array, tau: float) -> tuple[Array, Array, float]:
        """Return posterior mean and variance; the derivative of the mean is variance / tau."""
        prior = SpikeSlab(*(np.broadcast_to(v, z.shape) for v in (self.activity, 0.0, self.variance)))
        mean, variance = posterior(prior, z, np.asarray(tau)).moments()
        return mean, variance, float(variance.mean()) / tau


@dataclass(frozen=True, slots=True, eq=False)
class _Iterate:
    """An estimate, the noise level tau it was denoised at, and the power of the residual it leaves."""

    mean: Array
    variance: Array
    tau: float
    left: float


def _iterate(
    y: Array, operator: LinearOperator, denoise: _Soft | _Mmse, max_iterations: int, tolerance: float
) -> tuple[_Iterate, int, str]:
    """Run AMP from zero; return the last iterate if it settled, else the one with the smallest residual."""
    rows, size = operator.shape
    residual, power = y, _power(y)
    last = best = _Iterate(np.zeros(size), np.zeros(size), power, power)
    for iteration in range(1, max_iterations + 1):
        estimate, variance, derivative = denoise(last.mean + operator.rmatvec(residual), last.left)
        moved = float(np.linalg.norm(estimate - last.mean))
        residual = y - operator.matvec(estimate) + residual * (derivative * size / rows)
        last = _Iterate(estimate, variance, last.left, _power(residual))
        if last.left < best.left:
            best = last
        if last.left > DIVERGENCE * best.left:
            return best, iteration, "diverged"
        if moved <= tolerance * float(np.linalg.norm(estimate)):
            settled = last.left <= power
            return (last, iteration, "converged") if settled else (best, iteration, "diverged")
    return best, max_iterations, "iteration limit" if best.left < power else "diverged"


def _power(residual: Array) -> float:
    return max(float(residual @ residual) / residual.size, np.finfo(float).eps ** 2)


def require_unit_columns(operator: LinearOperator) -> None:
    """Refuse a partial DCT, and what has columns far from unit norm, found by looking at a few of them."""
    if isinstance(operator, GaussianMatrix):
        return
    if isinstance(operator, PartialDCT):
        rule = (
            "AMP wants an IID matrix with unit-norm columns like GaussianMatrix; for PartialDCT use TurboCS"
        )
        raise _checks.reject("operator", operator, rule)
    units = np.zeros((operator.shape[1], 8))
    units[stream(0, "unit columns").integers(0, operator.shape[1], 8), np.arange(8)] = 1
    norm = float(np.mean(np.square(operator.matmat(units)))) * operator.shape[0]
    if not 0.5 < norm < 2.0:
        rule = f"AMP wants unit-norm columns (the mean square norm is {norm:.3g}); GaussianMatrix has them"
        raise _checks.reject("operator", operator, rule)
