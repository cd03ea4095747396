"""What state evolution predicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.units import decibel

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The predicted course of recovery over some rounds; all variances are per coefficient.

    Parameters
    ----------
    power
        E[x^2], the reference of every NMSE.
    tau, v
        What the receiver believes in round t and iteration i, shape (rounds, iterations): the variance of
        the pseudo-observation (48) and of the extrinsic message (49). The last column holds the fixed points.
    actual_tau, actual_v
        The mean squared errors of the same two messages. Equal to ``tau`` and ``v`` as far as the receiver's
        messages are exact, and by definition in the paper's recursion.
    variance
        V, the receiver's own mean posterior variance at the fixed point, shape (rounds,).
    mse, mse_error
        The true mean squared error of the estimate and its standard error, shape (rounds,).
    iterations
        Turbo iterations until the fixed point, shape (rounds,).
    level
        Energy of what was sent over that of the chain, per round; 1 where every device is heard.
    """

    power: float
    tau: Array
    v: Array
    actual_tau: Array
    actual_v: Array
    variance: Array
    mse: Array
    mse_error: Array
    iterations: Array
    level: Array | float = 1.0

    @property
    def nmse(self) -> Array:
        """The true error relative to the signal, per round."""
        return self.mse / (self.power * self.level)

    @property
    def nmse_error(self) -> Array:
        """Standard error of :attr:`nmse`."""
        return self.mse_error / (self.power * self.level)

    @property
    def nmse_db(self) -> Array:
        """:attr:`nmse` in decibel."""
        return decibel(self.nmse)

    @property
    def tau_fixed(self) -> Array:
        """The fixed points tau*_t of the rounds."""
        return np.asarray(self.tau[:, -1])

    @property
    def v_fixed(self) -> Array:
        """The fixed points v*_t of the rounds."""
        return np.asarray(self.v[:, -1])

    @property
    def steady_nmse(self) -> float:
        """Mean NMSE over the last quarter of the rounds."""
        return float(np.mean(late(self.nmse)))


def averaged(found: Sequence[Prediction]) -> Prediction:
    """Return the mean of predictions that were made independently; short courses end at their fixed points.

    Errors are taken relative to what each of them sent, so that their mean is that of the NMSE.
    """
    longest = max(one.tau.shape[1] for one in found)

    def mean(name: str) -> Array:
        courses = [getattr(one, name) for one in found]
        padded = [np.pad(c, ((0, 0), (0, longest - c.shape[1])), mode="edge") for c in courses]
        return np.asarray(np.mean(padded, axis=0))

    power = found[0].power
    errors = np.mean([one.nmse_error**2 for one in found], axis=0) / len(found)
    return Prediction(
        power=power,
        tau=mean("tau"),
        v=mean("v"),
        actual_tau=mean("actual_tau"),
        actual_v=mean("actual_v"),
        variance=np.mean([one.variance / one.level for one in found], axis=0),
        mse=np.mean([one.nmse for one in found], axis=0) * power,
        mse_error=np.sqrt(errors) * power,
        iterations=np.max([one.iterations for one in found], axis=0),
    )


def late(values: Array) -> Array:
    """Return the last quarter of the rounds, which stands for steady state.

    >>> late(np.arange(8))
    array([6, 7])
    """
    return values[-max(1, len(values) // 4) :]
