"""The turbo decoder: one round, any per-coefficient prior; it does not know that time exists (Algorithm 1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.gaussian import divide
from airfeel.beliefs.spike_slab import SpikeSlab, denoise
from airfeel.receivers.lanes import Lanes

Array = NDArray[Any]

CONVERGED, LIMIT, DIVERGED = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The pseudo-observation z = x + N(0, tau) of every lane, which sums the round up, and how it was found."""

    z: Array
    tau: Array
    iterations: Array
    status: Array


def decode(
    prior: SpikeSlab, odds: Array, lanes: Lanes, noise_var: Array, max_iterations: int, tolerance: float
) -> Decoded:
    """Iterate linear step, denoising step and extrinsic step until the estimate stands still."""
    count, length = prior.mean.shape
    dtype = prior.mean.dtype
    ratio = (length / lanes.rows).astype(dtype)[:, None]
    noise = np.asarray(noise_var, dtype=dtype)[:, None]
    m, spread = prior.moments()
    v = spread.mean(axis=1, keepdims=True)
    previous, estimate = np.zeros_like(m), np.empty_like(m)
    for iteration in range(1, max_iterations + 1):
        z, power = lanes.backproject(m)
        z *= ratio
        z += m
        tau = np.maximum((ratio - 1) * v + ratio * noise, np.finfo(dtype).eps ** 2)
        total = denoise(prior, odds, z, tau, out=estimate)
        V = (total / length).astype(dtype)[:, None]
        previous -= estimate
        moved = np.einsum("ij,ij->i", previous, previous)
        size = np.einsum("ij,ij->i", estimate, estimate)
        if np.all(moved <= tolerance**2 * size):
            break
        previous, estimate = estimate, previous
        m, v = divide(previous, V, z, tau)
    return Decoded(z, tau, np.full(count, iteration), np.zeros(count))
