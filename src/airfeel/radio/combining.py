"""One combiner for all devices: weights of the receive antennas with which the weakest device is strong."""

import numpy as np

from airfeel.radio.scattering import Complex, complex_normal

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
    a = _starts(channels, seed)
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


def _starts(channels: Complex, seed: int) -> Complex:
    """Return the sum of the normalised channels, the principal vector, and random mixtures of channels."""
    normalised = channels / np.maximum(np.linalg.norm(channels, axis=1, keepdims=True), 1e-300)
    mixing = complex_normal((STARTS - 2, len(channels)), seed, "combiner", 0)
    return _unit(np.vstack([normalised.sum(axis=0), principal(channels), mixing @ normalised]))


def _unit(rows: Complex) -> Complex:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-300))
