"""What all aggregators share: the protocol, the result of a round, and the way through the air (6)(12)-(14).

An aggregator is frozen parameters and two pure functions on a frozen state: the devices' error memories, the
receiver's state and the energy ledger.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.channels import Channel, GaussianMAC, Link, weighted_sum
from airfeel.receivers.base import Info
from airfeel.transmit import EqualPower, Ledger, PowerPolicy
from airfeel.units import count as count

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class AirState:
    """What a run carries from round to round on the way from devices to server.

    ``memory`` is Delta_m of all devices, (M, N); ``receiver`` the receiver's own state, None without one.
    """

    memory: Array
    ledger: Ledger
    receiver: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """The result of one round.

    Parameters
    ----------
    mean
        x^, what the server believes the weighted mean to be; zeros when nothing was sent.
    truth
        x = (1/W) sum over active devices of w_m g_m^sparse, which no receiver sees.
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


class Aggregator(Protocol):
    """Two pure functions and a frozen state; the aggregator itself only holds parameters."""

    def init(self, num_devices: int, size: int) -> AirState:
        """Return the state before the first round, for M devices and N parameters."""
        ...

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
        """Bring the gradients (M, N) of one round, with shares w_m (M,), to the server.

        ``round`` counts from 1. A device with ``sending[m]`` False does not send: its gradient (zero if it
        was not selected) goes to its error memory in full.
        """
        ...


@dataclass(frozen=True, slots=True)
class Air:
    """The radio that several schemes share: a channel, and how the devices spend their energy on it."""

    channel: Channel = field(default_factory=GaussianMAC)
    policy: PowerPolicy = field(default_factory=EqualPower)

    def carry(
        self, payload: Array, weights: Array, link: Link, active: Mask, ledger: Ledger, seed: int, round: int
    ) -> "Arrival | None":
        """Scale, send and rescale the payloads, one row per device: (12), (6), (13)(14).

        With one alpha for all and W the sum of the active weights, device m sends
        sqrt(alpha) M w_m payload_m / h^_m; the server divides what it hears by M sqrt(alpha) W, which leaves
        noise of variance sigma_e^2 / (M sqrt(alpha) W)^2. None when there is nothing to send. The
        observation has the precision of the payloads, and a receiver follows it.
        """
        num_devices = len(weights)
        scale = np.where(active, num_devices * weights, 0.0)
        demand = scale**2 * np.einsum("ms,ms->m", payload, payload, dtype=np.float64) * link.cost
        alpha = self.policy.alpha(demand, ledger)
        if alpha is None:
            return None
        signals = (np.sqrt(alpha) * scale)[:, None] * payload
        heard = self.channel.receive(link, signals, seed, round)
        amplitude = num_devices * np.sqrt(alpha) * float(weights[active].sum())
        observation = (heard / amplitude).astype(payload.dtype, copy=False)
        return Arrival(observation, self.channel.noise_var / amplitude**2, alpha, alpha * demand)


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """What came through the air: y = (1/W) sum of w_m payload_m + n, n ~ N(0, noise_var I)."""

    observation: Array
    noise_var: float
    alpha: float
    energy: Array


def empty_state(num_devices: int, size: int, receiver: Any = None) -> AirState:
    """Return a state with empty error memories, in the precision of gradients, and nothing spent.

    Memories are float32: they take on the precision of the gradients in the first round.
    """
    _checks.integer("size", size, at_least=1)
    ledger = Ledger.open(num_devices)
    return AirState(np.zeros((num_devices, size), dtype=np.float32), ledger, receiver)


def senders(weights: Array, sending: Mask | None) -> Mask:
    """Return the mask of the devices that try to send, checked against the shares."""
    if sending is None:
        return np.ones(len(weights), dtype=np.bool_)
    if sending.shape != weights.shape:
        raise ValueError(f"sending has shape {sending.shape}: must be {weights.shape}, one entry per device")
    return sending


def weighted_mean(rows: Array, weights: Array, active: Mask) -> Array:
    """Return x = (1/W) sum over active devices of w_m row_m; zeros when nobody is active."""
    total = float(weights[active].sum())
    if total == 0:
        return np.zeros(rows.shape[1])
    return weighted_sum(np.where(active, weights / total, 0.0), rows)


def remember(remainder: Array, accumulated: Array, active: Mask) -> Array:
    """Return the next error memories: the remainder of who sent, everything of who did not."""
    return remainder if active.all() else np.where(active[:, None], remainder, accumulated)


def silent(state: AirState, accumulated: Array, power: float) -> tuple[Aggregate, AirState]:
    """Return the result of a round in which nothing was sent: every device keeps all it had."""
    num_devices, size = accumulated.shape
    nothing, nobody = np.zeros(num_devices), np.zeros(num_devices, dtype=np.bool_)
    after = AirState(accumulated, state.ledger.charge(nothing, power), state.receiver)
    return Aggregate(np.zeros(size), np.zeros(size), nobody, nothing), after
