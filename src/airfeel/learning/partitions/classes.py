"""Devices that hold a few classes each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.learning.partitions import Partition, drawn, pooled
from airfeel.ranges import Count
from airfeel.registry import PARTITIONS, option
from airfeel.streams import stream


@PARTITIONS.register("classes", place=10)
@dataclass(frozen=True, slots=True)
class ByClasses:
    """Samples of chi classes per device, drawn for each, in equal shares (Section VII)."""

    classes: Count = option(help="chi, classes per device")

    by_class: ClassVar[bool] = True

    def draw(
        self, labels: NDArray[Any], sizes: Sequence[int], seed: int, pool: int | None = None
    ) -> Partition:
        """Draw the classes of each device, then its samples."""
        labels = pooled(labels, sizes, pool)
        present = np.unique(labels)
        classes = _checks.integer("classes", self.classes, at_least=1, at_most=len(present))
        parts = []
        for device, size in enumerate(sizes):
            draw = stream(seed, "partition", device=device)
            chosen = draw.choice(present, classes, replace=False)
            counts = np.full(classes, size // classes)
            counts[: size % classes] += 1
            parts.append(drawn(draw, labels, chosen, counts, device))
        return tuple(parts)
