"""FAIR-k: magnitude and age choose the coordinates, and stale values serve for the others.

J. Zhu, Z. Zhao, X. Li and others, "Timely parameter updating in over-the-air federated learning",
arXiv:2512.19103, 2025.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from airfeel.ranges import Share
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes.sparsification import largest
from airfeel.streams import stream
from airfeel.uplink.scheme import Array, Heard, Memory, Plan, Scheme, Sent, Setting, Shapes, size_of


@dataclass(frozen=True, slots=True, eq=False)
class FairKState:
    """What was heard last of every coordinate, and how many rounds ago."""

    symbols: int
    stale: Array
    age: NDArray[np.int32]


@SCHEMES.register("fair_k", place=46)
@dataclass(frozen=True)
class FairK(Scheme[FairKState]):
    """FAIR-k: the largest of what was heard last and the oldest are sent, and the others are used again.

    A share ``importance`` of the s coordinates are those whose last heard value is largest, the rest those
    that were not heard for longest. Devices send these of their updates as they are and carry nothing. The
    estimate has the new values there, and everywhere else those heard last.
    """

    importance: Share = option(0.5, "share of coordinates chosen by magnitude")

    linear = common_support = symbols_are_coordinates = True

    def init(self, shapes: Shapes, setting: Setting) -> FairKState:
        """Start with nothing heard."""
        size = size_of(shapes)
        return FairKState(setting.symbols, np.zeros(size), np.zeros(size, np.int32))

    def plan(self, state: FairKState, seed: int, round: int) -> Plan:
        """Announce the coordinates; equals are told apart by the seed."""
        ties = stream(seed, "schedule", round).random(len(state.age))
        by_size = int(self.importance * state.symbols + 0.5)
        chosen = np.zeros(len(ties), np.bool_)
        if by_size:
            chosen = largest(np.abs(state.stale)[None] * (1 + 1e-6 * ties), by_size)[0]
        if by_size < state.symbols:
            waited = np.where(chosen, -1, state.age + ties)
            chosen = chosen | largest(waited[None], state.symbols - by_size)[0]
        return {"chosen": np.flatnonzero(chosen).astype(np.int32)}

    def encode(self, plan: Plan, memory: Memory, update: Array) -> Sent:
        """Send the chosen coordinates."""
        return Sent(update[:, plan["chosen"]])

    def decode(self, state: FairKState, plan: Plan, heard: Heard) -> tuple[Estimate, FairKState]:
        """Renew what was heard; a round in which nobody was heard is no step."""
        sent = np.broadcast_to(heard.share, heard.observation.shape) > 0
        chosen, stale, age = plan["chosen"][sent], state.stale.copy(), state.age + 1
        stale[chosen] = (heard.observation / np.where(sent, heard.share, 1))[sent]
        age[chosen] = 0
        mean = np.zeros(len(stale)) if heard.silent else stale
        return Estimate(mean), replace(state, stale=stale, age=age)
