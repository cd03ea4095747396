"""ScaleCom: the largest entries of one device serve all, with a low-pass filter in the error memories.

C.-Y. Chen, J. Ni, S. Lu and others, "ScaleCom: scalable sparsified gradient compression for
communication-efficient distributed training", NeurIPS 2020.
"""

from dataclasses import dataclass

import numpy as np

from airfeel.ranges import Fraction
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes.common_k import CommonCoordinates, CommonKState, chosen_by
from airfeel.schemes.sparsification import largest
from airfeel.uplink.scheme import Array, Heard, Memory, Plan, Sent


@SCHEMES.register("scalecom", place=48)
@dataclass(frozen=True)
class ScaleCom(CommonCoordinates):
    """ScaleCom: devices take turns to choose, each time the largest entries of one, and all send these.

    The leader of a round (cyclic local top-k) says where memory plus update, m + g, of its own is largest;
    that is a message of s positions before the round, free of error and counted with the plan. All send their
    m + g there, and keep m + beta (g - sent), with beta = ``newest``: 1 is ordinary error feedback, less lets
    a memory follow slowly, so that those of different devices stay alike.
    """

    newest: Fraction = option(1.0, "beta, how fast a memory follows what was not sent")

    exact = linear = leads = True

    def plan(self, state: CommonKState, seed: int, round: int) -> Plan:
        """Announce how many there will be; any coordinates, as long as nobody leads."""
        chosen = chosen_by(super().plan(state, seed, round), state.size)
        return {"chosen": np.sort(chosen).astype(np.int32)}

    def lead(self, plan: Plan, memory: Memory, update: Array) -> Plan:
        """Choose the largest entries of one device."""
        accumulated = np.abs(memory["error"] + update)
        return {"chosen": np.flatnonzero(largest(accumulated, len(plan["chosen"]))[0]).astype(np.int32)}

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send m + g where the leader says."""
        return Sent(accumulated[:, plan["chosen"]])

    def settle(self, plan: Plan, memory: Memory, update: Array, sent: Sent, delivered: Array) -> Memory:
        """Keep m + beta (g - what was delivered)."""
        arrived = delivered if delivered.ndim == 2 else delivered[:, None]
        left = update.copy()
        left[:, plan["chosen"]] -= arrived.astype(left.dtype) * sent.signal
        return {"error": memory["error"] + update.dtype.type(self.newest) * left}

    def decode(self, state: CommonKState, plan: Plan, heard: Heard) -> tuple[Estimate, CommonKState]:
        """Put what was heard where it belongs."""
        mean = np.zeros(state.size)
        mean[plan["chosen"]] = heard.observation
        return Estimate(mean), state
