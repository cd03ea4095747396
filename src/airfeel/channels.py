"""Multiple-access channels: what becomes of the devices' signals in the air (6).

A channel is a frozen set of parameters behind one protocol of two steps. ``link`` draws a round's state of
the air: who may send, at what cost, and how strongly each signal arrives. ``receive`` adds the signals and
the noise. Power control sits between the two, because it needs the cost and decides the signals.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.streams import stream

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One round's state of the channel, one entry for each device.

    ``active``: the device can send. ``cost``: energy it must spend for each unit of signal energy, which is
    ``1/|h^|^2`` when it inverts the gain h^ it knows. ``gain``: the real factor at which the inverted signal
    arrives, 1 when the device knew its gain exactly.
    """

    active: Mask
    cost: Array
    gain: Array


class Channel(Protocol):
    """What a user writes to send through other air; about 20 lines, see ``examples/own_channel.py``.

    Both methods take all randomness from :func:`airfeel.streams.stream` with (seed, round), so that every
    scheme meets the same air.
    """

    @property
    def noise_var(self) -> float:
        """sigma_e^2, the variance of the receiver noise in one (real) channel use."""
        ...

    def link(self, num_devices: int, seed: int, round: int) -> Link:
        """Return the state of the channel in a round."""
        ...

    def receive(self, link: Link, signals: Array, seed: int, round: int) -> Array:
        """Return what the server hears, y~, when devices send ``signals`` (M, s); silent rows are zero."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianMAC:
    """Additive white Gaussian noise (6): y~ = sum_m signal_m + N(0, noise_var I)."""

    noise_var: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a negative variance."""
        _checks.real("noise_var", self.noise_var, at_least=0)

    def link(self, num_devices: int, seed: int, round: int) -> Link:
        """Return unit gains: everybody can send at cost one."""
        one = np.ones(num_devices)
        return Link(np.ones(num_devices, dtype=np.bool_), one, one)

    def receive(self, link: Link, signals: Array, seed: int, round: int) -> Array:
        """Return the sum plus noise."""
        return superpose(link, signals, self.noise_var, seed, round)


@dataclass(frozen=True, slots=True)
class FadingMAC:
    """Independent flat fading per device and round, with truncated channel inversion.

    The gain h is complex with unit mean power. A device knows ``h^ = h + e`` and sends its signal divided by
    h^ if ``|h^| >= threshold``, else nothing. The data is real and in phase, so the server keeps the real
    part: the signal of a device arrives times ``Re(e^{j phi} h / h^)``.

    Parameters
    ----------
    noise_var
        sigma_e^2 of the real part.
    threshold
        h_min: a device whose gain seems weaker stays silent in this round.
    rician
        Power of the line of sight over the scattered power; 0 is Rayleigh fading.
    csi_error
        Mean power of the error e in what a device knows of its gain.
    phase_error
        Standard deviation of the residual phase phi, in radians.
    """

    noise_var: float = 1.0
    threshold: float = 0.3
    rician: float = 0.0
    csi_error: float = 0.0
    phase_error: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative values, and a threshold of zero: inverting a gain near zero costs without bound."""
        _checks.real("noise_var", self.noise_var, at_least=0)
        _checks.real("threshold", self.threshold, above=0)
        _checks.real("rician", self.rician, at_least=0)
        _checks.real("csi_error", self.csi_error, at_least=0)
        _checks.real("phase_error", self.phase_error, at_least=0)

    def gains(self, num_devices: int, seed: int, round: int) -> NDArray[np.complex128]:
        """Return the true complex gains h_m of a round."""
        scattered = _complex_normal(num_devices, seed, "fading", round)
        return (math.sqrt(self.rician) + scattered) / math.sqrt(1 + self.rician)

    def link(self, num_devices: int, seed: int, round: int) -> Link:
        """Draw the gains, what the devices know of them, and what is left after their inversion."""
        gain = self.gains(num_devices, seed, round)
        known = gain + math.sqrt(self.csi_error) * _complex_normal(num_devices, seed, "csi", round)
        phase = self.phase_error * stream(seed, "phase", round).standard_normal(num_devices)
        strength = np.abs(known)
        active = strength >= self.threshold
        # A silent device has no cost and no arriving signal; 1 keeps the division defined.
        safe = np.where(active, known, 1)
        arriving = np.where(active, (np.exp(1j * phase) * gain / safe).real, 0.0)
        return Link(active, np.where(active, 1 / np.abs(safe) ** 2, 0.0), arriving)

    def receive(self, link: Link, signals: Array, seed: int, round: int) -> Array:
        """Return the real part of the faded sum plus noise."""
        return superpose(link, signals, self.noise_var, seed, round)


def superpose(link: Link, signals: Array, noise_var: float, seed: int, round: int) -> Array:
    """Return sum_m gain_m signal_m + N(0, noise_var I), in double precision.

    ``signals`` are what the devices wanted to arrive, that is before they divide by their gain.
    """
    noise = stream(seed, "noise", round).standard_normal(signals.shape[1])
    return weighted_sum(link.gain, signals) + math.sqrt(noise_var) * noise


def weighted_sum(weights: Array, rows: Array) -> Array:
    """Return sum_m weights_m rows_m in double precision.

    Not a matrix product: BLAS may order the sum by the number of its threads.
    """
    return np.asarray(np.einsum("m,mn->n", weights, rows, dtype=np.float64))


def _complex_normal(count: int, seed: int, purpose: str, round: int) -> NDArray[np.complex128]:
    """Return circular complex Gaussians of unit power; the first devices' do not depend on ``count``."""
    pairs = stream(seed, purpose, round).standard_normal((count, 2))
    return pairs.view(np.complex128)[:, 0] / math.sqrt(2)
