"""Devices whose samples stand together in the data set, as the pages of one book do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.learning.partitions import Partition, pooled
from airfeel.registry import PARTITIONS
from airfeel.streams import stream


@PARTITIONS.register("stretches", place=30)
@dataclass(frozen=True, slots=True)
class Stretches:
    """Samples from a stretch of its own for every device: of M equal ones, in the order of the data set."""

    def draw(
        self, labels: NDArray[Any], sizes: Sequence[int], seed: int, pool: int | None = None
    ) -> Partition:
        """Draw K_m = ``sizes[m]`` samples for device m from the m-th stretch."""
        ends = len(pooled(labels, sizes, pool)) * np.arange(len(sizes) + 1) // len(sizes)
        parts = []
        for device, (size, start, end) in enumerate(zip(sizes, ends, ends[1:], strict=False)):
            _checks.integer(f"sizes[{device}]", size, at_least=1, at_most=int(end - start))
            draw = stream(seed, "partition", device=device)
            parts.append(np.sort(start + draw.choice(end - start, size, replace=False)))
        return tuple(parts)
