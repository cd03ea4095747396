"""What devices do in a round: who takes part, local training (3)(4) (each rule is one file), evaluation.

The gradients of a round are rows of an array (M, N), row m belonging to device m, computed for all devices
or for a few at a time. Every device computes with one BLAS thread and writes its own row, so the bytes do not
depend on the number of threads.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from airfeel.arrays import Mask
from airfeel.learning.tasks import Array, Samples, Score, Task
from airfeel.ranges import Checked, Fraction
from airfeel.streams import stream
from airfeel.workers import Workers


class LocalTraining(Protocol):
    """What a device does with its samples in a round: a frozen dataclass, whose fields are its options."""

    def accumulated_gradient(
        self, task: Task, theta: Array, samples: Samples, rate: float, seed: int, round: int, device: int
    ) -> Array:
        """Return g_m = (theta_start - theta_end) / eta (3)(4), by which the server descends."""


@dataclass(frozen=True, slots=True)
class Participation(Checked):
    """Who takes part in a round.

    A random ``fraction`` of the devices is selected and computes; each of these fails to send with
    probability ``dropout``. A device that is not selected computes nothing; a dropped one computed, did not
    send, and keeps everything in its error memory.
    """

    fraction: Fraction = 1.0
    dropout: Annotated[float, Ge(0), Le(1)] = 0.0

    def computing(self, num_devices: int) -> int:
        """Return how many of the devices compute in every round."""
        return max(1, int(self.fraction * num_devices + 0.5))

    def draw(self, num_devices: int, seed: int, round: int) -> tuple[Mask, Mask]:
        """Return two masks (M,): the devices that compute, and those among them that send."""
        selected = np.ones(num_devices, dtype=np.bool_)
        if self.fraction < 1:
            mixed = stream(seed, "participation", round).permutation(num_devices)
            chosen = mixed[: self.computing(num_devices)]
            selected[:] = False
            selected[chosen] = True
        if self.dropout == 0:
            return selected, selected
        stays = stream(seed, "dropout", round).random(num_devices) >= self.dropout
        return selected, selected & stays


def local_gradients(
    task: Task,
    theta: Array,
    data: Sequence[Samples],
    training: LocalTraining,
    *,
    rate: float,
    seed: int,
    round: int,
    devices: Sequence[int] | NDArray[np.intp] | None = None,
    workers: Workers,
    trained: Callable[[], None] = lambda: None,
) -> Array:
    """Return the accumulated gradients g_m of some ``devices`` (all) as (devices, N).

    ``rate`` is eta in this round. The result has the precision in which the task computes. ``trained`` is
    called after every device, by the thread that computed it.
    """
    wanted = range(len(data)) if devices is None else [int(device) for device in devices]

    gradients: list[Array] = []  # one array, made when the first device tells its precision
    one_at_a_time = threading.Lock()

    def train(row: int) -> None:
        device = wanted[row]
        with np.errstate(all="ignore"):  # a training that diverges is told by what comes of it
            gradient = training.accumulated_gradient(task, theta, data[device], rate, seed, round, device)
        with one_at_a_time:
            if not gradients:
                gradients.append(workers.rows(len(wanted), task.size, gradient.dtype))
        gradients[0][row] = gradient  # at once, so that no row is there twice for long
        trained()

    workers.map(train, range(len(wanted)))
    return gradients[0] if gradients else np.empty((0, task.size), np.float32)


def shares(data: Sequence[Samples]) -> Array:
    """Return w_m = K_m / K for every device."""
    sizes = np.array([float(len(samples)) for samples in data])
    return sizes / float(sizes.sum())


def evaluate(task: Task, theta: Array, parts: Sequence[Samples], workers: Workers) -> Score:
    """Return the score over all ``parts`` together, each computed by one thread."""

    def score(part: Samples) -> Score:
        with np.errstate(all="ignore"):
            return task.evaluate(theta, part)

    found = list(zip(workers.map(score, parts), map(len, parts), strict=True))
    count = sum(size for _, size in found)
    loss = sum(score.loss * size for score, size in found) / count
    return Score(loss, sum(score.accuracy * size for score, size in found) / count)


def split(task: Task, images: NDArray[Any], labels: NDArray[Any], part: int = 1000) -> list[Samples]:
    """Prepare a test set in parts of at most ``part`` samples, for :func:`evaluate`."""
    starts = range(0, len(images), part)
    return [task.prepare(images[i : i + part], labels[i : i + part]) for i in starts]
