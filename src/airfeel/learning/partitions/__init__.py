"""Which samples each device holds.

A partition is a tuple of index vectors into the training set, one for each device. The rules by which it can
be drawn stand beside. Samples are drawn without replacement inside a device; devices may overlap. Every
device draws from its own stream, so that adding a device changes nothing for the others.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.arrays import Indices
from airfeel.streams import stream

Partition = tuple[Indices, ...]
Targets = NDArray[Any]  # classes, or the numbers of a regression, one for each sample

_COLUMNS = 40  # classes that a table shows one by one


class PartitionRule(Protocol):
    """How the devices' samples are drawn: a frozen dataclass, whose fields are its options.

    One that looks at the class of a sample has the class attribute ``by_class = True``: it is refused for
    data whose samples have not one class each.
    """

    def draw(self, labels: Targets, sizes: Sequence[int], seed: int, pool: int | None = None) -> Partition:
        """Return K_m = ``sizes[m]`` samples for each device m, of the first ``pool`` ones (None: all)."""


def unequal_sizes(
    num_devices: int, mean: int, spread: float, seed: int, pool: int | None = None
) -> list[int]:
    """Draw log-normal K_m with sum ``num_devices * mean``, at least 1 and at most ``pool`` (if given) each.

    ``spread`` is the standard deviation of log K_m; 0 gives equal sizes.
    """
    _checks.integer("num_devices", num_devices, at_least=1)
    _checks.integer("mean", mean, at_least=1, at_most=pool)
    _checks.real("spread", spread, at_least=0, at_most=50)  # beyond it all but a few devices hold one sample
    share = np.exp(spread * stream(seed, "sizes").standard_normal(num_devices))
    limit = np.full(num_devices, num_devices * mean if pool is None else pool)
    return [int(k) for k in 1 + capped_counts(share / share.sum(), num_devices * (mean - 1), limit - 1)]


def class_counts(labels: NDArray[Any], partition: Partition) -> NDArray[np.intp]:
    """Return a table (devices, classes): how many samples of each class every device holds."""
    classes = int(np.max(labels)) + 1
    return np.array([np.bincount(labels[part], minlength=classes) for part in partition])


def class_table(labels: NDArray[Any], partition: Partition) -> str:
    """Return :func:`class_counts` as text; of many classes how many a device holds, of targets only K_m.

    >>> labels = np.array([0, 1, 1, 2])
    >>> print(class_table(labels, (np.array([0, 1]), np.array([1, 2, 3]))))
    device  K_m   0   1   2
         0    2   1   1   .
         1    3   .   2   1
    """
    sizes = [len(part) for part in partition]
    heads, rows = _columns(labels, partition)
    wide = max(3, len(str(max(sizes))))
    width = max(3, *(len(cell) for row in [heads, *rows] for cell in row), 0)
    lines = [f"device  {'K_m':>{wide}}" + "".join(f" {head:>{width}}" for head in heads)]
    for device, row in enumerate(rows):
        lines.append(f"{device:>6}  {sizes[device]:>{wide}}" + "".join(f" {cell:>{width}}" for cell in row))
    return "\n".join(lines)


def _columns(labels: NDArray[Any], partition: Partition) -> tuple[list[str], list[list[str]]]:
    if labels.dtype.kind == "f" or labels.ndim > 1:
        return [], [[] for _ in partition]
    if labels.max() >= _COLUMNS:
        return ["classes"], [[str(len(np.unique(labels[part])))] for part in partition]
    counts = class_counts(labels, partition)
    return [str(c) for c in range(counts.shape[1])], [[str(n or ".") for n in row] for row in counts]


def overlap(partition: Partition) -> str:
    """Say in a sentence whether devices hold samples in common.

    >>> overlap((np.array([0, 1]), np.array([1, 2, 3])))
    'devices share samples: 25 % of the 4 that are in use are held by more than one'
    """
    holders = np.bincount(np.concatenate(partition))
    used, several = np.count_nonzero(holders), np.count_nonzero(holders > 1)
    if not several:
        return f"devices share no samples: each of the {used:,} that are in use is held by one"
    share = f"{100 * several / used:.3g} %"
    return f"devices share samples: {share} of the {used:,} that are in use are held by more than one"


def pooled(labels: NDArray[Any], sizes: Sequence[int], pool: int | None) -> NDArray[Any]:
    """Return the labels of the samples from which devices draw so many each."""
    if pool is not None:
        _checks.integer("pool", pool, at_least=1)
    if len(sizes) == 0:
        raise _checks.reject("sizes", list(sizes), "must hold K_m for at least one device")
    labels = np.asarray(labels)[:pool]
    for device, size in enumerate(sizes):
        _checks.integer(f"sizes[{device}]", size, at_least=1, at_most=len(labels))
    return labels


def drawn(
    draw: np.random.Generator,
    labels: NDArray[Any],
    classes: NDArray[Any],
    counts: NDArray[np.intp],
    device: int,
) -> Indices:
    """Draw ``counts[c]`` samples of each class without replacement."""
    parts = []
    for label, count in zip(classes, counts, strict=True):
        members = np.flatnonzero(labels == label)
        if count > len(members):
            rule = f"only {len(members)} exist: device {device} needs fewer samples or more classes"
            raise _checks.reject(f"samples of class {label}", int(count), rule)
        parts.append(draw.choice(members, count, replace=False))
    return np.sort(np.concatenate(parts))


def capped_counts(share: NDArray[Any], total: int, limit: NDArray[np.intp]) -> NDArray[np.intp]:
    """Split ``total`` in proportion to ``share`` by largest remainders, no part above its limit."""
    counts = np.zeros(len(share), dtype=np.intp)
    share = np.maximum(share, np.finfo(float).tiny)
    while (left := total - int(counts.sum())) > 0:
        free = counts < limit
        exact = np.where(free, share, 0) * (left / share[free].sum())
        more = np.floor(exact).astype(np.intp)
        rest = left - int(more.sum())
        more[np.argsort(-np.where(free, exact - more, -1), kind="stable")[:rest]] += 1
        counts = np.minimum(counts + more, limit)
    return counts
