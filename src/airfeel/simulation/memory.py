"""How much memory a run takes, and how much disk what devices carry does, told before it is computed."""

from __future__ import annotations  # imports for type checkers alone

import bisect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfeel import _files
from airfeel.learning.datasets import Dataset
from airfeel.learning.tasks import Task
from airfeel.learning.training import Participation
from airfeel.units import count
from airfeel.uplink.memory import height
from airfeel.uplink.scheme import Scheme, Shapes

if TYPE_CHECKING:
    from airfeel.config import Config

MEMORIES = 2  # of all devices in memory, where they are not in files: those before a round, and after it
FILES = 4  # the same in files: two of checkpoints, those before a round, and after it
BLOCKS = 4  # arrays of one block's size at its peak: updates, their sums with the memories, what is kept ...
VECTORS = 10  # numbers of 8 bytes for each parameter: model, sums, truth, estimate, the optimizer's
PER_VALUE = 4.5  # bytes of one value of a sample on a device: single precision, and its place in the data set


@dataclass(frozen=True, slots=True)
class RunMemory:
    """Bytes of memory, beside the interpreter and its libraries, and of files of what devices carry."""

    memory: float
    disk: float

    def __str__(self) -> str:
        files = f", and {_bytes(self.disk)} on disk for the devices' memories" if self.disk else ""
        return f"about {_bytes(self.memory)} of memory{files}"


def estimate(
    config: Config, task: Task, source: Dataset, scheme: Scheme[Any], devices: int | None = None
) -> RunMemory:
    """Return about how much a run takes, with its own number of devices or another one."""
    size = float(task.size)
    number = 8 if str(getattr(task, "dtype", "")) == "float64" else 4  # bytes of a coefficient of an update
    devices = config.devices.count if devices is None else devices
    computing = Participation(config.devices.participation).computing(devices)
    symbols = count(config.uplink.ratio, task.size) if scheme.uses_radio else 0
    values = float(np.prod(source.shape, dtype=float)) * _samples(config, source)
    rows = [np.asarray(row) for row in scheme.memory(shapes_of(task)).values()]
    # What a device carries takes on the precision of updates, where it is floating numbers.
    carried = devices * sum(
        row.size * max(row.itemsize, number if row.dtype.kind == "f" else 0) for row in rows
    )
    in_files = carried > config.run.memory_map_above
    memory = (
        (0 if in_files else MEMORIES * carried)
        + BLOCKS * number * size * height(computing, task.size)
        + (number + 8) * symbols * computing  # the signals, and the same at the power they are sent with
        + getattr(config.part("channel"), "takes", 0.0) * symbols * computing
        + 8 * VECTORS * size
        + scheme.takes(task.size, symbols)
        + PER_VALUE * values * devices
    )
    return RunMemory(memory, FILES * carried if in_files else 0.0)


def shapes_of(task: Task) -> Shapes:
    """Return the model's tensors in the order of the flat vector; one of N where the task does not say."""
    return getattr(task, "shapes", None) or {"theta": (task.size,)}


def require_memory(config: Config, task: Task, source: Dataset, scheme: Scheme[Any]) -> RunMemory:
    """Return the estimate; refuse a run that needs more than this machine has, with what would fit."""
    needs, there = estimate(config, task, source, scheme), available()
    if needs.memory <= there:
        return needs

    def too_much(devices: int) -> bool:
        return estimate(config, task, source, scheme, devices).memory > there

    fitting = bisect.bisect_left(range(1, config.devices.count), True, key=too_much)
    samples = _samples(config, source)
    advice = f"{fitting} devices would fit" if fitting else "not even one device would fit"
    raise ValueError(
        f"devices.count = {config.devices.count}: with N = {task.size} and {samples:.0f} samples "
        f"on each they need about {_bytes(needs.memory)} of memory, and {_bytes(there)} are there; {advice}"
    )


def available() -> int:
    """Return the bytes of memory that this process may use: the machine's, or its container's."""
    limits = [_files.memory()]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(_files.read_text(Path(path))))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return min(limits)


def _samples(config: Config, source: Dataset) -> float:
    """Return how many samples a device holds on average; no device has more than there are."""
    samples, pool = config.devices.samples, source.pool_size(config.partition.pool)
    listed = samples if isinstance(samples, tuple) else (samples,)
    return sum(min(size, pool) for size in listed) / len(listed)


def _bytes(number: float) -> str:
    return f"{number / 1e9:.3g} GB" if number >= 1e9 else f"{number / 1e6:.3g} MB"
