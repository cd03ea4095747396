"""Flat fading with truncated channel inversion: weak devices stay silent."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from airfeel.radio.gains import Complex, Offsets, complex_normal, misjudged, with_line_of_sight
from airfeel.radio.link import Link
from airfeel.ranges import NonNegative, Positive
from airfeel.registry import CHANNELS, option


@CHANNELS.register("fading", place=10)
@dataclass(frozen=True, slots=True)
class FadingMAC(Offsets):
    """Complex gains per device and round, truncated inversion at the devices.

    The gain h has unit mean power and is drawn anew for each device and round. A device knows ``h^ = h + e``
    and sends its signal divided by h^ if ``|h^| >= threshold``, else nothing. The data is real and in phase,
    so the server keeps the real part: the signal of a device arrives times ``Re(e^{j phi} h / h^)``.

    Parameters
    ----------
    noise_var
        sigma_e^2 of the real part.
    threshold
        h_min > 0: a device whose gain seems weaker stays silent in this round, as inverting one near zero
        costs without bound.
    rician
        Power of the line of sight over the scattered power; 0 is Rayleigh fading.
    csi_error
        Mean power of the error e in what a device knows of its gain.
    phase_error, timing_error, carrier_error, subcarriers
        See :class:`~airfeel.radio.gains.Offsets`; here every symbol is an element of its own.
    """

    noise_var: NonNegative = option(1.0, "sigma_e^2")
    threshold: Positive = option(0.3, "h_min, weaker devices stay silent")
    rician: NonNegative = option(0.0, "line of sight over scattered power; 0: Rayleigh")
    csi_error: NonNegative = option(0.0, "variance of what devices misjudge of their gain")

    revision: ClassVar[int] = 2  # silent devices no longer lengthen the step

    def gains(self, num_devices: int, seed: int, round: int) -> Complex:
        """Return the true complex gains h_m of a round."""
        return with_line_of_sight(complex_normal((num_devices,), seed, "fading", round), self.rician)

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Draw the gains, what the devices know of them, and what is left after their inversion."""
        gain = self.gains(num_devices, seed, round)
        known = misjudged(gain, self.csi_error, seed, round)
        turned = self.rotation(num_devices, symbols, seed, round)
        active = np.abs(known) >= self.threshold
        # A silent device has no cost and no arriving signal; 1 keeps the division defined.
        safe = np.where(active, known, 1)
        arriving = np.where(active, (turned.T * gain / safe).real, 0.0).T
        return Link(active, np.where(active, 1 / np.abs(safe) ** 2, 0.0), arriving, self.noise_var)
