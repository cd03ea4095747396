"""Several receive antennas: one combiner for all devices, which invert what it makes of their channels."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from airfeel.radio.channels import Complex, Offsets, complex_normal, misjudged, with_line_of_sight
from airfeel.radio.link import Link
from airfeel.ranges import NonNegative, Positive
from airfeel.registry import CHANNELS, option
from airfeel.streams import stream

STARTS = 16  # from which the search goes up
STEPS = 80  # of each search
FIRST, LAST = 1.0, 0.01  # length of a step beside the unit vector it changes
SHARPEST = 60.0  # how nearly the soft minimum is the minimum at the end


def principal(channels: Complex) -> Complex:
    """Return the unit vector a with the largest mean of ``|a^H h_m|^2`` over the channels, rows (M, R)."""
    return np.asarray(np.linalg.eigh(channels.T @ channels.conj())[1][:, -1])


def fair(channels: Complex, seed: int = 0) -> Complex:
    """Return a unit vector a for which the least of ``|a^H h_m|^2`` is large.

    The largest possible least gain is a hard problem, so several searches go up from different starts, and
    the best is taken. A step goes along the gradient of the soft minimum -log sum exp(-b g_m) / b of the
    gains ``g_m = |a^H h_m|^2`` relative to their least, and b grows from step to step.
    """
    if channels.shape[1] == 1:
        return np.ones(1, dtype=np.complex128)
    # From the sum of the normalised channels, the principal vector, and random mixtures of channels.
    normalised = _unit(channels)
    mixing = complex_normal((STARTS - 2, len(channels)), seed, "combiner", 0)
    a = _unit(np.vstack([normalised.sum(axis=0), principal(channels), mixing @ normalised]))
    best, found = -np.inf, a[0]
    for step in range(STEPS + 1):
        inner = a.conj() @ channels.T  # a^H h_m, (starts, M)
        gains = np.abs(inner) ** 2
        least = gains.min(axis=1)
        if least.max() > best:
            best, found = float(least.max()), a[int(np.argmax(least))]
        # The weakest devices pull; the others count as much as they are near to being the weakest.
        sharp = SHARPEST ** (step / STEPS)
        pull = np.exp(-sharp * (gains / np.maximum(least, 1e-30)[:, None] - 1).clip(max=50))
        pull /= pull.sum(axis=1, keepdims=True)
        gradient = (pull * inner.conj()) @ channels
        length = np.linalg.norm(gradient, axis=1, keepdims=True)
        stride = FIRST * (LAST / FIRST) ** (step / STEPS)
        a = _unit(a + stride * gradient / np.maximum(length, 1e-300))
    return np.asarray(found)


def _unit(rows: Complex) -> Complex:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-300))


COMBINERS = {"fair": fair, "principal": principal}


@CHANNELS.register("antennas", place=30)
@dataclass(frozen=True, slots=True)
class Antennas(Offsets):
    """Fading to R receive antennas, which are combined; truncated inversion at the devices.

    Device m has a channel h_m in C^R of unit mean power per antenna, drawn anew in each round. The server
    adds up its antennas with weights of unit norm, a, chosen from what the devices know of their channels. A
    device then has the gain a^H h_m, inverts it as with one antenna, and the noise is what it was. One
    combiner serves all: alone, a device gains a factor R; with M independent channels the weakest one gains
    less, at most about (1 + (R/M)^(1/2))^2 over a mean gain of 1. The combiner ``"fair"`` makes the weakest
    device's gain large; ``"principal"`` the mean of all gains, which leaves some devices with next to
    nothing.

    The line of sight of each device comes from a direction of its own, the same in all rounds, on a linear
    array with half a wavelength between the antennas. ``threshold`` is that of ``|a^H h^|``, and
    ``csi_error`` is per antenna.
    """

    antennas: Annotated[int, Field(ge=1, le=4096)] = option(4, "R, receive antennas")
    combiner: Literal["fair", "principal"] = option("fair", "fair: for the weakest device; or principal")
    threshold: Positive = option(0.3, "h_min, weaker devices stay silent")
    rician: NonNegative = option(0.0, "line of sight over scattered power; 0: Rayleigh")
    csi_error: NonNegative = option(0.0, "variance of what devices misjudge of their gain")

    def channels(self, num_devices: int, seed: int, round: int) -> Complex:
        """Return the true channels h_m of a round, (M, R)."""
        scattered = complex_normal((num_devices, self.antennas), seed, "fading", round)
        sine = stream(seed, "directions").uniform(-1, 1, num_devices)
        direct = np.exp(1j * math.pi * np.outer(sine, np.arange(self.antennas)))
        return with_line_of_sight(scattered, self.rician, direct)

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Draw the channels, choose the combiner, and invert what is left of each channel."""
        true = self.channels(num_devices, seed, round)
        known = misjudged(true, self.csi_error, seed, round)
        weights = COMBINERS[self.combiner](known).conj()
        gain = np.einsum("r,mr->m", weights, true)
        seen = gain if known is true else np.einsum("r,mr->m", weights, known)
        return self.inverted(gain, seen, np.abs(seen) >= self.threshold, symbols, seed, round)
