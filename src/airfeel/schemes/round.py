"""One round of any scheme: plan, accumulate, encode, remember, air, decode."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from airfeel import _checks
from airfeel.radio.air import Air, Arrival
from airfeel.radio.power import Ledger
from airfeel.receivers.base import Info
from airfeel.schemes.base import Array, Heard, Mask, Plan, Scheme, Setting, Shapes, announced, size_of
from airfeel.schemes.blocks import Producer, Room, producer
from airfeel.schemes.device_half import (
    Signals,
    Turn,
    device_half,
    everything,
    remembered,
    uses_radio,
)
from airfeel.schemes.remembering import coordinates

__all__ = ["Aggregate", "UplinkState", "begin", "carry", "uses_radio"]


@dataclass(frozen=True, slots=True, eq=False)
class UplinkState:
    """What a run carries from round to round on the way from devices to server.

    ``memory`` is Delta_m of all devices, (M, N); ``scheme`` what the server carries.
    """

    memory: Array
    ledger: Ledger
    scheme: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """The result of one round.

    Parameters
    ----------
    mean
        x^, what the server believes the weighted mean to be; zeros when nothing was sent.
    truth
        x = (1/W) sum over the devices heard of w_m times what left the device, which no receiver sees.
    active
        Devices that sent something, (M,).
    energy
        What each device spent in this round, (M,); zeros without a radio.
    channel_uses
        Real symbols sent in this round; 0 without a radio, or when nothing was sent.
    alpha
        Power scaling (12); None without a radio, or when nothing was sent.
    noise_var
        sigma^2 of y = A x + n (13), the harmonic mean where it differs from symbol to symbol; None as alpha.
    info
        The receiver's report; None where no receiver ran.
    variance
        The receiver's posterior variance of every coefficient; None where no receiver ran.
    downlink
        Numbers that the server told every device beside the model: the plan.
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

    @property
    def nmse(self) -> float | None:
        """||x^ - x||^2 / ||x||^2; None when x = 0 or there was no radio to lose anything."""
        scale = float(np.sum(self.truth**2))
        if self.alpha is None or scale == 0:
            return None
        return float(np.sum((self.mean - self.truth) ** 2)) / scale


def begin(scheme: Scheme[Any], shapes: Shapes, setting: Setting) -> UplinkState:
    """Return the state before round 1: empty error memories, nothing spent.

    Memories are float32: they take on the precision of the updates in the first round.
    """
    size = _checks.integer("size", size_of(shapes), at_least=1)
    memory = np.broadcast_to(np.float32(0), (setting.devices, size))  # zeros that take no room
    return UplinkState(memory, Ledger.open(setting.devices), scheme.init(shapes, setting))


def carry(
    scheme: Scheme[Any],
    air: Air,
    state: UplinkState,
    updates: Array | Producer,
    weights: Array,
    *,
    seed: int,
    round: int,
    computing: Mask | None = None,
    sending: Mask | None = None,
    room: Room | None = None,
) -> tuple[Aggregate, UplinkState]:
    """Bring the updates of one round, with shares w_m (M,), to the server.

    Parameters
    ----------
    updates
        Those of all devices (M, N); or a function that returns the rows of a slice of the devices, called for
        a few devices at a time.
    round
        Counts from 1.
    computing
        A device with ``computing[m]`` False was not selected, and its update is zero. By default everybody
        computes.
    sending
        A device with ``sending[m]`` False does not send, and one whose link is down cannot: all it has goes
        to its error memory. By default who computes sends.
    room
        ``room(shape, dtype)`` returns the array that takes the next error memories, such as one in a file; by
        default it is a new one in memory.
    """
    produce = producer(updates, state.memory.shape)
    weights = _shares(weights, len(state.memory))
    computing = _mask("computing", computing, np.ones(len(weights), dtype=np.bool_))
    sending = _mask("sending", sending, computing)
    whole = float(weights[computing].sum())
    turn = Turn(
        scheme,
        air,
        state.memory,
        state.ledger,
        produce,
        weights,
        whole,
        computing,
        sending,
        room,
        seed,
        round,
    )

    plan: Plan = _checks.returned(scheme, "plan", scheme.plan(state.scheme, seed, round), Mapping)
    sent = device_half(turn, plan)
    arrival = _arrive(turn, sent)
    energy = np.zeros(len(weights)) if arrival is None else arrival.energy
    ledger = state.ledger.charge(energy, air.policy.power)
    if arrival is None:
        nothing = replace(_nothing_sent(state.memory.shape), downlink=announced(plan))
        return nothing, UplinkState(everything(turn, sent), ledger, state.scheme)

    kept = sent.kept or remembered(turn, plan, sent, arrival.share)
    found = scheme.decode(state.scheme, plan, Heard(arrival.observation, arrival.noise_var))
    estimate, after = _checks.returned(scheme, "decode", found, tuple)
    radio = uses_radio(scheme)
    aggregate = Aggregate(
        mean=estimate.mean,
        truth=kept.truth.value,
        active=sent.sends & (arrival.share > 0),
        energy=arrival.energy,
        channel_uses=sent.channel_uses if radio else 0,
        alpha=arrival.alpha if radio else None,
        noise_var=_typical(arrival.noise_var) if radio else None,
        info=estimate.info,
        variance=estimate.variance,
        downlink=announced(plan),
    )
    return aggregate, UplinkState(kept.memory.value, ledger, after)


def _arrive(turn: Turn, sent: Signals) -> Arrival | None:
    """Carry the signals through the air, or without one; None when nothing is sent."""
    if sent.link is None:
        silent = uses_radio(turn.scheme) and not sent.active.any()
        share = np.ones(len(turn.weights))
        return None if silent else Arrival(sent.signals, 0.0, 1.0, sent.energy, share)
    given = turn.weights, turn.whole, sent.link, sent.active, turn.ledger, turn.seed, turn.round
    return turn.air.carry(sent.signals, *given, coordinates=coordinates(turn.scheme))


def _typical(noise_var: float | Array) -> float:
    """Return one number for the noise of all symbols: the harmonic mean, as the unheard say nothing."""
    if np.ndim(noise_var) == 0:
        return float(noise_var)
    with np.errstate(divide="ignore"):
        return float(1 / np.mean(1 / np.asarray(noise_var)))


def _nothing_sent(shape: tuple[int, ...]) -> Aggregate:
    """Return the result of a round in which nothing was sent."""
    devices, size = shape
    nothing, nobody = np.zeros(devices), np.zeros(devices, dtype=np.bool_)
    return Aggregate(np.zeros(size), np.zeros(size), nobody, nothing)


def _shares(weights: Array, num_devices: int) -> Array:
    """Refuse weights that make no mean: those of mixed sign could even add up to nothing."""
    weights = _checks.vector("weights", weights, num_devices)
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
