"""A frame of OFDM samples: real symbols to samples, and samples back to symbols.

A frame is a grid. Its columns are the used subcarriers, its rows OFDM symbols: two equal ones that everybody
knows, the preamble, then rows with a few pilots among the payload, two real symbols in each other element.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import fft, special

from airfeel import _checks
from airfeel.arrays import Complex as Complex
from airfeel.radio.link import Array, elements_of
from airfeel.ranges import MOST, Checked, Count, Positive, Several
from airfeel.units import decibel

PREAMBLE = 2  # rows
WIDEST = 65_536  # subcarriers
FALSE_ALARM = 1e-6  # probability to find a preamble in noise alone


class FrameMissing(ValueError):
    """Samples in which there is no frame, or not all of one."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameReading:
    """What the server makes of samples.

    ``symbols`` (s,) are what arrived, and ``noise_var`` is the variance of the noise in each of them, as the
    empty subcarriers show it. The rest is what was found on the way: the sample at which the frame starts
    (its fraction comes from the preamble's phases), the frequency offset in hertz, the mean common phase of
    the rows in degrees, and the power of the elements that are sent over the noise in decibel.
    """

    symbols: Array
    noise_var: float
    start: float
    offset_hz: float
    phase_deg: float
    snr_db: float


@dataclass(frozen=True, slots=True)
class Frame(Checked):
    """How so many real ``symbols`` become samples; none: a preamble alone.

    Of the ``subcarriers`` the ``used`` ones lie around the middle one, which stays empty as radios leak their
    carrier there; noise is estimated from the empty ones at both edges. In every row of payload ``pilots`` of
    the used ones are known. Every row is preceded by its last ``prefix`` samples.

    Transforms keep energy: a symbol of energy 1 is samples of energy 1 without their prefix, and noise of
    variance sigma^2 in I and in Q of a sample is noise of variance sigma^2 in a symbol.

    >>> frame = Frame(symbols=785)
    >>> frame.rows, frame.length, round(frame.overhead, 2)
    (5, 1600, 3.08)
    """

    symbols: Annotated[int, Field(ge=0, le=MOST)]
    subcarriers: Annotated[int, Field(ge=4, le=WIDEST)] = 256
    used: Several = 192
    pilots: Count = 12
    prefix: Count = 64
    sample_rate: Positive = 5e6

    def __post_init__(self) -> None:
        """Refuse what is no grid."""
        Checked.__post_init__(self)
        if self.used % 2 or self.used > self.subcarriers - 3:
            rule = f"must be even, and leave 3 of {self.subcarriers} subcarriers empty at least"
            raise _checks.reject("used", self.used, rule)
        for name, below in (("pilots", self.used), ("prefix", self.subcarriers)):
            if getattr(self, name) >= below:
                raise _checks.reject(name, getattr(self, name), f"must be below {below}")

    @property
    def carriers(self) -> NDArray[np.intp]:
        """The used subcarriers, from the lowest frequency on, as places in a spectrum."""
        half = self.used // 2
        return np.asarray(np.r_[-half:0, 1 : half + 1] % self.subcarriers)

    @property
    def edges(self) -> NDArray[np.intp]:
        """The empty subcarriers but the middle one."""
        return np.setdiff1d(np.arange(1, self.subcarriers), self.carriers)

    @property
    def known(self) -> Complex:
        """What the preamble has on the used subcarriers, and each pilot on its own: a Zadoff-Chu sequence."""
        return np.asarray(np.exp(-1j * math.pi * np.arange(self.used) ** 2 / self.used))

    @property
    def places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Where among the used subcarriers the pilots are, and where the payload."""
        pilots = (2 * np.arange(self.pilots) + 1) * self.used // (2 * self.pilots)
        return pilots, np.setdiff1d(np.arange(self.used), pilots)

    @property
    def element_carriers(self) -> NDArray[np.intp]:
        """The place among the used subcarriers of every element of payload."""
        payload = self.places[1]
        return payload[np.arange(elements_of(self.symbols)) % len(payload)]

    @property
    def rows(self) -> int:
        """OFDM symbols of the frame, with the preamble."""
        return PREAMBLE + -(-elements_of(self.symbols) // (self.used - self.pilots))

    @property
    def step(self) -> int:
        """Samples of a row, with its prefix."""
        return self.prefix + self.subcarriers

    @property
    def length(self) -> int:
        """Samples of the frame."""
        return self.rows * self.step

    @property
    def overhead(self) -> float:
        """Time on air beyond that of the symbols, two in each sample, as a share of it."""
        return self.length / (self.symbols / 2) - 1

    @property
    def preamble(self) -> Complex:
        """The samples of a preamble of unit strength."""
        return np.asarray(replace(self, symbols=0).modulate(np.zeros((1, 0)), np.ones(1))[0])

    def modulate(
        self, signals: Array, strength: Array | None = None, inverse: Complex | None = None
    ) -> Complex:
        """Return the samples (M, length) of devices with such symbols (M, s).

        Preamble and pilots have ``strength`` (M,), in the mean that of the device's own payload. All elements
        are multiplied by ``inverse`` (M, used), 1/h^ of the subcarrier, or 0 where the device is silent.
        """
        payload = np.zeros((len(signals), self.rows - PREAMBLE, self.used - self.pilots, 2))
        payload.reshape(len(signals), -1)[:, : self.symbols] = signals
        elements = payload.view(np.complex128)[..., 0]
        if strength is None:
            energy = np.einsum("mrkc,mrkc->m", payload, payload)
            strength = np.sqrt(energy / max(1, elements_of(self.symbols)))
        grid = np.empty((len(signals), self.rows, self.used), np.complex128)
        grid[:] = strength[:, None, None] * self.known
        grid[:, PREAMBLE:, self.places[1]] = elements
        if inverse is not None:
            grid *= inverse[:, None, :]
        spectrum = np.zeros((len(signals), self.rows, self.subcarriers), np.complex128)
        spectrum[..., self.carriers] = grid
        waves = fft.ifft(spectrum, norm="ortho", overwrite_x=True)
        rows = np.concatenate([waves[..., -self.prefix :], waves], axis=-1)
        return np.asarray(rows.reshape(len(signals), -1))

    def response(self, samples: Complex) -> Complex:
        """Return the gain of every used subcarrier (..., used), from samples that begin with the preamble."""
        rows = samples[..., : PREAMBLE * self.step].reshape(*samples.shape[:-1], PREAMBLE, self.step)
        found = fft.fft(rows[..., self.prefix :], norm="ortho")[..., self.carriers]
        return np.asarray(found.mean(axis=-2) * self.known.conj())

    def demodulate(self, samples: Complex) -> FrameReading:
        """Find the frame, correct what is common to all devices, and return the symbols and the noise."""
        top = self.find(samples)
        # Windows begin in the middle of the prefix: devices may be early as well as late.
        early = self.prefix // 2
        found = samples[top : top + self.length].reshape(self.rows, self.step)
        first, second = self._window(found[:PREAMBLE], early)
        turns = float(np.angle(np.vdot(first, second))) / (2 * math.pi * self.step)  # per sample
        found = found * np.exp(-2j * math.pi * turns * np.arange(self.length)).reshape(found.shape)
        spectrum = self._window(found, early)
        used = spectrum[:, self.carriers]
        delay = self._delay(used[:PREAMBLE].mean(axis=0) * self.known.conj())
        frequency = fft.fftfreq(self.subcarriers)[self.carriers]
        used *= np.exp(2j * math.pi * delay * frequency)
        pilots, payload = self.places
        common = used[:, pilots] @ self.known[pilots].conj()
        used *= np.exp(-1j * np.angle(common))[:, None]
        elements, rest = np.split(used[PREAMBLE:, payload].reshape(-1), [elements_of(self.symbols)])
        noise_var = float(np.mean(np.abs(spectrum[:, self.edges]) ** 2)) / 2
        power = (_energy(used) - _energy(rest)) / (used.size - rest.size)
        excess = power / max(2 * noise_var, 1e-300) - 1
        return FrameReading(
            symbols=elements.view(np.float64)[: self.symbols],
            noise_var=noise_var,
            start=top + delay,
            offset_hz=turns * self.sample_rate,
            phase_deg=math.degrees(np.angle(common.sum())),
            snr_db=decibel(excess),
        )

    def find(self, samples: Complex) -> int:
        """Return where the frame starts: where both rows of the preamble fit best.

        The fit is the share of the energy that is preamble, the mean of both rows. In noise alone it exceeds
        the threshold with the probability of a false alarm: two such shares are Gamma distributed.
        """
        places = len(samples) - self.length + 1
        if places < 1:
            raise FrameMissing(f"{len(samples)} samples are fewer than the {self.length} of a frame")
        row = self.preamble[self.prefix : self.step]
        size = fft.next_fast_len(len(samples) + self.subcarriers)
        match = fft.ifft(fft.fft(samples, size) * fft.fft(row, size).conj())
        sums = np.append(0.0, np.cumsum(np.abs(samples) ** 2))
        energy = sums[self.subcarriers :] - sums[: -self.subcarriers]
        # Where it is silent, rounding would fit as well as anything.
        energy = np.maximum(energy, max(energy.max() * 1e-12, 1e-300)) * _energy(row)
        fit = np.zeros(places)
        for window in (self.prefix, self.prefix + self.step):
            part = slice(window, window + places)
            fit += np.abs(match[part]) ** 2 / energy[part] / PREAMBLE
        top = int(np.argmax(fit))
        threshold = special.gammainccinv(2, FALSE_ALARM / places) / (2 * self.subcarriers)
        if not fit[top] > threshold:
            raise FrameMissing(f"no preamble in {len(samples)} samples: the best fit is {fit[top]:.2g}")
        return top

    def _window(self, rows: Complex, early: int) -> Complex:
        """Return the spectra of rows, whose windows begin so many samples early."""
        begin = self.prefix - early
        turned = np.exp(2j * math.pi * early * fft.fftfreq(self.subcarriers))
        return np.asarray(fft.fft(rows[:, begin : begin + self.subcarriers], norm="ortho") * turned)

    def _delay(self, gains: Complex) -> float:
        """Return the delay, in samples, that turns the gains of the used subcarriers from one to the next.

        Subcarriers a third of the band apart tell it best; beyond half their period it is ambiguous.
        """
        spectrum = np.zeros(self.subcarriers, np.complex128)
        spectrum[self.carriers] = gains
        apart = max(1, self.used // 3)
        spectrum = fft.fftshift(spectrum)
        slope = np.angle(np.vdot(spectrum[:-apart], spectrum[apart:]))
        return float(-slope * self.subcarriers / (2 * math.pi * apart))


def _energy(values: Complex) -> float:
    return float(np.vdot(values, values).real)
