"""The simple rivals: all devices send the same coordinates, or their signs (OBDA with error feedback)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.ranges import Positive
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.streams import derived, stream
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes, size_of

TIE = 1e-12  # what rounding may leave of a vote that was a tie


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
        return {"seed": derived(seed, *address), "turn": turn, "symbols": state.symbols}

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


@SCHEMES.register("sign_vote", place=45)
@dataclass(frozen=True)
class SignVote(CommonCoordinates):
    """All devices send the signs of the same coordinates, and the server takes the majority's side.

    In each round s coordinates are drawn, those of ``common_k``. A device sends +1 or -1 for each (+1 for
    zero), the air adds up w_m times these, and the server's estimate is the sign of the sum times ``step``.
    Signs have no length, so ``step`` takes its place: a vote moves a parameter by ``step`` times the server's
    learning rate, in the units of an update, and wants tuning together with it.

    A device takes its own sign for ``step`` times that much of its update and keeps the rest: a coordinate
    that is smaller than the step votes for the other side next time, so that its votes have the right mean,
    and one that is larger votes on until all is said. What the majority overrules is lost; where devices hold
    different classes that is most, and a vote learns slowly or not at all. ``feedback = false`` is the
    paper's OBDA: a device forgets whatever is left when it was heard.

    Zhu, Du, Gunduz and Huang, "One-bit over-the-air aggregation for communication-efficient federated edge
    learning", IEEE Transactions on Wireless Communications 20(3), 2021; the error memory is that of
    Karimireddy, Rebjock, Stich and Jaggi, "Error feedback fixes SignSGD", ICML 2019.
    """

    step: Positive = option(0.1, "what a vote is worth: the estimate is plus or minus this")
    feedback: bool = option(True, "keep what the signs do not say; false: forget it, as the paper does")

    revision: ClassVar[int] = 2  # the error is that of the vote, against the same vote without noise

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send the signs of the chosen coordinates, and keep what a step to their side leaves."""
        chosen = chosen_by(plan, accumulated.shape[1])
        signs = np.where(accumulated[:, chosen] < 0, -1, 1).astype(accumulated.dtype)
        if not self.feedback:
            return Sent(signs, np.zeros_like(accumulated))
        remainder = accumulated.copy()
        remainder[:, chosen] -= accumulated.dtype.type(self.step) * signs
        return Sent(signs, remainder)

    def decode(self, state: CommonKState, plan: Plan, heard: Heard) -> tuple[Estimate, CommonKState]:
        """Go one step to the side of the majority in each coordinate, and nowhere where there is none."""
        mean = np.zeros(state.size)
        chosen = chosen_by(plan, state.size)
        mean[chosen] = self.step * np.where(np.abs(heard.observation) < TIE, 0, np.sign(heard.observation))
        return Estimate(mean), state


def chosen_by(plan: Plan, size: int) -> NDArray[np.intp]:
    """Return the coordinates that a plan announces."""
    turn = _checks.integer("turn", plan["turn"], at_least=0)  # a text could be multiplied too
    return coordinates(size, plan["symbols"], plan["seed"], turn)


@lru_cache(maxsize=1)
def coordinates(size: int, symbols: int, seed: int, turn: int) -> NDArray[np.intp]:
    """Return the coordinates of one turn, going round the permutation that ``seed`` stands for."""
    places = np.arange(turn * symbols, (turn + 1) * symbols) % size
    return np.asarray(stream(seed, "permutation").permutation(size))[places]
