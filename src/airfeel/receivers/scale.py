"""Work near one: divide a reception by a power of two near its level, so that no square leaves the range.

The equations are exactly scale-equivariant, floating point is not.
"""

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from airfeel.arrays import Array as Array
from airfeel.receivers.base import Estimate, Reception

DRIFT = 2.0**8  # a change of level by less than this keeps the scale
BREAK = 2.0**20  # a change by more than this (120 dB) has nothing to do with the rounds before
MODEST = 1e9  # between its inverse and itself, no square of a scale leaves even single precision
TINY = 1e-30  # stands for a power of zero
WIDEST = 1e12  # a prior this much wider than the received power says nothing; more would only overflow
LOUDEST = 1e24  # noise this far above the signal drowns everything; more would only overflow


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A reception in units of ``scale``; ``user_dtype`` is the precision of the user's own."""

    scale: float
    observation: Array
    noise_var: float | Array
    user_dtype: Any = np.float64

    def amplitude_power(self, activity: float) -> float:
        """Return gamma for a signal of which a share ``activity`` is not zero (Section VII).

        It comes from the power received above the noise, at least what that power's standard error can hide.
        Unequal measurements are averaged with weights 1 / (signal + noise)^2, those of least error; as the
        signal is what is sought, it is found again and again with the weights it gives.
        """
        square, noise = np.square(self.observation, dtype=np.float64), np.asarray(self.noise_var, float)
        power, level = float(np.mean(square)), float(np.mean(noise))
        if noise.ndim:
            signal = max(power, TINY)
            for _ in range(20):
                weight = (signal / (signal + noise)) ** 2
                power, level = map(float, np.average([square, noise], axis=1, weights=weight))
                signal = max(power - level, signal / 2, TINY)
        above = max(power - level, power * math.sqrt(2 / self.observation.size), TINY)
        return min(above / max(activity, TINY), WIDEST)

    def width(self, variance: Any) -> Any:
        """Return a prior's variance, given in the user's units, in units of ``scale``."""
        with np.errstate(over="ignore"):
            root = np.sqrt(variance) / self.scale
        return np.square(np.minimum(root, math.sqrt(WIDEST)))

    def centre(self, mean: Any) -> Any:
        """Return a prior's mean, given in the user's units, in units of ``scale``."""
        with np.errstate(over="ignore"):
            return np.clip(np.asarray(mean) / self.scale, -MODEST, MODEST)

    def restored(self, found: Estimate) -> Estimate:
        """Return an estimate in the user's units; what overflows there becomes the largest number."""
        scale, dtype, info = self.scale, self.user_dtype, found.info
        assert found.variance is not None and info is not None
        if 1 / MODEST < scale < MODEST:
            mean = found.mean.astype(dtype, copy=False) * scale
            variance = found.variance.astype(dtype, copy=False) * scale**2
        else:
            limit = np.finfo(dtype).max
            with np.errstate(over="ignore", under="ignore"):
                mean = np.clip(np.multiply(found.mean, scale, dtype=np.float64), -limit, limit)
                variance = np.multiply(found.variance, scale, dtype=np.float64) * scale
            mean, variance = mean.astype(dtype), np.minimum(variance, limit).astype(dtype)
        chain = info.chain and replace(info.chain, variance=self._square(info.chain.variance))
        return Estimate(mean, variance, replace(info, tau=self._square(info.tau), chain=chain))

    def _square(self, variance: float) -> float:
        """Return one positive variance in the user's units, kept inside the floating-point range."""
        root = math.sqrt(variance) * self.scale
        square = root * root if root < 1e154 else sys.float_info.max
        return max(square, sys.float_info.min)


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


def follow(scale: float, new_level: float) -> float:
    """Return the scale for a reception of this level: the old one while it fits, else a power of two."""
    if new_level == 0 or scale / DRIFT <= new_level <= scale * DRIFT:
        return scale
    return 2.0 ** min(max(round(math.log2(new_level)), -1022), 1023)


def apply(reception: Reception, scale: float, precision: str | None) -> Scaled:
    """Divide a reception by ``scale``, in the precision asked for or else the observation's."""
    user_dtype = reception.observation.dtype
    # A scale that single precision cannot hold belongs to numbers that it can.
    wide = None if 1 / MODEST < scale < MODEST else np.float64
    y = np.divide(reception.observation, scale, dtype=wide).astype(precision or user_dtype, copy=False)
    with np.errstate(over="ignore"):
        noise_var = np.minimum(np.square(np.sqrt(reception.noise_var) / scale), LOUDEST)
    return Scaled(scale, y, noise_var, user_dtype)
