"""SCAFCOM: local momentum and controlled averaging, with the same random coordinates for all.

X. Huang, P. Li and X. Li, "Stochastic controlled averaging for federated learning with communication
compression", ICLR 2024.
"""

from dataclasses import dataclass, replace

import numpy as np

from airfeel.ranges import Fraction, Share
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes.common_k import CommonK, CommonKState, chosen_by
from airfeel.uplink.scheme import Array, Heard, Memory, Plan, Scheme, Sent, Setting, Shapes, size_of


@dataclass(frozen=True, slots=True, eq=False)
class ScafcomState:
    """N and s; c, the mean of all controls, as it was in ``round``."""

    shape: CommonKState
    control: Array
    round: int = 0


@SCHEMES.register("scafcom", place=47)
@dataclass(frozen=True)
class Scafcom(Scheme[ScafcomState]):
    """SCAFCOM: devices send how their momentum differs from a control that the server knows the mean of.

    v <- (1 - beta) v + beta g with beta = ``newest``; delta_m = v - c_m on s coordinates drawn anew for all
    alike; the estimate is c + the mean of delta over those heard. Then c_m <- c_m + delta_m, and c follows by
    the share heard. The estimate is dense: what is not sent is taken from c. ``fade`` = 1 is the paper's; in
    a channel with noise, which c would gather for good, both sides forget.
    """

    newest: Fraction = option(0.2, "beta, the share of the new update in a device's momentum")
    fade: Share = option(0.95, "what is left of a control after a round")

    linear = common_support = symbols_are_coordinates = True
    stateless = False

    def init(self, shapes: Shapes, setting: Setting) -> ScafcomState:
        """Start with controls of zero."""
        return ScafcomState(CommonK().init(shapes, setting), np.zeros(size_of(shapes)))

    def memory(self, shapes: Shapes) -> Memory:
        """Start with neither momentum nor control, which faded last in round 0."""
        rows = {name: np.zeros(size_of(shapes), np.float32) for name in ("momentum", "control")}
        return {**rows, "faded": np.zeros(1, np.int32)}

    def plan(self, state: ScafcomState, seed: int, round: int) -> Plan:
        """Announce the seed of the coordinates, and the round."""
        return {**CommonK().plan(state.shape, seed, round), "round": round}

    def encode(self, plan: Plan, memory: Memory, update: Array) -> Sent:
        """Send delta."""
        chosen, newest = chosen_by(plan, update.shape[1]), update.dtype.type(self.newest)
        momentum = memory["momentum"] + newest * (update - memory["momentum"])
        known = self._faded(plan, memory, update) * memory["control"][:, chosen]
        return Sent(momentum[:, chosen] - known, momentum)

    def settle(self, plan: Plan, memory: Memory, update: Array, sent: Sent, delivered: Array) -> Memory:
        """Move the control by what was delivered."""
        arrived = delivered if delivered.ndim == 2 else delivered[:, None]
        control = self._faded(plan, memory, update) * memory["control"]
        control[:, chosen_by(plan, update.shape[1])] += arrived.astype(control.dtype) * sent.signal
        faded = np.full_like(memory["faded"], plan["round"])
        return {"momentum": sent.remainder, "control": control, "faded": faded}

    def decode(self, state: ScafcomState, plan: Plan, heard: Heard) -> tuple[Estimate, ScafcomState]:
        """Add what was heard to the control; a round in which nobody was heard is no step."""
        chosen = chosen_by(plan, state.shape.size)
        control = state.control * self.fade ** (plan["round"] - state.round)
        mean, share = control.copy(), np.asarray(heard.share)
        mean[chosen] += heard.observation / np.where(share > 0, share, 1)
        control[chosen] += heard.computed * heard.observation
        mean = np.zeros_like(mean) if heard.silent else mean
        return Estimate(mean), replace(state, control=control, round=plan["round"])

    def _faded(self, plan: Plan, memory: Memory, update: Array) -> Array:
        return np.asarray(self.fade ** (plan["round"] - memory["faded"]), update.dtype)
