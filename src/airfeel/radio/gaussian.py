"""The paper's channel (6): all signals add up, with white noise."""

from dataclasses import dataclass

import numpy as np

from airfeel.radio.gains import Offsets
from airfeel.radio.link import Link, per_symbol
from airfeel.ranges import NonNegative
from airfeel.registry import CHANNELS, option


@CHANNELS.register("gaussian", place=0)
@dataclass(frozen=True, slots=True)
class GaussianMAC(Offsets):
    """All signals add up, with white noise (6)."""

    noise_var: NonNegative = option(1.0, "sigma_e^2")

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Return unit gains: everybody can send at cost one. Without synchrony, gains turn symbols."""
        one, everybody = np.ones(num_devices), np.ones(num_devices, dtype=np.bool_)
        turned = self.turned(num_devices, symbols, seed, round)
        gain = one if turned is None else per_symbol(turned, symbols)
        return Link(everybody, one, gain, self.noise_var)
