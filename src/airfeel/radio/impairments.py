"""What radios and air do to samples: pure functions of one row of samples per device."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from airfeel.units import from_decibel

Array = NDArray[np.floating[Any]]
Complex = NDArray[np.complexfloating[Any]]


def echoed(samples: Complex, taps: Complex) -> Complex:
    """Return samples (M, n) that arrive on several paths, taps (M, L): n + L - 1 samples."""
    found = np.zeros((len(taps), samples.shape[1] + taps.shape[1] - 1), np.complex128)
    for late, gain in enumerate(taps.T):
        found[:, late : late + samples.shape[1]] += gain[:, None] * samples
    return found


def delayed(samples: Complex, delay: Array) -> Complex:
    """Return samples that come later, by any number (M,) of samples, fractions and negative ones too.

    They should begin and end with silence, as what leaves a row at one end may come in at the other.
    """
    if not delay.any():
        return samples
    size = fft.next_fast_len(samples.shape[1])
    turns = np.outer(delay, fft.fftfreq(size))
    late = fft.ifft(fft.fft(samples, size) * np.exp(-2j * math.pi * turns))
    return np.asarray(late[:, : samples.shape[1]])


def turned(samples: Complex, phase: Array, turns: Array, drift: Array | None = None) -> Complex:
    """Return samples turned by a phase (M,) and so many turns per sample (M,), and by a drift (M, n)."""
    angle = phase[:, None] + 2 * math.pi * np.outer(turns, np.arange(samples.shape[1]))
    return np.asarray(samples * np.exp(1j * (angle if drift is None else angle + drift)))


def clipped(samples: Complex, level_db: float) -> Complex:
    """Return what an amplifier lets through: amplitudes up to a level above the mean power of a row."""
    size = np.abs(samples)
    most = np.sqrt(from_decibel(level_db) * np.mean(size**2, axis=-1, keepdims=True))
    return np.asarray(samples * np.minimum(1.0, most / np.maximum(size, 1e-300)))


def quantised(samples: Complex, bits: int) -> Complex:
    """Return samples as converters with so many bits for I and Q tell them; a row's peak is their range.

    >>> quantised(np.array([[0.9 + 0.1j, -1.0 - 0.4j]]), bits=2)
    array([[ 0.75+0.25j, -0.75-0.25j]])
    """
    if not bits:
        return samples
    parts = np.ascontiguousarray(samples).view(np.float64)
    peak = np.abs(parts).max(axis=-1, keepdims=True)
    # Levels lie half a step off zero, so that both signs have as many: a row of zeros stays one.
    step = peak / 2 ** (bits - 1)
    level = np.floor(parts / np.where(step > 0, step, 1.0)).clip(max=2 ** (bits - 1) - 1) + 0.5
    return np.asarray((level * step).view(np.complex128))
