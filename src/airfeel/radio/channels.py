"""The paper's channel (6), flat fading, and what all channels share.

That is scattered waves, what synchronisation leaves, and devices that invert their gain.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from airfeel.arrays import Complex as Complex
from airfeel.radio.link import Array, Gain, Link, Mask, elements_of, per_symbol
from airfeel.ranges import Checked, Count, NonNegative, Positive
from airfeel.registry import CHANNELS, option
from airfeel.streams import stream

FORGOTTEN = 1e-6  # weight of an earlier round's gain that counts for nothing


def complex_normal(shape: tuple[int, ...], seed: int, purpose: str, round: int) -> Complex:
    """Return circular complex Gaussians of unit power; the first devices' do not depend on their number."""
    pairs = stream(seed, purpose, round).standard_normal((*shape, 2))
    return np.asarray(pairs.view(np.complex128)[..., 0] / math.sqrt(2))


def drifting(shape: tuple[int, ...], seed: int, purpose: str, round: int, memory: float) -> Complex:
    """Return gains that drift: h(t) = memory h(t-1) + (1 - memory^2)^(1/2) w(t), each of unit power.

    Nothing is carried from round to round: what is left of the last rounds' draws is added up anew.
    """
    if abs(memory) >= 1:
        return memory ** (round - 1) * complex_normal(shape, seed, purpose, 1)
    reach = 0 if memory == 0 else math.ceil(math.log(FORGOTTEN) / math.log(abs(memory)))
    first = max(1, round - reach)
    gain = complex_normal(shape, seed, purpose, first)
    for t in range(first + 1, round + 1):
        gain = memory * gain + math.sqrt(1 - memory**2) * complex_normal(shape, seed, purpose, t)
    return gain


def with_line_of_sight(scattered: Complex, rician: float, direct: Any = 1.0) -> Complex:
    """Add a direct wave whose power is ``rician`` times the scattered one; the sum has unit power again."""
    return np.asarray((math.sqrt(rician) * direct + scattered) / math.sqrt(1 + rician))


def misjudged(gain: Complex, error: float, seed: int, round: int, scale: Array | float = 1.0) -> Complex:
    """Return what devices know of their gains, with an error of that mean power over ``scale`` squared.

    Where there is none it is the same array.
    """
    if not error:
        return gain
    return gain + scale * (math.sqrt(error) * complex_normal(gain.shape, seed, "csi", round))


def strength(gain: Complex) -> Array:
    """Return the root mean square of every device's gains (M, elements), as (M, 1)."""
    return np.asarray(np.sqrt(np.mean(np.abs(gain) ** 2, axis=1, keepdims=True)))


def audible(known: Complex, threshold: float, level: Array) -> Mask:
    """Return where devices send that leave out what is weaker than so much of their level."""
    return np.asarray((np.abs(known) >= threshold * level) & (level > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets(Checked):
    """What channels share: devices that invert their gains, and are synchronised only up to an error.

    The elements of a round (complex channel uses) fill the subcarriers of one OFDM symbol after another.
    Element e = l K + k is subcarrier k of K in OFDM symbol l, where the signal of device m arrives turned by

    phi_m + 2 pi (delta_m (k - (K - 1)/2) / K + eps_m l).

    A delay delta that the cyclic prefix covers turns the phase from subcarrier to subcarrier, a frequency
    offset eps from OFDM symbol to OFDM symbol; what the latter leaks into other subcarriers is left out, so
    it should stay far below 1. All three are drawn anew in each round. ``subcarriers = 1`` is a single
    carrier.
    """

    takes: ClassVar[float] = 0.0  # bytes of memory for each device and symbol, where links are per symbol

    noise_var: NonNegative = option(1.0, "sigma_e^2")
    phase_error: NonNegative = option(0.0, "standard deviation of the residual phase, in radians")
    timing_error: NonNegative = option(0.0, "standard deviation of the delay, in samples")
    carrier_error: NonNegative = option(0.0, "standard deviation of the frequency, in subcarrier spacings")
    subcarriers: Count = option(64, "of an OFDM symbol, over which a delay turns the phase")

    def inverted(
        self,
        gain: Gain,
        known: Gain,
        active: Mask,
        symbols: int,
        seed: int,
        round: int,
        path: Array | float = 1.0,
    ) -> Link:
        """Return the link of devices that send two symbols in each element, divided by what they know of it.

        ``gain`` and ``known`` are h and h^ of every device (M,), or of every device and element (M,
        ceil(s/2)); the same array says that devices know exactly. They send where they are ``active``:
        inversion is truncated. ``path`` are mean power gains by which h is to be multiplied, (M,) or a
        number.
        """
        safe = np.where(active, known, 1)  # a silent device has no cost; 1 keeps the division defined
        cost = np.where(active, 1 / (np.abs(safe.T) ** 2 * path).T, 0.0)
        arriving: NDArray[Any] = np.where(active, 1.0 if gain is known else gain / safe, 0.0)
        if not self.phase_error == self.timing_error == self.carrier_error == 0:
            rotation = self.rotation(len(gain), elements_of(symbols), seed, round)
            arriving = (arriving.T * rotation.T).T
        active, cost, arriving = (per_symbol(part, symbols) for part in (active, cost, arriving))
        return Link(active, cost, arriving, self.noise_var)

    def offsets(self, num_devices: int, seed: int, round: int) -> tuple[Array, Array, Array]:
        """Return phase, delay and frequency offset of the devices in a round, (M,) each."""
        errors = {"phase": self.phase_error, "timing": self.timing_error, "carrier": self.carrier_error}
        phase, delay, drift = (
            error * stream(seed, purpose, round).standard_normal(num_devices)
            for purpose, error in errors.items()
        )
        return phase, delay, drift

    def rotation(self, num_devices: int, elements: int, seed: int, round: int) -> Complex:
        """Return e^{j angle}, (M,), or (M, elements) where it differs from element to element."""
        phase, delay, drift = self.offsets(num_devices, seed, round)
        if self.timing_error == self.carrier_error == 0:
            return np.asarray(np.exp(1j * phase))
        l, k = np.divmod(np.arange(elements), self.subcarriers)  # noqa: E741
        middle = (self.subcarriers - 1) / 2
        turns = np.outer(delay, (k - middle) / self.subcarriers) + np.outer(drift, l)
        return np.asarray(np.exp(1j * (phase[:, None] + 2 * math.pi * turns)))


@CHANNELS.register("gaussian", place=0)
@dataclass(frozen=True, slots=True)
class GaussianMAC(Offsets):
    """All signals add up, with white noise (6)."""

    noise_var: NonNegative = option(1.0, "sigma_e^2")

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Return unit gains: everybody can send at cost one. Without synchrony, gains turn symbols."""
        one = np.ones(num_devices)
        return self.inverted(one, one, one > 0, symbols, seed, round)


@CHANNELS.register("fading", place=10)
@dataclass(frozen=True, slots=True)
class FadingMAC(Offsets):
    """Complex gains per device and round, truncated inversion at the devices.

    The gain h has unit mean power and is drawn anew for each device and round. A device knows ``h^ = h + e``
    and sends its signal divided by h^ if ``|h^| >= threshold``, else nothing, as inverting a gain near zero
    costs without bound. Every symbol is an element of its own: the data is real and in phase, so the server
    keeps the real part, and the signal of a device arrives times ``Re(e^{j phi} h / h^)``.
    """

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
