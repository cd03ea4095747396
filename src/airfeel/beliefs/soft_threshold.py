"""The soft threshold for sparse signals of unknown distribution: its risk, and its minimax level."""

from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from airfeel import _checks


def soft_threshold_risk(variance: float, tau: float, threshold: float) -> float:
    """Return the mean squared error of soft thresholding z = x + N(0, tau), x ~ N(0, variance).

    By Stein's identity it is E[min(z^2, theta^2)] + 2 tau P(|z| > theta) - tau with theta = threshold
    tau^(1/2); both expectations are those of a Gaussian of variance + tau.
    """
    total, theta = variance + tau, threshold * np.sqrt(tau)
    a = theta / np.sqrt(total)
    outside = 2 * ndtr(-a)
    inside = 1 - outside - 2 * a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    return float(total * inside + theta**2 * outside + 2 * tau * outside - tau)


@lru_cache(maxsize=256)
def minimax_threshold(ratio: float) -> float:
    """Return the threshold, in units of the noise level, for which the densest signals are recovered.

    ``ratio`` is s/N.

    It maximises the sparsity rho at which soft-threshold AMP still succeeds without noise (Donoho, Maleki and
    Montanari 2009, the formula for their phase transition): with G = (1 + a^2) Phi(-a) - a phi(a),
    rho(a) = (1 - 2 G / ratio) / (1 + a^2 - 2 G).
    """
    ratio = _checks.real("ratio", ratio, above=0, at_most=1)

    def negative_rho(a: float) -> float:
        g = (1 + a * a) * ndtr(-a) - a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
        return float(-(1 - 2 * g / ratio) / (1 + a * a - 2 * g))

    return float(minimize_scalar(negative_rho, bounds=(1e-3, 8.0), method="bounded").x)
