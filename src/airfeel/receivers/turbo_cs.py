"""Turbo-CS: one round at a time, any Bernoulli-Gaussian prior, no memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airfeel import _checks
from airfeel.beliefs.spike_slab import SpikeSlab
from airfeel.ranges import Count, require
from airfeel.receivers import scale
from airfeel.receivers.base import Estimate, Info, Precision, Reception, Size, Tolerance, require_size
from airfeel.receivers.problem import pose
from airfeel.receivers.scale import Scaled
from airfeel.receivers.tsaga import iterate
from airfeel.receivers.turbo import decode

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class TurboCS:
    """Turbo compressed sensing of a single round with the prior (16), or with one prior per coefficient.

    Parameters
    ----------
    activity, mean, variance
        P(s = 1), and mean and variance of the amplitude: numbers, or arrays with one value per coefficient.
        Without ``variance`` it is estimated from each reception.
    max_iterations, tolerance, precision
        As for :class:`~airfeel.TSAGA`.
    """

    activity: float | Array
    mean: float | Array = 0.0
    variance: float | Array | None = None
    max_iterations: Count = 25
    tolerance: Tolerance = 5e-3
    precision: Precision | None = None

    def __post_init__(self) -> None:
        """Refuse priors that are none."""
        rule = "must be a probability, 0 <= activity <= 1"
        _require("activity", self.activity, lambda a: (a >= 0) & (a <= 1), rule)
        _require("mean", self.mean, np.isfinite, "must be finite")
        if self.variance is not None:
            rule = "must be finite and >= 0"
            _require("variance", self.variance, lambda v: np.isfinite(v) & (v >= 0), rule)
        elif not np.mean(self.activity) > 0:
            raise _checks.reject("activity", self.activity, "must be > 0 somewhere, or variance be given")
        require(self)

    def init(self, size: int) -> Size:
        """Return the state, which is only the number of coefficients."""
        return Size(_checks.integer("size", size, at_least=1))

    def receive(self, state: Size, reception: Reception) -> tuple[Estimate, Size]:
        """Recover one round."""
        require_size(state.size, reception)
        loudness = scale.level(reception.observation)
        if loudness == 0 and self.variance is not None:
            loudness = scale.level(np.sqrt(np.atleast_1d(self.variance)))
        heard = scale.apply(reception, scale.follow(0.0, loudness) or 1.0, self.precision)
        problem, prior = pose(reception.operator, heard), self._prior(state.size, heard)
        found = decode(iterate, prior, problem, limit=self.max_iterations, tolerance=self.tolerance)
        info = Info(found.iterations, found.status, float(found.tau.mean()))
        return heard.restored(Estimate(*found.post.moments(), info)), state

    def _prior(self, size: int, heard: Scaled) -> SpikeSlab:
        if self.variance is None:
            variance = np.asarray(heard.amplitude_power(float(np.mean(self.activity))))
        else:
            variance = heard.width(self.variance)
        dtype = heard.observation.dtype
        return SpikeSlab(
            _fill("activity", self.activity, size, dtype),
            _fill("mean", heard.centre(self.mean), size, dtype),
            _fill("variance", variance, size, dtype),
        )


def _fill(name: str, value: ArrayLike, size: int, dtype: Any) -> Array:
    array = np.asarray(value, dtype=dtype)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} has shape {array.shape}: must be a number or a vector of length {size}")
    return np.broadcast_to(array, (size,))


def _require(name: str, value: Any, holds: Any, rule: str) -> None:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or not np.all(holds(array)):
        raise _checks.reject(name, value, rule)
