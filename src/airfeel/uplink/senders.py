"""Who computes and who sends in a round, with what weights; and weighted means of what they have."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.radio.link import Channel, Link, weighted_sum
from airfeel.radio.power import Ledger

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """Those who computed an update in a round, one row each.

    ``devices`` are their numbers among the ``known`` ones, M, ``sending`` who of them sends. ``whole`` is W,
    the weight of all that computed, with those whose row is not here.
    """

    devices: NDArray[np.intp]
    weights: Array
    sending: Mask
    whole: float
    known: int

    @classmethod
    def of(cls, weights: Array, computing: Mask | None = None, sending: Mask | None = None) -> "Senders":
        """Return those among all devices who compute (all), and who of them sends (all)."""
        weights = _shares(weights)
        computing = _mask("computing", computing, np.ones(len(weights), np.bool_))
        devices = np.flatnonzero(computing)
        sends = _mask("sending", sending, computing)[devices]
        return cls(devices, weights[devices], sends, float(weights[computing].sum()), len(weights))

    def link(self, channel: Channel, symbols: int, seed: int, round: int) -> Link:
        """Return the state of the air for them, drawn for all that are known."""
        found = channel.link(self.known, symbols, seed, round)
        link: Link = _checks.returned(channel, "link", found, Link)
        if len(self.devices) == self.known:
            return link
        own = self.devices
        return Link(link.active[own], link.cost[own], link.gain[own], link.noise_var)

    def accounts(self, ledger: Ledger) -> Ledger:
        """Return what they have spent."""
        return Ledger(ledger.spent[self.devices], ledger.rounds)

    def charge(self, ledger: Ledger, energy: Array, power: float) -> Ledger:
        """Return the ledger of all after a round in which these spent energy."""
        return ledger.charge(self.everywhere(energy), power)

    def everywhere(self, rows: Any) -> Any:
        """Return what is known of them for all devices, zero for the others."""
        found = np.zeros(self.known, np.asarray(rows).dtype)
        found[self.devices] = rows
        return found


class WeightedMean:
    """The weighted mean x = (1/W) sum of w_m row_m in double precision; zeros when nobody computed."""

    def __init__(self, weights: Array, whole: float) -> None:
        self._shares = weights / whole if whole else np.zeros(len(weights))
        self.value: Array | None = None

    def put(self, rows: slice, part: Array, delivered: Array | float = 1.0) -> None:
        """Add the rows of some devices, as far as they were delivered."""
        added = weighted_sum(self._shares[rows] * delivered, part)
        self.value = added if self.value is None else self.value + added


def _shares(weights: Array) -> Array:
    """Refuse weights that make no mean: those of mixed sign could even add up to nothing."""
    if (weights < 0).any():
        device = int(np.flatnonzero(weights < 0)[0])
        raise _checks.reject(f"weights[{device}]", float(weights[device]), "every entry must be >= 0")
    return weights


def _mask(name: str, mask: Mask | None, default: Mask) -> Mask:
    if mask is None:
        return default
    if mask.shape != default.shape:
        raise ValueError(f"{name} has shape {mask.shape}: must be {default.shape}, one entry per device")
    return mask
