"""The simple rival: all devices send the same coordinates, and the server reads their sum off the air."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.aggregators.base import (
    Aggregate,
    Air,
    AirState,
    Array,
    Mask,
    count,
    empty_state,
    senders,
    silent,
    weighted_mean,
)
from airfeel.streams import stream
from airfeel.transmit import accumulate


@dataclass(frozen=True, slots=True)
class CommonK:
    """Send s = ``ratio`` N coordinates per round, the next ones of a random permutation shared by all.

    Every coordinate has its turn once in N/s rounds; meanwhile it waits in the error memory. There is nothing
    to recover: y is the weighted mean of these coordinates plus noise, all others are left as they are.
    """

    ratio: float = 0.1
    air: Air = field(default_factory=Air)

    def __post_init__(self) -> None:
        """Refuse a ratio that is no share."""
        _checks.real("ratio", self.ratio, above=0, at_most=1)

    def init(self, num_devices: int, size: int) -> AirState:
        """Start with empty error memories."""
        return empty_state(num_devices, size)

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
        """Carry one round from the devices' gradients to the server's estimate."""
        num_devices, size = gradients.shape
        link = self.air.channel.link(num_devices, seed, round)
        active = senders(weights, sending) & link.active

        accumulated = accumulate(state.memory, gradients)
        turn = coordinates(size, count(self.ratio, size), seed, round)
        payload = accumulated[:, turn]

        arrival = self.air.carry(payload, weights, link, active, state.ledger, seed, round)
        if arrival is None:
            return silent(state, accumulated, self.air.policy.power)
        ledger = state.ledger.charge(arrival.energy, self.air.policy.power)
        memory = accumulated.copy()
        memory[np.ix_(active, turn)] = 0

        mean, truth = np.zeros(size), np.zeros(size)
        mean[turn] = arrival.observation
        truth[turn] = weighted_mean(payload, weights, active)
        aggregate = Aggregate(
            mean=mean,
            truth=truth,
            active=active,
            energy=arrival.energy,
            channel_uses=len(turn),
            alpha=arrival.alpha,
            noise_var=arrival.noise_var,
        )
        return aggregate, AirState(memory, ledger)


def coordinates(size: int, rows: int, seed: int, round: int) -> NDArray[np.intp]:
    """Return the coordinates whose turn it is in ``round`` (counted from 1), going round the permutation."""
    order = stream(seed, "permutation").permutation(size)
    start = (round - 1) * rows
    return order[np.arange(start, start + rows) % size]
