"""What channels with complex gains share: scattered waves, and devices that invert the gain they know."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import j0

from airfeel.radio.link import Array, Link, Mask, per_symbol
from airfeel.streams import stream

Complex = NDArray[np.complexfloating[Any]]

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


def jakes(doppler: float) -> float:
    """Return the correlation J0(2 pi f_d T) of two rounds a time T apart, given f_d T.

    >>> jakes(0.0), round(jakes(0.1), 3)
    (1.0, 0.904)
    """
    return float(j0(2 * math.pi * doppler))


def with_line_of_sight(scattered: Complex, rician: float, direct: Any = 1.0) -> Complex:
    """Add a direct wave whose power is ``rician`` times the scattered one; the sum has unit power again."""
    return np.asarray((math.sqrt(rician) * direct + scattered) / math.sqrt(1 + rician))


def inverted(
    gain: Complex,
    known: Complex,
    active: Mask,
    rotation: Complex | None,
    noise_var: float,
    symbols: int,
    path: Array | float = 1.0,
) -> Link:
    """Return the link of devices that send two symbols in each element, divided by what they know of it.

    Inversion is truncated: a device is silent where the gain that it knows is too weak.

    Parameters
    ----------
    gain, known
        h and h^ of every device (M,), or of every device and element (M, ceil(s/2)). The same array says that
        devices know exactly.
    active
        Where a device sends.
    rotation
        What :class:`~airfeel.radio.offsets.Offsets` leaves; None when nothing.
    path
        Mean power gains by which h is to be multiplied, (M,) or a number.
    """
    safe = np.where(active, known, 1)  # a silent device has no cost; 1 keeps the division defined
    power = np.abs(safe) ** 2 * (path if np.ndim(path) == 0 or safe.ndim == 1 else np.asarray(path)[:, None])
    cost = np.where(active, 1 / power, 0.0)
    arriving = _arriving(gain, known, safe, rotation, active)
    active, cost = per_symbol(active, symbols), per_symbol(cost, symbols)
    return Link(active, cost, per_symbol(arriving, symbols), noise_var)


def _arriving(
    gain: Complex, known: Complex, safe: Complex, rotation: Complex | None, active: Mask
) -> NDArray[Any]:
    """Return h / h^ turned by the rotation; real where devices know their gain and are synchronised."""
    if gain is known and rotation is None:
        return np.where(active, 1.0, 0.0)
    ratio = np.ones_like(safe) if gain is known else gain / safe
    ratio = np.where(active, ratio, 0)
    if rotation is None:
        return ratio
    return ratio * rotation if ratio.ndim == rotation.ndim else _columns(ratio) * _columns(rotation)


def _columns(values: Complex) -> Complex:
    return values[:, None] if values.ndim == 1 else values
