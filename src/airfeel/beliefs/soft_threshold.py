"""The soft threshold for sparse signals of unknown distribution: its risk, and the best level."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, ndtr

Array = NDArray[Any]

TEMPERATURE = 8.0  # differences of N SURE / tau below this are chance: one coefficient more or less makes two


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
