"""One round of any scheme, from the updates to the estimate: plan, encode, arrive, settle, decode."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from airfeel import _checks
from airfeel.radio.link import anything
from airfeel.radio.power import Ledger
from airfeel.receivers.base import Estimate, Info
from airfeel.units import relative_error
from airfeel.uplink.arrive import Arrival, Radio, Senders, WeightedMean, transmission
from airfeel.uplink.memory import Allocate, Devices, NextMemory, blocks, place, require_finite, take
from airfeel.uplink.scheme import (
    Array,
    Mask,
    Memory,
    Plan,
    Scheme,
    Sent,
    Setting,
    Shapes,
    announced,
    everywhere,
    placed,
    size_of,
)


@dataclass(frozen=True, slots=True, eq=False)
class UplinkState:
    """What a run carries from round to round on the way from devices to server.

    ``memory`` are the named rows of all devices, ``scheme`` what the server carries, ``size`` N.
    """

    memory: Memory
    ledger: Ledger
    scheme: Any = None
    size: int = 0


def begin(scheme: Scheme[Any], shapes: Shapes, setting: Setting) -> UplinkState:
    """Return the state before round 1: memories as the scheme begins them, nothing spent."""
    size = _checks.integer("size", size_of(shapes), at_least=1)
    ledger, memory = Ledger.open(setting.devices), everywhere(scheme.memory(shapes), setting.devices)
    return UplinkState(memory, ledger, scheme.init(shapes, setting), size)


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """The result of one round.

    Parameters
    ----------
    mean
        x^, what the server believes the weighted mean to be.
    truth
        x, what it would have found in the same signals without noise; where symbols are mixtures that it
        cannot undo even then, the mean (1/W) sum of w_m times what the signals stand for.
    active, energy
        Devices that sent something, and what each device spent, (M,); zeros without a radio.
    channel_uses, alpha
        Real symbols sent, and power scaling (12); 0 and None without a radio, or when nothing was sent.
    noise_var
        sigma^2 of y = A x + n (13), the harmonic mean where it differs from symbol to symbol; None as alpha.
    info, variance
        The receiver's report, and its posterior variance of every coefficient; None where no receiver ran.
    downlink
        Numbers that the server told every device beside the model: the plan.
    receivable
        Bits per channel use that the weakest device which can send could receive at its own power; None where
        no transmit power is known.
    message_bytes
        What the first device sent, where signals are messages without radio.
    """

    mean: Array
    truth: Array
    active: Mask
    energy: Array
    channel_uses: int = 0
    alpha: float | None = None
    noise_var: float | None = None
    info: Info | None = None
    variance: Array | None = None
    downlink: int = 0
    receivable: float | None = None
    message_bytes: int | None = None

    @property
    def nmse(self) -> float | None:
        """||x^ - x||^2 / ||x||^2; None when x = 0 or there was no radio to lose anything."""
        return None if self.alpha is None else relative_error(self.mean, self.truth)


class Uplink:
    """A round under way: whoever trains the devices goes along this line, and hands over their updates.

    ``weights`` are the shares w_m (M,). Only those of ``computing`` (all) have an update; the others keep
    what they have. Those of them that are not ``sending`` (all) are silent, as one whose link is down.
    ``allocate`` gives arrays for the next memories, such as those in a file.
    """

    def __init__(
        self,
        scheme: Scheme[Any],
        air: Radio,
        state: UplinkState,
        weights: Array,
        *,
        seed: int,
        round: int,
        computing: Mask | None = None,
        sending: Mask | None = None,
        allocate: Allocate | None = None,
    ) -> None:
        """Announce the plan, and say which devices shall train, in :attr:`blocks` of a few at a time."""
        weights = _checks.vector("weights", weights, len(state.ledger.spent))
        self.scheme, self.air, self.state, self.allocate = scheme, air, state, allocate
        self.senders = Senders.of(weights, computing, sending)
        self.computed = self.senders.whole / (float(weights.sum()) or 1.0)
        self.plan: Plan = _checks.returned(scheme, "plan", scheme.plan(state.scheme, seed, round), Mapping)
        self.transmission = transmission(scheme, air, self.plan, self.senders, state.ledger, seed, round)
        self.blocks = blocks(self.senders.devices, state.size)
        self._held: tuple[Devices, Array, Sent] | None = None
        self._message_bytes: int | None = None
        self._round = round
        self._forget()

    def encode(self, devices: Devices, updates: Array) -> None:
        """Make signals of a block's updates; settle its memories if what will be delivered is known."""
        if self.scheme.leads and devices[0] == self.blocks[0][0]:
            leader = self._round % len(devices)  # of the first block: they take turns
            memory, one = take(self.state.memory, devices[leader : leader + 1]), updates[leader : leader + 1]
            self.plan = {**self.plan, **self.scheme.lead(self.plan, memory, one)}
        sent = self._encoded(devices, updates)
        if not self.scheme.uses_radio and self._message_bytes is None:
            self._message_bytes = sum(array.nbytes for array in self.scheme.pack(sent).values())
        self.transmission.put(self._rows(devices), sent.signal)
        delivered = self.transmission.delivered(self._rows(devices))
        if delivered is not None:
            self._settle(devices, updates, sent, delivered)
        elif len(self.blocks) == 1:
            self._held = devices, updates, sent

    def arrive(self) -> list[Devices]:
        """Carry the signals to the server; return the blocks whose updates are needed once more, mostly none.

        They are where power control has chosen what is delivered, and more than one block would not fit into
        memory; or where all signals were too weak, and what was settled is not what happened.
        """
        if not self.blocks:
            anybody = take(self.state.memory, np.arange(1))
            symbols = self.scheme.width(placed(self.scheme, self.plan, [0], 1), anybody, self.state.size)
            self.transmission.put(slice(0, 0), np.zeros((0, symbols)))
        self.arrival = self.transmission.arrive()
        expected = self.transmission.delivered(slice(None))
        if expected is not None and (self.arrival.delivered.any() or not expected.any()):
            return []
        self._forget()
        if self._held is None:
            return self.blocks
        self._settle(*self._held, self.arrival.delivered)
        return []

    def settle(self, devices: Devices, updates: Array) -> None:
        """Settle the memories of a block by what was delivered."""
        delivered = self.arrival.delivered[self._rows(devices)]
        self._settle(devices, updates, self._encoded(devices, updates), delivered)

    def decode(self) -> tuple[Aggregate, UplinkState]:
        """Recover the mean from what was heard; return the result of the round, and the state after it."""
        arrival, who = self.arrival, self.senders
        energy = who.everywhere(arrival.energy)
        ledger = self.state.ledger.charge(energy, self.air.policy.power)
        plan, stood_for = self._told(who.devices), self._payload.value
        given = self.scheme, self.state.scheme, plan
        estimate, after, truth = decode(*given, arrival, self.computed, measure=stood_for is None)
        aggregate = Aggregate(
            mean=estimate.mean,
            truth=truth if stood_for is None else stood_for,
            active=who.everywhere(anything(arrival.delivered > 0)),
            energy=energy,
            channel_uses=arrival.channel_uses,
            alpha=arrival.alpha,
            noise_var=None if arrival.alpha is None else arrival.typical_noise,
            info=estimate.info,
            variance=estimate.variance,
            downlink=announced(self._told(who.devices[:1])),
            receivable=None if self.transmission.link is None else self.air.receives(self.transmission.link),
            message_bytes=self._message_bytes,
        )
        return aggregate, UplinkState(self._next.value, ledger, after, self.state.size)

    def _rows(self, devices: Devices) -> slice:
        """Return where the devices of a block stand among those who compute."""
        first = int(np.searchsorted(self.senders.devices, devices[0]))
        return slice(first, first + len(devices))

    def _told(self, devices: Devices) -> Plan:
        """Return the plan as these devices see it: those who compute are those who were asked."""
        places = np.searchsorted(self.senders.devices, devices)
        return placed(self.scheme, self.plan, places, len(self.senders.devices))

    def _encoded(self, devices: Devices, updates: Array) -> Sent:
        _require_shape(updates, len(devices), self.state.size)
        require_finite(devices, updates)
        with np.errstate(over="ignore", invalid="ignore"):  # together with what waited it may be too large
            found = self.scheme.encode(self._told(devices), take(self.state.memory, devices), updates)
        sent: Sent = _checks.returned(self.scheme, "encode", found, Sent)
        if sent.signal is not updates:
            require_finite(devices, sent.signal)
        return sent

    def _settle(self, devices: Devices, updates: Array, sent: Sent, delivered: Array) -> None:
        memory = take(self.state.memory, devices)
        self._next.put(devices, self.scheme.settle(self._told(devices), memory, updates, sent, delivered))
        if sent.payload is not None and delivered.ndim == 1:
            self._payload.put(self._rows(devices), sent.payload, delivered)

    def _forget(self) -> None:
        """Begin anew with what is settled."""
        self._next = NextMemory(self.state.memory, self.senders.devices, self.allocate)
        self._payload = WeightedMean(self.senders.weights, self.senders.whole)


