"""Scattered waves: complex Gaussian gains of unit power, new in each round or drifting."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import j0

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
