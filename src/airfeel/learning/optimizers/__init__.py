"""The server's half of learning, theta <- theta - eta x^ (15): the ways to do it stand beside.

An optimizer is parameters and two pure functions on a frozen :class:`ServerState`; its vectors are empty
where the optimizer needs none, so that every state is the same three arrays in a checkpoint.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from airfeel import _checks
from airfeel.learning.tasks import Array
from airfeel.ranges import Checked, Count, Fraction, Positive, RateRule


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """Number of updates so far, first moment (or velocity) and second moment."""

    updates: int
    first: Array
    second: Array


Update = tuple[Array, ServerState]  # of the parameters, and the state after it


class Optimizer(Protocol):
    """How the server turns the recovered aggregate x^ into new parameters."""

    def init(self, size: int) -> ServerState:
        """Return the state before the first round."""

    def update(self, state: ServerState, theta: Array, aggregate: Array, rate: float) -> Update:
        """Return the new theta and state; arguments stay as they are."""


@dataclass(frozen=True, slots=True)
class Schedule(Checked):
    """The learning rate eta_t in round t = 1, 2, ..., which begins as ``rate``.

    ``kind`` is ``"constant"``; ``"step"``: times ``factor`` after every ``every`` rounds; ``"cosine"``: half
    a cosine from ``rate`` to ``factor * rate`` over ``every`` rounds, constant thereafter; or ``"inverse"``:
    rate / (1 + (t - 1) / every).

    >>> Schedule(0.1, "step", every=10, factor=0.5)(11)
    0.05
    """

    rate: Positive
    kind: RateRule = "constant"
    every: Count = 100
    factor: Fraction = 0.1

    def __call__(self, round: int) -> float:
        """Return eta in ``round`` (counted from 1)."""
        past = _checks.integer("round", round, at_least=1) - 1
        if self.kind == "step":
            return self.rate * self.factor ** (past // self.every)
        if self.kind == "cosine":
            fall = (1 + math.cos(math.pi * min(1.0, past / self.every))) / 2
            return self.rate * (self.factor + (1 - self.factor) * fall)
        if self.kind == "inverse":
            return self.rate / (1 + past / self.every)
        return self.rate
