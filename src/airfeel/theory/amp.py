"""State evolution of AMP (Donoho, Maleki and Montanari, PNAS 2009): memoryless, so quadrature is enough."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammainc, ndtr

from airfeel import _checks
from airfeel.beliefs.chains import ChainParams
from airfeel.ranges import GREATEST
from airfeel.theory.scalar import Prediction, first_round_mmse, require_ranges

EXACT = 1e-30  # an error of this share is none
LEVELS = np.linspace(0.0, 12.0, 1201)  # tried as thresholds: nothing is left beyond, and minima are flat


def amp_evolution(
    chain: ChainParams,
    ratio: float = 0.1,
    noise_var: float = 5e-4,
    rounds: int = 1,
    *,
    denoiser: str = "soft",
    threshold: float | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-6,
) -> Prediction:
    """Predict the error of AMP for a Gaussian matrix with unit-norm columns.

    tau_i+1 = sigma^2 + (N/s) mse(tau_i) from tau_0 = sigma^2 + (N/s) Var[x].

    For the soft threshold mse(tau) = min over theta of E[(eta(x + N(0, tau); theta) - x)^2]: Stein's unbiased
    risk, which the receiver minimises, is this error for large N. As theta = infinity has the error Var[x],
    tau never rises.

    Parameters
    ----------
    chain
        Of the signal; only its activity and variance count, as AMP has no memory.
    ratio, noise_var
        s/N, and sigma^2 of y = A x + n with unit-norm columns.
    rounds
        Every round has the same error.
    denoiser, threshold
        As in :class:`airfeel.AMP`.
    max_iterations, tolerance
        Stop when tau moves by less than this share of itself.
    """
    require_ranges(chain, ratio)
    noise_var = _checks.real("noise_var", noise_var, at_least=0, at_most=GREATEST)
    rounds = _checks.integer("rounds", rounds, at_least=1)
    risk = _risk(chain, _checks.choice("denoiser", denoiser, ("soft", "mmse")), threshold)
    power = chain.activity * chain.variance
    v, course = power, []
    for _ in range(_checks.integer("max_iterations", max_iterations, at_least=1)):
        tau = noise_var + v / ratio
        course.append((tau, v))
        v = max(risk(tau), EXACT * power)
        if abs(v - course[-1][1]) <= tolerance * v or v > power:
            break
    v = min(v, power)  # what is worse than zero, the receiver answers with zero
    tau_course, v_course = (np.tile(column, (rounds, 1)) for column in np.transpose(course))
    error = np.full(rounds, v)
    return Prediction(
        power=power,
        tau=tau_course,
        v=v_course,
        actual_tau=tau_course,
        actual_v=v_course,
        variance=error,
        mse=error,
        mse_error=np.zeros(rounds),
        iterations=np.full(rounds, len(course)),
    )


def _risk(chain: ChainParams, denoiser: str, threshold: float | None) -> Callable[[float], float]:
    """Return the mean squared error of the denoiser as a function of tau."""
    if denoiser == "mmse":
        return lambda tau: first_round_mmse(chain, tau)

    def soft(tau: float, level: Any) -> Any:
        active = soft_threshold_risk(chain.variance, tau, level)
        return chain.activity * active + (1 - chain.activity) * soft_threshold_risk(0.0, tau, level)

    if threshold is None:
        return lambda tau: float(soft(tau, LEVELS).min())
    level = _checks.real("threshold", threshold, above=0)
    return lambda tau: float(soft(tau, level))


def soft_threshold_risk(variance: float, tau: float, threshold: Any) -> Any:
    """Return the mean squared error of soft thresholding z = x + N(0, tau), x ~ N(0, variance).

    By Stein's identity it is E[min(z^2, theta^2)] + 2 tau P(|z| > theta) - tau with theta = threshold
    tau^(1/2), a number or an array. Both expectations are those of a Gaussian of variance + tau, in a form
    without differences of large numbers.
    """
    theta = threshold * np.sqrt(tau)
    a = theta / np.sqrt(variance + tau)
    inside, outside = gammainc(1.5, a * a / 2), 2 * ndtr(-a)  # E[z^2, |z| <= theta] / E[z^2], P(|z| > theta)
    edge = 2 * a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi)  # 1 - inside - outside
    return variance * inside + (theta**2 + tau) * outside - tau * edge
