"""Turbo-CS: one round at a time, any Bernoulli-Gaussian prior, no memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airfeel import _checks
from airfeel.beliefs.spike_slab import SpikeSlab, log_odds, posterior
from airfeel.receivers import scale
from airfeel.receivers.base import Estimate, Info, Reception, Size, require_size, working_dtype
from airfeel.receivers.batch import Summary, decode_batch, in_groups
from airfeel.receivers.scale import Scaled

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
    max_iterations: int = 25
    tolerance: float = 1e-2
    precision: str | None = None

    def __post_init__(self) -> None:
        """Refuse priors that are none."""
        _require(
            "activity",
            self.activity,
            lambda a: (a >= 0) & (a <= 1),
            "must be a probability, 0 <= activity <= 1",
        )
        _require("mean", self.mean, np.isfinite, "must be finite")
        if self.variance is not None:
            rule = "must be finite and >= 0"
            _require("variance", self.variance, lambda v: np.isfinite(v) & (v >= 0), rule)
        elif not np.mean(self.activity) > 0:
            raise _checks.reject("activity", self.activity, "must be > 0 somewhere, or variance be given")
        _checks.integer("max_iterations", self.max_iterations, at_least=1)
        _checks.real("tolerance", self.tolerance, at_least=0)
        if self.precision is not None:
            _checks.choice("precision", self.precision, ("float32", "float64"))

    def init(self, size: int) -> Size:
        """Return the state, which is only the number of coefficients."""
        return Size(_checks.integer("size", size, at_least=1))

    def receive(self, state: Size, reception: Reception) -> tuple[Estimate, Size]:
        """Recover one round."""
        return self._receive([state], [reception])[0]

    def receive_batch(
        self, states: Sequence[Size], receptions: Sequence[Reception]
    ) -> list[tuple[Estimate, Size]]:
        """Recover many independent receptions of one size, as :meth:`TSAGA.receive_batch` does."""
        return in_groups(self._receive, states, receptions)

    def _receive(
        self, states: Sequence[Size], receptions: Sequence[Reception]
    ) -> list[tuple[Estimate, Size]]:
        heard = [self._hear(s, r) for s, r in zip(states, receptions, strict=True)]
        priors = [self._prior(state.size, h) for state, h in zip(states, heard, strict=True)]
        summaries = decode_batch(
            priors,
            [r.operator for r in receptions],
            [h.observation for h in heard],
            [h.noise_var for h in heard],
            [(float(p.support.mean()), float(p.variance.max())) for p in priors],
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
        )
        return [
            (_estimate(prior, h, reception, summary), state)
            for prior, h, reception, summary, state in zip(
                priors, heard, receptions, summaries, states, strict=True
            )
        ]

    def _hear(self, state: Size, reception: Reception) -> Scaled:
        require_size(state.size, reception)
        loudness = scale.level(reception.observation)
        if loudness == 0 and self.variance is not None:
            loudness = float(np.sqrt(np.mean(self.variance)))
        unit = scale.power_of_two(loudness) if loudness > 0 else 1.0
        return scale.apply(reception, unit, working_dtype(self.precision, reception))

    def _prior(self, size: int, heard: Scaled) -> SpikeSlab:
        if self.variance is None:
            variance = np.asarray(heard.amplitude_power(float(np.mean(self.activity))))
        else:
            variance = scale.prior_width(self.variance, heard.scale)
        dtype = heard.observation.dtype
        return SpikeSlab(
            _fill("activity", self.activity, size, dtype),
            _fill("mean", scale.prior_centre(self.mean, heard.scale), size, dtype),
            _fill("variance", variance, size, dtype),
        )


def _estimate(prior: SpikeSlab, heard: Scaled, reception: Reception, summary: Summary) -> Estimate:
    if summary.surprise.any():
        prior = prior.doubted(summary.surprise, float(prior.support.mean()), float(prior.variance.max()))
    post, _ = posterior(prior, log_odds(prior.support), summary.z, summary.tau)
    mean, variance = scale.restore(*post.moments(), heard.scale, reception.observation.dtype)
    tau = scale.restore_variance(float(np.mean(summary.tau)), heard.scale)
    surprised = bool(summary.surprise.any())
    return Estimate(mean, variance, Info(summary.iterations, summary.status, tau, surprised=surprised))


def _fill(name: str, value: ArrayLike, size: int, dtype: Any) -> Array:
    array = np.asarray(value, dtype=dtype)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} has shape {array.shape}: must be a number or a vector of length {size}")
    return np.broadcast_to(array, (size,))


def _require(name: str, value: Any, holds: Any, rule: str) -> None:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or not np.all(holds(array)):
        raise _checks.reject(name, value, rule)
