"""Many independent receptions: a few at a time, so that they share transforms and stay in the cache."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from airfeel import _checks
from airfeel.receivers.base import Estimate, Reception

State = TypeVar("State")
Results = list[tuple[Estimate, State]]

TOGETHER = 1 << 16  # coefficients decoded together; more of them leave the second-level cache


def in_groups(
    receive: Callable[[Sequence[State], Sequence[Reception]], Results[State]],
    states: Sequence[State],
    receptions: Sequence[Reception],
    workers: int | None,
) -> Results[State]:
    """Apply ``receive`` to groups of receptions on ``workers`` threads; the result does not depend on either.

    None means one thread for each core this process may use.
    """
    if len(states) != len(receptions):
        raise ValueError(f"got {len(states)} states and {len(receptions)} receptions: must be as many")
    if workers is not None:
        _checks.integer("workers", workers, at_least=1)
    if not receptions:
        return []
    group = max(1, TOGETHER // int(receptions[0].operator.shape[1]))
    starts = range(0, len(states), group)
    parts = [(states[i : i + group], receptions[i : i + group]) for i in starts]
    with ThreadPoolExecutor(workers or _cores()) as pool:
        results = list(pool.map(lambda part: receive(*part), parts))
    return [result for part in results for result in part]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
