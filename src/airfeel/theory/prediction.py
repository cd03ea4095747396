"""What state evolution predicts."""

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

    @property
    def nmse(self) -> Array:
        """The true error relative to the signal, per round."""
        return self.mse / self.power

    @property
    def nmse_error(self) -> Array:
        """Standard error of :attr:`nmse`."""
        return self.mse_error / self.power

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


def late(values: Array) -> Array:
    """Return the last quarter of the rounds, which stands for steady state.

    >>> late(np.arange(8))
    array([6, 7])
    """
    return values[-max(1, len(values) // 4) :]
