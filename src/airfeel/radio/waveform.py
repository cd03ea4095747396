"""A waveform: symbols become OFDM samples, which add up after all that radios and air do to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import fft

from airfeel import _checks
from airfeel.radio import impairments, recordings
from airfeel.radio.channels import Complex, Offsets, audible, complex_normal, strength
from airfeel.radio.frame import Frame, FrameMissing
from airfeel.radio.link import Array, Link
from airfeel.ranges import Count, Decibels, NonNegative, Positive, Several
from airfeel.registry import CHANNELS, option
from airfeel.streams import stream
from airfeel.units import from_decibel

Devices = NDArray[np.intp]

TOGETHER = 1 << 18  # samples of the devices that are worked on together


@CHANNELS.register("waveform", place=50)
@dataclass(frozen=True, slots=True, kw_only=True)
class Waveform(Offsets):
    """OFDM samples over several paths and through imperfect radios, truncated inversion on every subcarrier.

    All devices send one :class:`~airfeel.radio.frame.Frame` at once. A device estimates its paths from the
    preamble of the downlink, divides every subcarrier by its gain, and is silent where that is weak. Its
    samples go through converter and amplifier, over its own paths, with its own delay, frequency offset and
    drifting phase, and add up with the others' and with noise. The server finds the frame, corrects delay,
    frequency and phase as far as they are common to all, and estimates the noise from empty subcarriers. A
    round whose preamble it does not find is lost: devices keep what they sent, and the energy is spent.

    The defaults are those of published testbeds: 192 of 256 subcarriers and a prefix of 64 samples at 5 MHz.
    Paths of a device fade (Rayleigh), anew in each round, and have unit mean power in all. A constant delay
    is part of what a device estimates: ``timing_error`` is what changes since, and 0.05 samples are 10 ns, as
    0.0025 subcarrier spacings are 49 Hz. The phase wanders from the start of a frame to its end. A folder
    ``record`` gets the samples of every round, see :mod:`airfeel.radio.recordings`.
    """

    used: Several = option(192, "subcarriers that carry anything")
    pilots: Count = option(12, "of the used subcarriers that are known to all")
    prefix: Count = option(64, "samples that are sent again before every OFDM symbol")
    sample_rate: Positive = option(5e6, "in hertz")
    taps: Count = option(4, "paths of a device, one sample apart; 1: a flat gain")
    decay_db: NonNegative = option(3.0, "by which a path is weaker than the one before")
    threshold: Positive = option(0.3, "h_min over a device's mean; weaker subcarriers stay silent")
    csi_error: NonNegative = option(0.001, "noise of the downlink's pilots over a device's mean gain")
    timing_error: NonNegative = option(0.05, "standard deviation of the delay, in samples")
    carrier_error: NonNegative = option(0.0025, "standard deviation of the frequency, in subcarrier spacings")
    phase_drift: NonNegative = option(5.0, "standard deviation of the phase after a frame, in degrees")
    clipping_db: Decibels = option(8.0, "most amplitude of a device over its mean power; 300: any")
    bits: Annotated[int, Field(ge=0, le=32)] = option(12, "of the converters; 0: exact")
    subcarriers: Count = option(256, "of an OFDM symbol")
    record: str = option("", "folder for what is sent and heard in every round, as SigMF; empty: nothing")

    takes: ClassVar[float] = 80.0
    writes: ClassVar[tuple[str, ...]] = ("record",)  # changes no result

    def __post_init__(self) -> None:
        """Refuse what is no frame, and paths that are longer than its prefix."""
        Offsets.__post_init__(self)
        self.frame(0)
        if self.taps > self.prefix // 2:
            raise _checks.reject("taps", self.taps, f"must be at most half the prefix, {self.prefix // 2}")

    def frame(self, symbols: int) -> Frame:
        """Return the frame for so many symbols."""
        return Frame(symbols, self.subcarriers, self.used, self.pilots, self.prefix, self.sample_rate)

    def paths(self, num_devices: int, seed: int, round: int) -> Complex:
        """Return the true gains of the paths of a round, (M, taps)."""
        power = from_decibel(-self.decay_db * np.arange(self.taps))
        scattered = complex_normal((num_devices, self.taps), seed, "fading", round)
        return np.asarray(scattered * np.sqrt(power / power.sum()))

    def gains(self, num_devices: int, seed: int, round: int) -> tuple[Complex, Complex]:
        """Return the gains of the used subcarriers (M, used), and what devices find them to be."""
        frame, paths = self.frame(0), self.paths(num_devices, seed, round)
        gain = fft.fft(paths, self.subcarriers)[:, frame.carriers]
        if not self.csi_error:
            return gain, gain
        heard = impairments.echoed(frame.preamble[None], paths)[:, : frame.length]
        # Of the mean over the two rows of the preamble.
        noise = complex_normal(heard.shape, seed, "csi", round) * np.sqrt(2 * self.csi_error)
        return gain, frame.response(heard + noise)

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Return what power control has to know; ``gain`` leaves out what only samples show."""
        gain, known = self.gains(num_devices, seed, round)
        places = self.frame(symbols).element_carriers
        seen = known[:, places]
        arriving = seen if gain is known else gain[:, places]
        active = audible(known, self.threshold, strength(known))[:, places]
        return self.inverted(arriving, seen, active, symbols, seed, round)

    def transmit(
        self, link: Link, signals: Array, devices: Devices, seed: int, round: int
    ) -> tuple[Array, float] | None:
        """Return what the server makes of the samples of these devices; None where it finds no frame."""
        frame = self.frame(signals.shape[1])
        sent = self.samples(frame, signals, devices, seed, round)
        received = self.propagate(frame, sent, devices, seed, round)
        if self.record:
            recordings.write_round(Path(self.record), frame, sent, devices, seed, round, received)
        try:
            reading = frame.demodulate(received)
        except FrameMissing:
            return None
        return reading.symbols, reading.noise_var

    def samples(self, frame: Frame, signals: Array, devices: Devices, seed: int, round: int) -> Complex:
        """Return the samples (rows, length) that leave the devices."""
        known = self.gains(_all(devices), seed, round)[1][devices]
        active = audible(known, self.threshold, strength(known))
        inverse = np.where(active, 1 / np.where(active, known, 1), 0)
        sent = np.empty((len(signals), frame.length), np.complex128)
        for part in _parts(sent):
            exact = frame.modulate(signals[part], inverse=inverse[part])
            sent[part] = impairments.clipped(impairments.quantised(exact, self.bits), self.clipping_db)
        return sent

    def propagate(self, frame: Frame, sent: Complex, devices: Devices, seed: int, round: int) -> Complex:
        """Return the samples that the server hears: a frame that begins when it does not know, and noise.

        Radios of one's own take the place of this method, and of :meth:`gains`.
        """
        paths = self.paths(_all(devices), seed, round)
        phase, delay, offset = self.offsets(_all(devices), seed, round)
        silence = int(stream(seed, "silence", round).integers(self.prefix, self.subcarriers))
        heard = np.zeros(silence + frame.length + self.taps - 1 + self.prefix, np.complex128)
        for part in _parts(sent):
            who, drift = devices[part], None
            if self.phase_drift:
                steps = [stream(seed, "drift", round, int(m)).standard_normal(frame.length) for m in who]
                drift = np.cumsum(steps, axis=1) * np.radians(self.phase_drift) / np.sqrt(frame.length)
            arriving = impairments.turned(sent[part], phase[who], offset[who] / self.subcarriers, drift)
            arriving = np.pad(impairments.echoed(arriving, paths[who]), ((0, 0), (silence, self.prefix)))
            heard += impairments.delayed(arriving, delay[who]).sum(axis=0)
        noise = complex_normal(heard.shape, seed, "noise", round) * np.sqrt(2 * self.noise_var)
        return impairments.quantised(heard + noise, self.bits)


def _parts(samples: Complex) -> Iterator[slice]:
    """Yield a few devices at a time: copies of all their samples would be most of a run's memory."""
    height = max(1, TOGETHER // samples.shape[1])
    yield from (slice(top, top + height) for top in range(0, len(samples), height))


def _all(devices: Devices) -> int:
    """Return how many devices must be drawn, so that these are among them."""
    return int(devices.max(initial=-1)) + 1
