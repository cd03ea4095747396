"""Compressed analog aggregation: the radio half of a round of TSA-GA and its relatives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from airfeel import _checks
from airfeel.aggregators.base import (
    Aggregate,
    Air,
    AirState,
    Array,
    Mask,
    count,
    empty_state,
    remember,
    senders,
    silent,
    weighted_mean,
)
from airfeel.operators import PartialDCT
from airfeel.receivers.base import Receiver, Reception
from airfeel.streams import bits
from airfeel.transmit import accumulate, top_k


@dataclass(frozen=True, slots=True)
class OverTheAir:
    """Sparsify, compress, send at once, recover.

    Parameters
    ----------
    receiver
        What the server runs, such as ``TSAGA(activity=0.2)``.
    ratio
        s/N: channel uses per parameter.
    sparsity
        k/N: what each device keeps before it compresses.
    air
        Channel and power policy.
    operator
        Called with (size, rows, seed) in every round; ``functools.partial(PartialDCT, signs=True)`` and
        ``GaussianMatrix`` are others.
    """

    receiver: Receiver[Any]
    ratio: float = 0.1
    sparsity: float = 0.2
    air: Air = field(default_factory=Air)
    operator: Callable[[int, int, int], LinearOperator] = PartialDCT

    def __post_init__(self) -> None:
        """Refuse shares outside (0, 1]."""
        _checks.real("ratio", self.ratio, above=0, at_most=1)
        _checks.real("sparsity", self.sparsity, above=0, at_most=1)

    def init(self, num_devices: int, size: int) -> AirState:
        """Start with empty error memories and a receiver that knows nothing."""
        return empty_state(num_devices, size, self.receiver.init(size))

    def aggregate(
        self,
        state: AirState,
        gradients: Array,
        weights: Array,
        *,
        seed: int,
        round: int,
        sending: Mask | None = None,
    ) -> tuple[Aggregate, AirState]:
        """Carry one round from the devices' gradients to the server's estimate, (8) to (14)."""
        num_devices, size = gradients.shape
        link = self.air.channel.link(num_devices, seed, round)
        active = senders(weights, sending) & link.active

        accumulated = accumulate(state.memory, gradients)
        kept, remainder = top_k(accumulated, count(self.sparsity, size))
        operator = self.operator(size, count(self.ratio, size), shared_seed(seed, round))
        payload = np.asarray(operator @ kept.T).T

        arrival = self.air.carry(payload, weights, link, active, state.ledger, seed, round)
        if arrival is None:
            return silent(state, accumulated, self.air.policy.power)
        ledger = state.ledger.charge(arrival.energy, self.air.policy.power)
        memory = remember(remainder, accumulated, active)

        reception = Reception(arrival.observation, operator, arrival.noise_var)
        estimate, receiver = self.receiver.receive(state.receiver, reception)
        truth = weighted_mean(kept, weights, active)
        aggregate = Aggregate(
            mean=estimate.mean,
            truth=truth,
            active=active,
            energy=arrival.energy,
            channel_uses=operator.shape[0],
            alpha=arrival.alpha,
            noise_var=arrival.noise_var,
            info=estimate.info,
            variance=estimate.variance,
        )
        return aggregate, AirState(memory, ledger, receiver)


def shared_seed(seed: int, round: int) -> int:
    """Return the seed of a round's operator, known to devices and server."""
    return int(bits(seed, "operator", round).random_raw() >> 1)
