"""The simple rival: all devices send the same coordinates, and the server reads their sum off the air."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.streams import bits, stream
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes, size_of


@dataclass(frozen=True, slots=True)
class CommonKState:
    """N and s; the server remembers nothing else."""

    size: int
    symbols: int


@SCHEMES.register("common_k", place=40)
@dataclass(frozen=True)
class CommonK(ErrorFeedback[CommonKState]):
    """All devices send the same coordinates, and the sum is read directly.

    ``order = "random"`` draws s of N coordinates anew in each round. ``"turns"`` goes round one random
    permutation, so that every coordinate has its turn once in N/s rounds; that resonates with the error
    memory and oscillates at large learning rates, and is kept for comparison. What was not sent waits in the
    error memory. There is nothing to recover: y is the weighted mean of the coordinates sent plus noise.
    """

    order: Literal["random", "turns"] = option("random", "random: chosen anew in each round; or turns")

    exact = linear = common_support = symbols_are_coordinates = True
    revision: ClassVar[int] = 2  # a random choice, where version 0.1 took turns

    def __post_init__(self) -> None:
        """Refuse another order."""
        _checks.choice("order", self.order, ("random", "turns"))

    def init(self, shapes: Shapes, setting: Setting) -> CommonKState:
        """Remember how many there are, and how many are sent."""
        return CommonKState(size_of(shapes), setting.symbols)

    def plan(self, state: CommonKState, seed: int, round: int) -> Plan:
        """Announce the seed from which devices and server draw the coordinates."""
        turn = round - 1 if self.order == "turns" else 0
        address = ("permutation", 0) if self.order == "turns" else ("coordinates", round)
        return {"seed": int(bits(seed, *address).random_raw() >> 1), "turn": turn, "symbols": state.symbols}

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send the chosen coordinates of every row and keep the others."""
        chosen = coordinates(accumulated.shape[1], plan["symbols"], plan["seed"], plan["turn"])
        remainder = accumulated.copy()
        remainder[:, chosen] = 0
        return Sent(accumulated[:, chosen], remainder)

    def remember(self, plan: Plan, accumulated: Array, sent: Sent, delivered: Array) -> Array:
        """Keep the coordinates that were not delivered."""
        chosen = coordinates(accumulated.shape[1], plan["symbols"], plan["seed"], plan["turn"])
        return undelivered(accumulated, sent, delivered, chosen)

    def decode(self, state: CommonKState, plan: Plan, heard: Heard) -> tuple[Estimate, CommonKState]:
        """Put what was heard where it belongs."""
        mean = np.zeros(state.size)
        mean[coordinates(state.size, plan["symbols"], plan["seed"], plan["turn"])] = heard.observation
        return Estimate(mean), state


def undelivered(accumulated: Array, sent: Sent, delivered: Array, chosen: NDArray[np.intp]) -> Array:
    """Return the memories where symbols are coordinates: what was not delivered of these, and the rest."""
    memory: Array = sent.remainder.copy()
    left = memory[:, chosen]
    missed = (1 - delivered).astype(accumulated.dtype) * (accumulated[:, chosen] - left)
    memory[:, chosen] = np.where(delivered == 0, accumulated[:, chosen], left + missed)
    return memory


@lru_cache(maxsize=1)
def coordinates(size: int, symbols: int, seed: int, turn: int) -> NDArray[np.intp]:
    """Return the coordinates of one turn, going round the permutation that ``seed`` stands for."""
    order: NDArray[Any] = stream(seed, "permutation").permutation(size)
    start = turn * symbols
    return order[np.arange(start, start + symbols) % size]