def decode(
    scheme: Scheme[Any], state: Any, plan: Plan, arrival: Arrival, computed: float, *, measure: bool
) -> tuple[Estimate, Any, Array]:
    """Run the server half on what arrived, if only silence; return its estimate and its next state.

    And, to ``measure`` the estimate by, what it finds in the same signals without noise (or else itself).
    """
    found = scheme.decode(state, plan, arrival.heard(computed))
    estimate, after = _checks.returned(scheme, "decode", found, tuple)
    if not measure or arrival.clean is arrival.observation:
        return estimate, after, estimate.mean
    return estimate, after, scheme.decode(state, plan, arrival.heard(computed, noise=False))[0].mean


def carry(
    scheme: Scheme[Any], air: Radio, state: UplinkState, updates: Array, weights: Array, **options: Any
) -> tuple[Aggregate, UplinkState]:
    """Bring the updates of all devices (M, N) to the server; see :class:`Uplink` for the options."""
    _require_shape(updates, len(state.ledger.spent), state.size)
    uplink = Uplink(scheme, air, state, weights, **options)
    for devices in uplink.blocks:
        uplink.encode(devices, updates[place(devices)])
    for devices in uplink.arrive():
        uplink.settle(devices, updates[place(devices)])
    return uplink.decode()


def _require_shape(updates: Array, *shape: int) -> None:
    if updates.shape != shape:
        raise ValueError(f"gradients have shape {updates.shape}: must be {shape}, one row per device")
