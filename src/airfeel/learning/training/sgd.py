"""Stochastic gradient descent on the devices."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from airfeel import _checks
from airfeel.learning.tasks import Array, Samples, Task
from airfeel.ranges import Count, NonNegative, require
from airfeel.registry import TRAININGS, option
from airfeel.streams import stream


@TRAININGS.register("sgd", place=0)
@dataclass(frozen=True, slots=True)
class LocalSGD:
    """Stochastic gradient descent on every device, anew in every round.

    A batch is drawn without replacement, and is full from K_m on. An epoch has a new order each time, in
    batches one after the other, the last one smaller where ``batch_size`` does not divide K_m. With momentum
    a step goes along v = momentum v + gradient; v starts at zero in every round.
    """

    local_steps: Count = option(1, "E, steps of local training in a round")
    batch_size: Count | None = option(None, "samples per local step; unset: all of them")
    local_epochs: Count | None = option(None, "go through all samples so often instead of local_steps")
    momentum: Annotated[float, Field(ge=0, lt=1)] = option(0.0, "heavy ball in the local steps of a round")
    weight_decay: NonNegative = option(0.0, "adds weight_decay theta to the gradients of local steps")

    either: ClassVar[tuple[str, str]] = ("local_steps", "local_epochs")  # of which one is given

    def __post_init__(self) -> None:
        """Refuse impossible values, and two ways to say how long."""
        require(self)
        if self.local_epochs is not None and self.local_steps != 1:
            rule = f"must be 1 (not given) with local_epochs = {self.local_epochs}"
            raise _checks.reject("local_steps", self.local_steps, rule)

    def accumulated_gradient(
        self, task: Task, theta: Array, samples: Samples, rate: float, seed: int, round: int, device: int
    ) -> Array:
        """Return g_m = (theta_start - theta_end) / eta (3)(4), for one plain step the gradient itself.

        It is summed over the steps rather than divided out of the difference, which single precision would
        cancel away. With this sign the server descends by theta - eta g; the paper prints the opposite.
        """
        batches = self.batches(samples, seed, round, device)
        if hasattr(task, "descent") and not self.momentum and not self.weight_decay:
            # The same bytes with fewer passes over all parameters.
            return np.asarray(task.descent(theta, batches, rate))
        total = step = self._gradient(task, theta, next(batches))
        for batch in batches:
            gradient = self._gradient(task, theta - rate * total, batch)
            step = self.momentum * step + gradient if self.momentum else gradient
            total = total + step
        return total

    def _gradient(self, task: Task, theta: Array, batch: Samples) -> Array:
        """Return the gradient with weight decay, in the precision of the task."""
        gradient = task.gradient(theta, batch)
        if self.weight_decay:
            gradient = gradient + (self.weight_decay * theta).astype(gradient.dtype)
        return gradient

    def batches(self, samples: Samples, seed: int, round: int, device: int) -> Iterator[Samples]:
        """Yield the samples of every local step of a device in a round."""
        count = len(samples)
        if self.batch_size is None or self.batch_size >= count:
            yield from (samples for _ in range(self.local_epochs or self.local_steps))
            return
        draw, size = stream(seed, "batch", round, device), self.batch_size
        if self.local_epochs is None:
            for _ in range(self.local_steps):
                yield samples.take(np.sort(draw.choice(count, size, replace=False)))
            return
        for _ in range(self.local_epochs):
            order = draw.permutation(count)
            for start in range(0, count, size):
                yield samples.take(np.sort(order[start : start + size]))
