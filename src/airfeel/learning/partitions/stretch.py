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


@PARTITIONS.register("stretch", place=30)
@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples that follow one another in the data set, from a random place on: the pages of a book."""

    def draw(
        self, labels: NDArray[Any], sizes: Sequence[int], seed: int, pool: int | None = None
    ) -> Partition:
        """Draw where the K_m = ``sizes[m]`` samples of device m begin."""
        available = len(pooled(labels, sizes, pool))
        parts = []
        for device, size in enumerate(sizes):
            _checks.integer(f"sizes[{device}]", size, at_least=1, at_most=available)
            start = int(stream(seed, "partition", device=device).integers(available - size + 1))
            parts.append(np.arange(start, start + size))
        return tuple(parts)
