"""One-bit digital over-the-air aggregation (OBDA), with error feedback.

Zhu, Du, Gunduz and Huang, "One-bit over-the-air aggregation for communication-efficient federated edge
learning", IEEE Transactions on Wireless Communications 20(3), 2021; the error memory is that of Karimireddy,
Rebjock, Stich and Jaggi, "Error feedback fixes SignSGD", ICML 2019.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from airfeel.ranges import Positive
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes.common_k import CommonCoordinates, CommonKState, chosen_by
from airfeel.uplink.scheme import Array, Heard, Plan, Sent

TIE = 1e-12  # what rounding may leave of a vote that was a tie


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
