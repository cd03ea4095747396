"""The paper's channel (6): all signals add up, with white noise."""

from dataclasses import dataclass

import numpy as np

from airfeel import _checks
from airfeel.radio.link import Link
from airfeel.ranges import NonNegative
from airfeel.registry import CHANNELS, option


@CHANNELS.register("gaussian", place=0)
@dataclass(frozen=True, slots=True)
class GaussianMAC:
    """All signals add up, with white noise (6)."""

    noise_var: NonNegative = option(1.0, "sigma_e^2")

    def __post_init__(self) -> None:
        """Refuse a negative variance."""
        _checks.real("noise_var", self.noise_var, at_least=0)

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Return unit gains: everybody can send at cost one."""
        one = np.ones(num_devices)
        return Link(np.ones(num_devices, dtype=np.bool_), one, one, self.noise_var)
