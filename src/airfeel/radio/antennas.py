"""Several receive antennas: one combiner for all devices, which invert what it makes of their channels."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from airfeel import _checks
from airfeel.radio.combining import fair, principal
from airfeel.radio.inversion import inverted
from airfeel.radio.link import Link, elements_of
from airfeel.radio.offsets import Offsets
from airfeel.radio.scattering import Complex, complex_normal, with_line_of_sight
from airfeel.ranges import NonNegative, Positive
from airfeel.registry import CHANNELS, option
from airfeel.streams import stream

COMBINERS = {"fair": fair, "principal": principal}


@CHANNELS.register("antennas", place=30)
@dataclass(frozen=True, slots=True)
class Antennas(Offsets):
    """Fading to R receive antennas, which are combined; truncated inversion at the devices.

    Device m has a channel h_m in C^R of unit mean power per antenna, drawn anew in each round. The server
    adds up its antennas with weights of unit norm, a, chosen from what the devices know of their channels. A
    device then has the gain a^H h_m, inverts it as with one antenna, and the noise is what it was. One
    combiner serves all: alone, a device gains a factor R; with M independent channels the weakest one gains
    less, at most about (1 + (R/M)^(1/2))^2 over a mean gain of 1.

    Parameters
    ----------
    noise_var
        sigma_e^2.
    antennas
        R.
    combiner
        ``"fair"`` makes the weakest device's gain large; ``"principal"`` the mean of all gains, which leaves
        some devices with next to nothing.
    threshold
        h_min: a device with ``|a^H h^| < h_min`` is silent in this round.
    rician
        Power of the line of sight over the scattered power; 0 is Rayleigh fading. The line of sight of each
        device comes from a direction of its own, the same in all rounds, on a linear array with half a
        wavelength between the antennas.
    csi_error
        Mean power, per antenna, of the error in what is known of h.
    """

    noise_var: NonNegative = option(1.0, "sigma_e^2")
    antennas: Annotated[int, Field(ge=1, le=4096)] = option(4, "R, receive antennas")
    combiner: Literal["fair", "principal"] = option("fair", "fair: for the weakest device; or principal")
    threshold: Positive = option(0.3, "h_min, weaker devices stay silent")
    rician: NonNegative = option(0.0, "line of sight over scattered power; 0: Rayleigh")
    csi_error: NonNegative = option(0.0, "variance of what devices misjudge of their gain")

    def __post_init__(self) -> None:
        """Refuse what is no receiver."""
        self.check_offsets()
        _checks.real("noise_var", self.noise_var, at_least=0)
        _checks.integer("antennas", self.antennas, at_least=1)
        _checks.choice("combiner", self.combiner, tuple(COMBINERS))
        _checks.real("threshold", self.threshold, above=0)
        _checks.real("rician", self.rician, at_least=0)
        _checks.real("csi_error", self.csi_error, at_least=0)

    def channels(self, num_devices: int, seed: int, round: int) -> Complex:
        """Return the true channels h_m of a round, (M, R)."""
        scattered = complex_normal((num_devices, self.antennas), seed, "fading", round)
        sine = stream(seed, "directions").uniform(-1, 1, num_devices)
        direct = np.exp(1j * math.pi * np.outer(sine, np.arange(self.antennas)))
        return with_line_of_sight(scattered, self.rician, direct)

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Draw the channels, choose the combiner, and invert what is left of each channel."""
        true = known = self.channels(num_devices, seed, round)
        if self.csi_error:
            known = true + math.sqrt(self.csi_error) * complex_normal(true.shape, seed, "csi", round)
        weights = COMBINERS[self.combiner](known).conj()
        gain = np.einsum("r,mr->m", weights, true)
        seen = gain if known is true else np.einsum("r,mr->m", weights, known)
        turned = None
        if not self.synchronised:
            turned = self.rotation(num_devices, elements_of(symbols), seed, round)
        return inverted(gain, seen, np.abs(seen) >= self.threshold, turned, self.noise_var, symbols)
