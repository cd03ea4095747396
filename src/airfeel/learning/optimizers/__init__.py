"""The server's half of learning, theta <- theta - eta x^ (15): each way to do it is one file here.

An optimizer is parameters and two pure functions on a frozen :class:`ServerState`; its vectors are empty
where the optimizer needs none, so that every state is the same three arrays in a checkpoint.
"""

from dataclasses import dataclass
from typing import Protocol

from airfeel.learning.tasks import Array


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """Number of updates so far, first moment (or velocity) and second moment."""

    updates: int
    first: Array
    second: Array


class Optimizer(Protocol):
    """How the server turns the recovered aggregate x^ into new parameters."""

    def init(self, size: int) -> ServerState:
        """Return the state before the first round."""
        ...

    def update(
        self, state: ServerState, theta: Array, aggregate: Array, rate: float
    ) -> tuple[Array, ServerState]:
        """Return the new theta and state; arguments stay as they are."""
        ...
