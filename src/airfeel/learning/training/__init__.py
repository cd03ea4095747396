"""Local training on the devices (3)(4): each rule is one file here."""

from typing import Protocol

from airfeel.learning.tasks import Array, Samples, Task


class LocalTraining(Protocol):
    """What a device does with its samples in a round: a frozen dataclass, whose fields are its options."""

    def accumulated_gradient(
        self, task: Task, theta: Array, samples: Samples, rate: float, seed: int, round: int, device: int
    ) -> Array:
        """Return g_m = (theta_start - theta_end) / eta (3)(4), by which the server descends."""
        ...
