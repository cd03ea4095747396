"""Devices that are alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.learning.partitions import Partition, pooled
from airfeel.registry import PARTITIONS
from airfeel.streams import stream


@PARTITIONS.register("iid", place=0)
@dataclass(frozen=True, slots=True)
class IID:
    """Samples of any class: every device's are drawn from all."""

    def draw(
        self, labels: NDArray[Any], sizes: Sequence[int], seed: int, pool: int | None = None
    ) -> Partition:
        """Draw K_m = ``sizes[m]`` samples for device m from the first ``pool`` ones (None: all)."""
        available = len(pooled(labels, sizes, pool))
        for device, size in enumerate(sizes):
            _checks.integer(f"sizes[{device}]", size, at_least=1, at_most=available)
        return tuple(
            np.sort(stream(seed, "partition", device=m).choice(available, size, replace=False))
            for m, size in enumerate(sizes)
        )
