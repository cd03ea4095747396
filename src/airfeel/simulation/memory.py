"""How much memory a run takes, told before anything is computed."""

from pathlib import Path

import numpy as np

from airfeel import _files
from airfeel.config import Config
from airfeel.learning.datasets import Dataset
from airfeel.learning.tasks import Task

# Arrays (M, N) alive at once at the peak of a round: updates, memories, what is kept, its spectrum.
COPIES = 7
PER_VALUE = 4.5  # bytes of one value of a sample on a device: single precision, and its place in the data set


def require_memory(config: Config, task: Task, source: Dataset) -> None:
    """Refuse a run whose devices together need more than this machine has, with what would fit.

    Raises
    ------
    ValueError
        With the estimate, the memory there is, and the number of devices that fit into it.
    """
    each, there = device_bytes(config, task, source), available()
    needed = each * config.devices.count
    if needed <= there:
        return
    fitting, samples = int(there / each), _samples(config, source)
    advice = f"{fitting} devices would fit" if fitting else "not even one device would fit"
    raise ValueError(
        f"devices.count = {config.devices.count}: with N = {task.size} and {samples:.0f} samples "
        f"on each they need about {_gigabytes(needed)} of memory, and {_gigabytes(there)} are there; {advice}"
    )


def device_bytes(config: Config, task: Task, source: Dataset) -> float:
    """Return about how many bytes one device takes: its samples, and its rows of a round's arrays."""
    number = 8 if str(getattr(task, "dtype", "")) == "float64" else 4
    values = float(np.prod(source.shape, dtype=float))
    return COPIES * number * float(task.size) + PER_VALUE * values * _samples(config, source)


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


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB"
