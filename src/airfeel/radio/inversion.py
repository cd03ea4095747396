"""Truncated inversion: a device divides by the gain that it knows, and is silent where that is too weak."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.radio.link import Link, per_symbol

Array = NDArray[np.floating[Any]]
Complex = NDArray[np.complexfloating[Any]]
Mask = NDArray[np.bool_]


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
