"""Aggregation without a radio: the upper end of every comparison."""

from dataclasses import dataclass

import numpy as np

from airfeel.ranges import Fraction
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, fixed, option
from airfeel.schemes.sparsification import top_k
from airfeel.streams import derived
from airfeel.units import count
from airfeel.uplink.scheme import (
    Array,
    ErrorFeedback,
    Heard,
    Memory,
    Plan,
    Scheme,
    Sent,
    Setting,
    Shapes,
    size_of,
)


@SCHEMES.register("error_free", place=0)
@dataclass(frozen=True)
class ErrorFree(ErrorFeedback[None]):
    """Sparsified gradients, summed without radio: what the receivers try to reach.

    >>> import numpy as np
    >>> sent = ErrorFree(sparsity=0.5).compress({}, np.array([[4.0, 1.0], [0.0, 2.0]]))
    >>> sent.signal, sent.remainder
    (array([[4., 0.],
           [0., 2.]]), array([[0., 1.],
           [0., 0.]]))
    """

    sparsity: Fraction = option(0.2, "k/N, what a device keeps")

    uses_radio, exact = False, True

    def init(self, shapes: Shapes, setting: Setting) -> None:
        """Carry nothing."""

    def plan(self, state: None, seed: int, round: int) -> Plan:
        """Announce nothing."""
        return {}

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send the k largest entries of each row as they are (8)-(10)."""
        return Sent(*top_k(accumulated, count(self.sparsity, accumulated.shape[1])))

    def decode(self, state: None, plan: Plan, heard: Heard) -> tuple[Estimate, None]:
        """Take what arrived for what was sent."""
        return Estimate(heard.observation), None


@SCHEMES.register("dense", place=1)
@dataclass(frozen=True)
class Dense(ErrorFree):
    """Whole gradients, summed without radio: plain federated learning."""

    sparsity: float = fixed(1.0)

    linear = common_support = True


class WholeUpdates(Scheme[int]):
    """Whole updates without radio, and nobody carries anything: what did not arrive is lost."""

    uses_radio = False

    def init(self, shapes: Shapes, setting: Setting) -> int:
        """Remember N."""
        return size_of(shapes)

    def decode(self, state: int, plan: Plan, heard: Heard) -> tuple[Estimate, int]:
        """Take the mean of those who were heard."""
        return Estimate(np.zeros(state) if heard.silent else heard.observation / heard.share), state


@SCHEMES.register("fedavg", place=2)
@dataclass(frozen=True)
class FedAvg(WholeUpdates):
    """Whole updates without radio, and nobody carries anything: for devices too many to remember.

    What did not arrive is lost, and the server takes the mean of those it heard for all; where everything
    arrives that is ``dense``.
    """

    exact = linear = common_support = True

    def plan(self, state: int, seed: int, round: int) -> Plan:
        """Announce nothing."""
        return {}

    def encode(self, plan: Plan, memory: Memory, update: Array) -> Sent:
        """Send updates as they are."""
        return Sent(update)


class RoundedUpdates(WholeUpdates):
    """Whole updates in few bits, as messages: what ``eight_bit`` and ``eden`` share."""

    splits = True

    def plan(self, state: int, seed: int, round: int) -> Plan:
        """Announce the seed from which devices draw, each numbers of its own."""
        return {"seed": derived(seed, "rounding", round)}
