"""Aggregation without a radio: the upper end of every comparison."""

from dataclasses import dataclass

import numpy as np

from airfeel import _checks
from airfeel.aggregators.base import (
    Aggregate,
    AirState,
    Array,
    Mask,
    count,
    empty_state,
    remember,
    senders,
    weighted_mean,
)
from airfeel.transmit import accumulate, top_k


@dataclass(frozen=True, slots=True)
class ErrorFree:
    """The server gets x itself: ``sparsity`` is k/N, 1 sends everything (scheme ``dense``).

    >>> scheme = ErrorFree(sparsity=0.5)
    >>> state = scheme.init(num_devices=2, size=2)
    >>> gradients = np.array([[4.0, 1.0], [0.0, 2.0]])
    >>> aggregate, state = scheme.aggregate(state, gradients, np.array([0.5, 0.5]), seed=0, round=1)
    >>> aggregate.mean
    array([2., 1.])
    >>> state.memory
    array([[0., 1.],
           [0., 0.]])
    """

    sparsity: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a sparsity that is no share."""
        _checks.real("sparsity", self.sparsity, above=0, at_most=1)

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
        """Sparsify and average."""
        active = senders(weights, sending)
        accumulated = accumulate(state.memory, gradients)
        kept, remainder = top_k(accumulated, count(self.sparsity, gradients.shape[1]))
        mean = weighted_mean(kept, weights, active)
        memory = remember(remainder, accumulated, active)
        nothing = np.zeros(len(weights))
        ledger = state.ledger.charge(nothing, power=0.0)
        return Aggregate(mean, mean, active, nothing), AirState(memory, ledger)
