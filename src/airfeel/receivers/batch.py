"""Many lanes and many receptions: a few at a time, so that they share transforms and stay in the cache."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from airfeel.beliefs.spike_slab import SpikeSlab
from airfeel.receivers.base import Estimate, Reception
from airfeel.receivers.lanes import Layout, arrange
from airfeel.receivers.turbo import Decoded, decode

Array = NDArray[Any]
State = TypeVar("State")
Results = list[tuple[Estimate, State]]

TOGETHER = 1 << 16  # coefficients of the lanes decoded together; more of them leave the caches
AT_ONCE = 1 << 18  # bytes of an array with a row for each of the receptions decoded together
STATUS = ("converged", "iteration limit", "diverged")  # from good to bad


def in_groups(
    receive: Callable[[Sequence[State], Sequence[Reception]], Results[State]],
    states: Sequence[State],
    receptions: Sequence[Reception],
) -> Results[State]:
    """Apply ``receive`` to a few receptions at a time; the result does not depend on how many.

    On one thread: with arrays of this size a second one mostly waits for the interpreter's lock.
    """
    if len(states) != len(receptions):
        raise ValueError(f"got {len(states)} states and {len(receptions)} receptions: must be as many")
    if not receptions:
        return []
    bytes_each = int(receptions[0].operator.shape[1]) * receptions[0].observation.itemsize
    group = max(1, AT_ONCE // bytes_each)
    results: Results[State] = []
    for i in range(0, len(states), group):
        results += receive(states[i : i + group], receptions[i : i + group])
    return results


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """One reception decoded; ``tau`` and ``surprise`` are one number, or one per coefficient with blocks."""

    z: Array
    tau: Array
    iterations: int
    status: str
    surprise: Array


def decode_batch(
    priors: Sequence[SpikeSlab],
    operators: Sequence[LinearOperator],
    observations: Sequence[Array],
    noise_vars: Sequence[float],
    stationary: Sequence[tuple[float, float]] | None,
    *,
    max_iterations: int,
    tolerance: float,
) -> list[Summary]:
    """Decode independent receptions of one size together.

    Lanes are decoded a few at a time, so that blocks of a large problem are worked on in the cache.
    """
    layout, lanes = arrange(operators, observations)
    prior = SpikeSlab(
        layout.spread([p.support for p in priors]),
        layout.spread([p.mean for p in priors]),
        layout.spread([p.variance for p in priors]),
    )
    noise = np.repeat(noise_vars, layout.blocks)
    fallback = None if stationary is None else np.repeat(stationary, layout.blocks, axis=0)

    def decode_group(group: slice) -> Decoded:
        part = SpikeSlab(prior.support[group], prior.mean[group], prior.variance[group])
        model = None if fallback is None else (fallback[group, 0], fallback[group, 1])
        return decode(part, lanes.select(group), noise[group], model, max_iterations, tolerance)

    decoded = _join([decode_group(group) for group in _groups(*prior.mean.shape)])
    return [_summary(decoded, layout, item) for item in range(len(priors))]


def _groups(lanes: int, length: int) -> list[slice]:
    """Cut the lanes into groups whose whole iteration stays in the second-level cache."""
    height = max(1, TOGETHER // length)
    return [slice(top, min(top + height, lanes)) for top in range(0, lanes, height)]


def _join(parts: Sequence[Decoded]) -> Decoded:
    if len(parts) == 1:
        return parts[0]
    return Decoded(
        np.concatenate([p.z for p in parts]),
        np.concatenate([p.tau for p in parts]),
        np.concatenate([p.iterations for p in parts]),
        np.concatenate([p.status for p in parts]),
        np.concatenate([p.surprise for p in parts]),
    )


def _summary(decoded: Decoded, layout: Layout, item: int) -> Summary:
    lanes = slice(item * layout.blocks, (item + 1) * layout.blocks)
    return Summary(
        z=layout.gather(decoded.z[lanes])[0],
        tau=layout.repeat(decoded.tau[lanes, 0]),
        iterations=int(decoded.iterations[lanes].max()),
        status=max(decoded.status[lanes], key=STATUS.index),
        surprise=layout.repeat(decoded.surprise[lanes, 0]),
    )
