"""Devices that are alike, that hold a few classes, random class shares, or samples that stand together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from airfeel import _checks
from airfeel.learning.partitions import Partition, Targets, capped_counts, drawn, pooled
from airfeel.ranges import Checked, Count, Positive
from airfeel.registry import PARTITIONS, option
from airfeel.streams import stream


@PARTITIONS.register("iid", place=0)
@dataclass(frozen=True, slots=True)
class IID:
    """Samples of any class: every device's are drawn from all."""

    def draw(self, labels: Targets, sizes: Sequence[int], seed: int, pool: int | None = None) -> Partition:
        """Draw K_m = ``sizes[m]`` samples for device m from the first ``pool`` ones (None: all)."""
        available = len(pooled(labels, sizes, pool))
        return tuple(
            np.sort(stream(seed, "partition", device=m).choice(available, size, replace=False))
            for m, size in enumerate(sizes)
        )


@PARTITIONS.register("classes", place=10)
@dataclass(frozen=True, slots=True)
class ByClasses:
    """Samples of chi classes per device, drawn for each, in equal shares (Section VII)."""

    classes: Count = option(help="chi, classes per device")

    by_class: ClassVar[bool] = True

    def draw(self, labels: Targets, sizes: Sequence[int], seed: int, pool: int | None = None) -> Partition:
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


@PARTITIONS.register("dirichlet", place=20)
@dataclass(frozen=True, slots=True)
class Dirichlet(Checked):
    """Class shares of each device from a symmetric Dirichlet(alpha): the smaller, the less alike.

    Where a device would need more samples of a class than exist, the rest is spread over its other classes.
    """

    alpha: Positive = option(help="concentration of the class shares")

    by_class: ClassVar[bool] = True

    def draw(self, labels: Targets, sizes: Sequence[int], seed: int, pool: int | None = None) -> Partition:
        """Draw the shares of each device, then its samples."""
        labels = pooled(labels, sizes, pool)
        present, available = np.unique(labels, return_counts=True)
        parts = []
        for device, size in enumerate(sizes):
            draw = stream(seed, "partition", device=device)
            share = draw.dirichlet(np.full(len(present), self.alpha))
            parts.append(drawn(draw, labels, present, capped_counts(share, size, available), device))
        return tuple(parts)


@PARTITIONS.register("stretch", place=30)
@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples that follow one another in the data set, from a random place on: the pages of a book."""

    def draw(self, labels: Targets, sizes: Sequence[int], seed: int, pool: int | None = None) -> Partition:
        """Draw where the K_m = ``sizes[m]`` samples of device m begin."""
        available = len(pooled(labels, sizes, pool))
        draws = (stream(seed, "partition", device=m).integers(available - k + 1) for m, k in enumerate(sizes))
        return tuple(np.arange(start, start + size) for start, size in zip(draws, sizes, strict=True))
