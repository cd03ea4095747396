"""The simple rival: all devices send the same coordinates, and the server reads their sum off the air."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.streams import bits, stream
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes, size_of


@dataclass(frozen=True, slots=True)
class CommonKState:
    """N and s; the server remembers nothing else."""

    size: int
    symbols: int


class CommonCoordinates(ErrorFeedback[CommonKState]):
    """All devices send the same coordinates, drawn anew in each round: what ``common_k`` and votes share."""

    order = "random"
    common_support = symbols_are_coordinates = True

    def init(self, shapes: Shapes, setting: Setting) -> CommonKState:
        """Remember how many there are, and how many are sent."""
        return CommonKState(size_of(shapes), setting.symbols)

    def plan(self, state: CommonKState, seed: int, round: int) -> Plan:
        """Announce the seed from which devices and server draw the coordinates."""
        turn = round - 1 if self.order == "turns" else 0
        address = ("permutation", 0) if self.order == "turns" else ("coordinates", round)
        return {"seed": int(bits(seed, *address).random_raw() >> 1), "turn": turn, "symbols": state.symbols}

    def remember(self, plan: Plan, accumulated: Array, sent: Sent, delivered: Array) -> Array:
        """Keep what was not delivered of the coordinates, and the rest."""
        chosen, memory = chosen_by(plan, accumulated.shape[1]), np.array(sent.remainder)
        left, had = memory[:, chosen], accumulated[:, chosen]
        missed = (1 - delivered).astype(had.dtype) * (had - left)
        memory[:, chosen] = np.where(delivered == 0, had, left + missed)
        return memory


@SCHEMES.register("common_k", place=40)
@dataclass(frozen=True)
class CommonK(CommonCoordinates):
    """All devices send the same coordinates, and the sum is read directly.

    ``order = "random"`` draws s of N coordinates anew in each round. ``"turns"`` goes round one random
    permutation; that resonates with the error memory and oscillates at large learning rates, and is kept for
    comparison. There is nothing to recover: y is the weighted mean of the coordinates sent plus noise.
    """

    order: Literal["random", "turns"] = option("random", "random: chosen anew in each round; or turns")

    exact = linear = True
    revision: ClassVar[int] = 2  # a random choice, where version 0.1 took turns

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send the chosen coordinates of every row and keep the others."""
        chosen, remainder = chosen_by(plan, accumulated.shape[1]), accumulated.copy()
        remainder[:, chosen] = 0
        return Sent(accumulated[:, chosen], remainder)

    def decode(self, state: CommonKState, plan: Plan, heard: Heard) -> tuple[Estimate, CommonKState]:
        """Put what was heard where it belongs."""
        mean = np.zeros(state.size)
        mean[chosen_by(plan, state.size)] = heard.observation
        return Estimate(mean), state


def chosen_by(plan: Plan, size: int) -> NDArray[np.intp]:
    """Return the coordinates that a plan announces."""
    return coordinates(size, plan["symbols"], plan["seed"], plan["turn"])


@lru_cache(maxsize=1)
def coordinates(size: int, symbols: int, seed: int, turn: int) -> NDArray[np.intp]:
    """Return the coordinates of one turn, going round the permutation that ``seed`` stands for."""
    places = np.arange(turn * symbols, (turn + 1) * symbols) % size
    return np.asarray(stream(seed, "permutation").permutation(size))[places]
