"""The paper's channel (6): all signals add up, with white noise."""

from dataclasses import dataclass

import numpy as np

from airfeel import _checks
from airfeel.radio.link import Link, elements_of, per_symbol
from airfeel.radio.offsets import Offsets
from airfeel.ranges import NonNegative
from airfeel.registry import CHANNELS, option


@CHANNELS.register("gaussian", place=0)
@dataclass(frozen=True, slots=True)
class GaussianMAC(Offsets):
    """All signals add up, with white noise (6)."""

    noise_var: NonNegative = option(1.0, "sigma_e^2")

    def __post_init__(self) -> None:
        """Refuse a negative variance."""
        self.check_offsets()
        _checks.real("noise_var", self.noise_var, at_least=0)

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Return unit gains: everybody can send at cost one. Without synchrony, gains turn symbols."""
        one, everybody = np.ones(num_devices), np.ones(num_devices, dtype=np.bool_)
        if self.synchronised:
            return Link(everybody, one, one, self.noise_var)
        turned = self.rotation(num_devices, elements_of(symbols), seed, round)
        return Link(everybody, one, per_symbol(turned, symbols), self.noise_var)
