"""The Bernoulli-Gaussian belief lam N(mean, variance) + (1 - lam) delta_0 about one coefficient."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TILE = 1 << 14  # coefficients worked on at once: all temporaries of a tile stay in the second-level cache


@dataclass(frozen=True, slots=True, eq=False)
class SpikeSlab:
    """Support probability lam_n, amplitude mean mu_n and amplitude variance v_n of every coefficient (43)."""

    support: Array
    mean: Array
    variance: Array

    def moments(self) -> tuple[Array, Array]:
        """Return mean and variance of every x_n."""
        first = self.support * self.mean
        return first, self.support * (self.variance + self.mean**2) - first**2


@dataclass(frozen=True, slots=True, eq=False)
class Active:
    """Posterior of one coefficient split by its support: P(s = 1), and the amplitude given s = 1."""

    support: Array
    mean: Array
    variance: Array

    def moments(self) -> tuple[Array, Array]:
        """Return posterior mean and variance of x_n (28)(29)."""
        mean = self.support * self.mean
        return mean, self.support * self.variance + mean * (self.mean - mean)


def log_odds(probability: Array) -> Array:
    """Return log(p / (1 - p)), infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.log(probability / (1 - probability))


def sigmoid(odds: Array) -> Array:
    """Return the probability of which ``odds`` are the log-odds; works in place and returns its argument."""
    with np.errstate(over="ignore"):
        np.negative(odds, out=odds)
        np.exp(odds, out=odds)
    odds += 1
    return np.divide(1, odds, out=odds)
