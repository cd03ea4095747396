"""Work near one: divide a reception by a power of two near its level, so that no square leaves the range.

The equations are exactly scale-equivariant, floating point is not.
"""

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.receivers.base import Reception

Array = NDArray[Any]

DRIFT = 2.0**8  # a change of level by less than this keeps the scale
BREAK = 2.0**20  # a change by more than this (120 dB) has nothing to do with the rounds before
MODEST = 1e9  # between its inverse and itself, no square of a scale leaves even single precision
TINY = 1e-30  # stands for a power of zero
WIDEST = 1e12  # a prior this much wider than the received power says nothing; more would only overflow
LOUDEST = 1e24  # noise this far above the signal drowns everything; more would only overflow


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A reception in units of ``scale``."""

    scale: float
    observation: Array
    noise_var: float | Array

    def amplitude_power(self, activity: float) -> float:
        """Return gamma for a signal of which a share ``activity`` is not zero (Section VII)."""
        return min(self.signal_power / max(activity, TINY), WIDEST)

    @property
    def power(self) -> float:
        """The mean square of the observation."""
        return float(np.mean(np.square(self.observation, dtype=np.float64)))

    @property
    def signal_power(self) -> float:
        """The power received above the noise, at least what the received power's standard error can hide."""
        if np.ndim(self.noise_var) == 0:
            power, noise_var = self.power, float(self.noise_var)
        else:
            power, noise_var = self._where_it_is_quiet()
        return max(power - noise_var, power * math.sqrt(2 / self.observation.size), TINY)

    def _where_it_is_quiet(self) -> tuple[float, float]:
        """Return received power and noise averaged with weights 1 / (signal + noise)^2, those of least error.

        The signal's power is what is sought: it is found again and again with the weights it gives.
        """
        square, noise_var = np.square(self.observation, dtype=np.float64), np.asarray(self.noise_var, float)
        power, noise, signal = 0.0, 0.0, max(self.power, TINY)
        for _ in range(20):
            weight = (signal / (signal + noise_var)) ** 2
            power, noise = np.average([square, noise_var], axis=1, weights=weight)
            signal = max(power - noise, signal / 2, TINY)
        return float(power), float(noise)


def level(observation: Array) -> float:
    """Return the root mean square, without overflow or underflow on the way."""
    with np.errstate(over="ignore"):
        power = float(np.square(observation, dtype=np.float64).sum()) / observation.size
    if 1e-280 < power < 1e280:
        return math.sqrt(power)
    peak = float(np.abs(observation).max())
    if peak == 0:
        return 0.0
    with np.errstate(over="ignore"):  # which older NumPy reports for the smallest numbers
        relative = observation / peak
    return peak * float(np.sqrt(np.mean(np.square(relative, dtype=np.float64))))


def power_of_two(value: float) -> float:
    """Return the power of two nearest to a positive value on a logarithmic axis."""
    return 2.0 ** min(max(round(math.log2(value)), -1022), 1023)


def follow(scale: float, new_level: float) -> float:
    """Return the scale for a reception of this level: the old one while it still fits."""
    if new_level == 0 or scale / DRIFT <= new_level <= scale * DRIFT:
        return scale
    return power_of_two(new_level)


def apply(reception: Reception, scale: float, dtype: Any) -> Scaled:
    """Divide a reception by ``scale``."""
    # A scale that single precision cannot hold belongs to numbers that it can.
    wide = None if 1 / MODEST < scale < MODEST else np.float64
    y = np.divide(reception.observation, scale, dtype=wide).astype(dtype, copy=False)
    with np.errstate(over="ignore"):
        noise_var = np.minimum(np.square(np.sqrt(reception.noise_var) / scale), LOUDEST)
    return Scaled(scale, y, noise_var)


def prior_width(variance: Any, scale: float) -> Any:
    """Return a prior's variance, given in the user's units, in units of ``scale``."""
    with np.errstate(over="ignore"):
        root = np.sqrt(variance) / scale
    return np.square(np.minimum(root, math.sqrt(WIDEST)))


def prior_centre(mean: Any, scale: float) -> Any:
    """Return a prior's mean, given in the user's units, in units of ``scale``."""
    with np.errstate(over="ignore"):
        return np.clip(np.asarray(mean) / scale, -MODEST, MODEST)


def restore(mean: Array, variance: Array, scale: float, dtype: Any) -> tuple[Array, Array]:
    """Return mean and variance in the user's units; what overflows there becomes the largest number."""
    if 1 / MODEST < scale < MODEST:
        return mean.astype(dtype, copy=False) * scale, variance.astype(dtype, copy=False) * scale**2
    limit = np.finfo(dtype).max
    with np.errstate(over="ignore", under="ignore"):
        mean = np.multiply(mean, scale, dtype=np.float64)
        variance = np.multiply(variance, scale, dtype=np.float64) * scale
    return np.clip(mean, -limit, limit).astype(dtype), np.minimum(variance, limit).astype(dtype)


def restore_variance(variance: float, scale: float) -> float:
    """Return one positive variance in the user's units, kept inside the floating-point range."""
    root = math.sqrt(variance) * scale
    square = root * root if root < 1e154 else sys.float_info.max
    return max(square, sys.float_info.min)
