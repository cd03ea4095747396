"""Gradient descent, and Adam."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from airfeel.learning.optimizers import ServerState, Update
from airfeel.learning.tasks import Array
from airfeel.ranges import Checked, Positive
from airfeel.registry import OPTIMIZERS, option


@OPTIMIZERS.register("sgd", place=0)
@dataclass(frozen=True, slots=True)
class GradientDescent(Checked):
    """theta <- theta - eta u with u = x^ (15), or u = momentum u + x^ (heavy ball)."""

    momentum: Annotated[float, Field(ge=0, lt=1)] = option(0.0, "heavy ball")

    def init(self, size: int) -> ServerState:
        """Start at rest."""
        return ServerState(0, np.zeros(size if self.momentum else 0), np.zeros(0))

    def update(self, state: ServerState, theta: Array, aggregate: Array, rate: float) -> Update:
        """Take one step."""
        if not self.momentum:
            step = rate * aggregate
            step = step.astype(np.result_type(theta, step), copy=False)  # large ones are not allocated twice
            found = np.subtract(theta, step, out=step)
            return found, ServerState(state.updates + 1, state.first, state.second)
        velocity = self.momentum * state.first + aggregate
        return theta - rate * velocity, ServerState(state.updates + 1, velocity, state.second)


@OPTIMIZERS.register("adam", place=10)
@dataclass(frozen=True, slots=True)
class Adam(Checked):
    """Adam on x^ (Kingma and Ba, 2015)."""

    beta1: Annotated[float, Field(ge=0, lt=1)] = option(0.9, "how much is kept of the first moment")
    beta2: Annotated[float, Field(ge=0, lt=1)] = option(0.999, "how much is kept of the second moment")
    epsilon: Positive = option(1e-8, "added to the root of the second moment")

    def init(self, size: int) -> ServerState:
        """Start with zero moments."""
        return ServerState(0, np.zeros(size), np.zeros(size))

    def update(self, state: ServerState, theta: Array, aggregate: Array, rate: float) -> Update:
        """Take one bias-corrected step."""
        count = state.updates + 1
        first = self.beta1 * state.first + (1 - self.beta1) * aggregate
        second = self.beta2 * state.second + (1 - self.beta2) * aggregate**2
        mean = first / (1 - self.beta1**count)
        size = np.sqrt(second / (1 - self.beta2**count)) + self.epsilon
        return theta - rate * mean / size, ServerState(count, first, second)
