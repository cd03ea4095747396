"""What synchronisation leaves: phase, delay and frequency of each device, as a rotation of its symbols."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.radio.link import elements_of
from airfeel.ranges import Count, NonNegative, require
from airfeel.registry import option
from airfeel.streams import stream

Complex = NDArray[np.complexfloating[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Options of a channel whose devices are synchronised only up to an error, drawn anew in each round.

    The elements of a round (complex channel uses) fill the subcarriers of one OFDM symbol after another.
    Element e = l K + k is subcarrier k of K in OFDM symbol l, where the signal of device m arrives turned by

    phi_m + 2 pi (delta_m (k - (K - 1)/2) / K + eps_m l).

    A delay delta that the cyclic prefix covers turns the phase from subcarrier to subcarrier, a frequency
    offset eps from OFDM symbol to OFDM symbol; what the latter leaks into other subcarriers is left out, so
    it should stay far below 1. ``subcarriers = 1`` is a single carrier.

    Parameters
    ----------
    phase_error
        Standard deviation of phi, in radians.
    timing_error
        Standard deviation of delta, in samples (1 / bandwidth).
    carrier_error
        Standard deviation of eps, in subcarrier spacings.
    subcarriers
        K.
    """

    phase_error: NonNegative = option(0.0, "standard deviation of the residual phase")
    timing_error: NonNegative = option(0.0, "standard deviation of the delay, in samples")
    carrier_error: NonNegative = option(0.0, "standard deviation of the frequency, in subcarrier spacings")
    subcarriers: Count = option(64, "of an OFDM symbol, over which a delay turns the phase")

    def __post_init__(self) -> None:
        """Refuse options outside their ranges, those of the channel too."""
        require(self)

    def turned(self, num_devices: int, symbols: int, seed: int, round: int) -> Complex | None:
        """Return the rotation of the elements that so many symbols take; None where there is no offset."""
        if self.phase_error == self.timing_error == self.carrier_error == 0:
            return None
        return self.rotation(num_devices, elements_of(symbols), seed, round)

    def rotation(self, num_devices: int, elements: int, seed: int, round: int) -> Complex:
        """Return e^{j angle}, (M,), or (M, elements) where it differs from element to element."""
        phase = self.phase_error * stream(seed, "phase", round).standard_normal(num_devices)
        if self.timing_error == self.carrier_error == 0:
            return np.asarray(np.exp(1j * phase))
        delay, drift = (
            error * stream(seed, purpose, round).standard_normal(num_devices)
            for error, purpose in ((self.timing_error, "timing"), (self.carrier_error, "carrier"))
        )
        l, k = np.divmod(np.arange(elements), self.subcarriers)  # noqa: E741
        middle = (self.subcarriers - 1) / 2
        turns = np.outer(delay, (k - middle) / self.subcarriers) + np.outer(drift, l)
        return np.asarray(np.exp(1j * (phase[:, None] + 2 * math.pi * turns)))
