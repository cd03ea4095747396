"""What arrives at the server of the clients' signals, with or without a radio."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.radio.air import Air, Arrival
from airfeel.radio.link import Link, weighted_sum
from airfeel.radio.power import Ledger
from airfeel.schemes.base import Plan, Scheme
from airfeel.schemes.round import uses_radio

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """Those who computed an update: their weights and numbers as devices, and their signals in rows.

    The row of a client that was not asked to transmit, or whose signal did not come, is zero and
    ``sending`` False. ``whole`` is W, the weight of all who may have computed something, heard or not.
    """

    signals: Array
    weights: Array
    devices: Sequence[int]
    sending: Mask
    whole: float


@dataclass(frozen=True, slots=True)
class Announced:
    """The power policy of an exchange of two messages: alpha is what the clients were told."""

    power: float
    told: float

    def alpha(self, demand: Array, ledger: Ledger) -> float | None:
        """Return the alpha that was told, if anybody sends."""
        return self.told if demand.any() else None


def superposes(scheme: Scheme[Any], air: Air | None) -> bool:
    """Whether the signals add up in the air, so that all share one alpha."""
    return air is not None and uses_radio(scheme) and not hasattr(scheme, "spends")


def arrive(
    scheme: Scheme[Any], air: Air | None, plan: Plan, senders: Senders, ledger: Ledger, seed: int, round: int
) -> tuple[Arrival | None, Mask, int]:
    """Return what arrives (None: nothing was sent), who was heard, and how many channel uses that took."""
    symbols, nothing = senders.signals.shape[1], np.zeros(len(senders.weights))
    if air is None or not uses_radio(scheme):
        return _mean(senders, senders.sending, nothing), senders.sending, 0
    own = Ledger(ledger.spent[list(senders.devices)], ledger.rounds)
    if (spends := getattr(scheme, "spends", None)) is not None:
        cost = spends(plan)
        link = link_of(air, senders.devices, len(ledger.spent), cost.channel_uses, seed, round)
        able, energy = air.afford(cost.energy, link, senders.sending, own)
        return _mean(senders, able, energy), able, cost.channel_uses if able.any() else 0
    link = link_of(air, senders.devices, len(ledger.spent), symbols, seed, round)
    active = senders.sending & link.active
    arrival = air.carry(senders.signals, senders.weights, senders.whole, link, active, own, seed, round)
    return (None, active & False, 0) if arrival is None else (arrival, active, symbols)


def link_of(air: Air, devices: Sequence[int], known: int, symbols: int, seed: int, round: int) -> Link:
    """Return the state of the air for some devices, drawn for all that are known."""
    link, rows = air.channel.link(known, symbols, seed, round), list(devices)
    if link.active.ndim == 2 or link.cost.ndim == 2:
        raise _checks.reject("channel", air.channel, "must be the same in all symbols of a round with Flower")
    return Link(link.active[rows], link.cost[rows], link.gain[rows], link.noise_var)


def charged(ledger: Ledger, devices: Sequence[int], energy: Array, power: float) -> Ledger:
    """Return the ledger after a round in which some devices spent energy."""
    spent = np.zeros(len(ledger.spent))
    spent[list(devices)] = energy
    return ledger.charge(spent, power)


def _mean(senders: Senders, active: Mask, energy: Array) -> Arrival | None:
    """Return the weighted mean of the signals of those who reach the server without superposition."""
    if not active.any():
        return None
    shares = np.where(active, senders.weights, 0.0) / senders.whole
    return Arrival(weighted_sum(shares, senders.signals), 0.0, 1.0, energy, np.ones(len(shares)))
