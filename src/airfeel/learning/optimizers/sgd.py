"""Gradient descent."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from airfeel.learning.optimizers import ServerState
from airfeel.learning.tasks import Array
from airfeel.ranges import require
from airfeel.registry import OPTIMIZERS, option


@OPTIMIZERS.register("sgd", place=0)
@dataclass(frozen=True, slots=True)
class GradientDescent:
    """theta <- theta - eta u with u = x^ (15), or u = momentum u + x^ (heavy ball)."""

    momentum: Annotated[float, Field(ge=0, lt=1)] = option(0.0, "heavy ball")

    def __post_init__(self) -> None:
        """Refuse a momentum that would never forget."""
        require(self)

    def init(self, size: int) -> ServerState:
        """Start at rest."""
        return ServerState(0, np.zeros(size if self.momentum else 0), np.zeros(0))

    def update(
        self, state: ServerState, theta: Array, aggregate: Array, rate: float
    ) -> tuple[Array, ServerState]:
        """Take one step."""
        if not self.momentum:
            return theta - rate * aggregate, ServerState(state.updates + 1, state.first, state.second)
        velocity = self.momentum * state.first + aggregate
        return theta - rate * velocity, ServerState(state.updates + 1, velocity, state.second)
