"""One round of any scheme: plan, accumulate, encode, air, remember, decode."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from airfeel import _checks
from airfeel.radio.air import Air, Arrival
from airfeel.radio.link import weighted_sum
from airfeel.radio.power import Ledger
from airfeel.receivers.base import Info
from airfeel.schemes.base import Array, Heard, Mask, Plan, Scheme, Sent, Setting, Shapes, Spending, size_of
from airfeel.schemes.sparsification import accumulate


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
        sigma^2 of y = A x + n (13); None as alpha.
    info
        The receiver's report; None where no receiver ran.
    variance
        The receiver's posterior variance of every coefficient; None where no receiver ran.
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
    memory = np.zeros((setting.devices, size), dtype=np.float32)
    return UplinkState(memory, Ledger.open(setting.devices), scheme.init(shapes, setting))


def carry(
    scheme: Scheme[Any],
    air: Air,
    state: UplinkState,
    updates: Array,
    weights: Array,
    *,
    seed: int,
    round: int,
    computing: Mask | None = None,
    sending: Mask | None = None,
) -> tuple[Aggregate, UplinkState]:
    """Bring the updates (M, N) of one round, with shares w_m (M,), to the server.

    ``round`` counts from 1. A device with ``computing[m]`` False was not selected, and its update is zero.
    One with ``sending[m]`` False does not send, and one whose link is down cannot: all it has goes to its
    error memory. By default everybody computes, and who computes sends.
    """
    weights = _shares(weights, len(updates))
    plan = scheme.plan(state.scheme, seed, round)
    accumulated = accumulate(state.memory, updates)
    sent = scheme.encode(plan, accumulated)

    computing = _mask("computing", computing, np.ones(len(weights), dtype=np.bool_))
    sending = _mask("sending", sending, computing)
    whole = float(weights[computing].sum())
    spends = _spending(scheme, plan)
    arrival, active = _send(
        scheme, air, state.ledger, sent.signal, weights, whole, sending, seed, round, spends
    )
    ledger = state.ledger.charge(
        np.zeros(len(weights)) if arrival is None else arrival.energy, air.policy.power
    )
    if arrival is None:
        return _nothing_sent(accumulated), UplinkState(accumulated, ledger, state.scheme)
    memory = remember(scheme, plan, accumulated, sent, active)

    estimate, after = scheme.decode(state.scheme, plan, Heard(arrival.observation, arrival.noise_var))
    radio = uses_radio(scheme)
    aggregate = Aggregate(
        mean=estimate.mean,
        truth=_weighted_mean(accumulated - memory, weights, whole),
        active=active,
        energy=arrival.energy,
        channel_uses=(spends.channel_uses if spends else sent.signal.shape[1]) if radio else 0,
        alpha=arrival.alpha if radio else None,
        noise_var=arrival.noise_var if radio else None,
        info=estimate.info,
        variance=estimate.variance,
    )
    return aggregate, UplinkState(memory, ledger, after)


def remember(scheme: Scheme[Any], plan: Plan, accumulated: Array, sent: Sent, delivered: Mask) -> Array:
    """Return the next error memories: the remainder of who was heard, everything of who was not."""
    if (own := getattr(scheme, "remember", None)) is not None:
        return np.asarray(own(plan, accumulated, sent, delivered))
    return sent.remainder if delivered.all() else np.where(delivered[:, None], sent.remainder, accumulated)


def uses_radio(scheme: Scheme[Any]) -> bool:
    """Whether the scheme's signals go through the air."""
    return bool(getattr(scheme, "uses_radio", True))


def _spending(scheme: Scheme[Any], plan: Plan) -> Spending | None:
    """Return what a round costs a scheme that says so itself; None for signals that superpose."""
    own = getattr(scheme, "spends", None)
    return None if own is None else own(plan)


def _send(
    scheme: Scheme[Any],
    air: Air,
    ledger: Ledger,
    signals: Array,
    weights: Array,
    whole: float,
    sending: Mask,
    seed: int,
    round: int,
    spends: Spending | None,
) -> tuple[Arrival | None, Mask]:
    """Carry the signals through the air, or without one; return what arrived and who was heard."""
    if not uses_radio(scheme):
        free = np.where(sending, weights, 0.0)
        return Arrival(_weighted_mean(signals, free, whole), 0.0, 1.0, np.zeros(len(weights))), sending
    symbols = signals.shape[1] if spends is None else spends.channel_uses
    link = air.channel.link(len(weights), symbols, seed, round)
    if spends is not None:
        active, energy = air.afford(spends.energy, link, sending, ledger)
        heard = _weighted_mean(signals, np.where(active, weights, 0.0), whole)
        return (Arrival(heard, 0.0, 1.0, energy) if active.any() else None), active
    active = sending & link.active
    return air.carry(signals, weights, whole, link, active, ledger, seed, round), active


def _weighted_mean(rows: Array, weights: Array, whole: float) -> Array:
    """Return x = (1/W) sum of w_m row_m; zeros when nobody computed."""
    return weighted_sum(weights / whole, rows) if whole else np.zeros(rows.shape[1])


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


def _nothing_sent(accumulated: Array) -> Aggregate:
    """Return the result of a round in which nothing was sent: every device keeps all it had."""
    num_devices, size = accumulated.shape
    nothing, nobody = np.zeros(num_devices), np.zeros(num_devices, dtype=np.bool_)
    return Aggregate(np.zeros(size), np.zeros(size), nobody, nothing)
