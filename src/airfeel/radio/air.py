"""The way through the air that all schemes share: scale, send, rescale (12), (6), (13)(14)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.radio.gaussian import GaussianMAC
from airfeel.radio.link import Channel, Link, anything, superpose, weighted_sum
from airfeel.radio.power import SLACK, EqualPower, Grant, Ledger, Offer, PowerPolicy

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """What came through the air: y = (1/W) sum of w_m signal_m + n, n ~ N(0, noise_var I).

    ``noise_var`` is one number, or one per symbol; where nobody sent it is infinite and the observation zero.
    ``share`` is c_m: at what part of its strength a device's signal was sent, 1 where power control leaves it
    alone.
    """

    observation: Array
    noise_var: float | Array
    alpha: float
    energy: Array
    share: Array


@dataclass(frozen=True, slots=True)
class Air:
    """A channel, and how the devices spend their energy on it.

    ``limit`` is the most energy per symbol, where a transmit power bounds every round and not only their mean
    as P does.
    """

    channel: Channel = field(default_factory=GaussianMAC)
    policy: PowerPolicy = field(default_factory=EqualPower)
    limit: float | None = None

    @property
    def chooses(self) -> bool:
        """Whether power control may send a device's signal in part, or not at all."""
        return hasattr(self.policy, "choose")

    def carry(
        self,
        signals: Array,
        weights: Array,
        whole: float,
        link: Link,
        active: Mask,
        ledger: Ledger,
        seed: int,
        round: int,
        *,
        coordinates: bool = False,
    ) -> Arrival | None:
        """Scale, send and rescale the signals (M, s), one row per device; None when nothing is sent.

        With one alpha for all, an active device sends sqrt(alpha) M w_m signal_m / h^_m; the server divides
        what it hears by M sqrt(alpha) W, which leaves noise of variance sigma_e^2 / (M sqrt(alpha) W)^2. W
        is ``whole``, the weight of all devices that computed an update: what a silent one keeps arrives
        later, and dividing by the weight of those heard would then count it 1/W times. The observation has
        the precision of the signals as far as that can hold it, and a receiver follows it.

        ``active`` may be (M, s). A device that leaves a symbol out keeps it in its memory where symbols are
        ``coordinates``. Where they are mixtures of all coefficients, that symbol lacks the device, and takes
        those who sent it for all who sent any: it is divided by M sqrt(alpha) W_f, see :func:`_amplitude`.
        """
        if active.ndim == 2:
            signals = np.where(active, signals, 0)
        scale = len(weights) * np.where(anything(active), weights, 0.0)
        demand = scale**2 * _energy(signals, link.cost)
        grant = self._grant(demand, signals, weights, whole, link, ledger)
        if grant is None:
            return None
        strength = np.sqrt(grant.alpha) * scale * grant.share
        heard = superpose(link, strength[:, None] * signals, seed, round)
        amplitude = _amplitude(np.sqrt(grant.alpha), weights * grant.share, whole, active, coordinates)
        observation, noise_var = _rescaled(heard, link.noise_var, amplitude, active, strength)
        if np.abs(observation).max() <= np.finfo(signals.dtype).max:
            observation = observation.astype(signals.dtype, copy=False)
        energy = grant.alpha * demand * grant.share**2
        return Arrival(observation, noise_var, grant.alpha, energy, grant.share)

    def _grant(
        self, demand: Array, signals: Array, weights: Array, whole: float, link: Link, ledger: Ledger
    ) -> Grant | None:
        """Ask power control for alpha, and where it chooses for the share at which each device sends."""
        if not self.chooses or whole == 0:
            alpha = self.policy.alpha(demand, ledger)
            if alpha is not None and self.limit is not None:
                alpha = min(alpha, self.limit * signals.shape[1] / float(demand.max()))
            return None if alpha is None else Grant(alpha, np.ones(len(demand)))
        norm = np.sqrt(np.einsum("ms,ms->m", signals, signals, dtype=np.float64))
        noise = float(np.broadcast_to(link.noise_var, signals.shape[1:]).sum())
        noise /= (len(weights) * whole) ** 2
        return self.policy.choose(Offer(demand, weights / whole, norm, noise), ledger)  # type: ignore[attr-defined,no-any-return]

    def afford(self, energy: float, link: Link, sending: Mask, ledger: Ledger) -> tuple[Mask, Array]:
        """Return who can bring so much energy to the server, each in uses of its own, and what that costs.

        Without superposition every device has an alpha of its own. Where it would be below 1, the link is too
        weak for what the policy grants, and the device is silent. A device whose cost differs from symbol to
        symbol spreads the energy evenly over those in which it can send.
        """
        able = sending & anything(link.active)
        demand = np.where(able, energy * _mean_cost(link), 0.0)
        for m in np.flatnonzero(able):
            alpha = self.policy.alpha(demand[m : m + 1], Ledger(ledger.spent[m : m + 1], ledger.rounds))
            able[m] = alpha is not None and alpha >= 1 - SLACK
        return able, np.where(able, demand, 0.0)


def delivered(active: Mask, share: Array, coordinates: bool) -> Array:
    """Return which part of each device's payload arrives, per device (M,) or per symbol (M, s).

    Where symbols are mixtures, a device that sent any symbol has told all it had to tell.
    """
    heard = active if coordinates else anything(active)
    return np.where(heard, share if heard.ndim == 1 else share[:, None], 0.0)


def _energy(signals: Array, cost: Array) -> Array:
    """Return what each device spends on its signal at unit scale."""
    if cost.ndim == 1:
        return np.asarray(np.einsum("ms,ms->m", signals, signals, dtype=np.float64) * cost)
    return np.asarray(np.einsum("ms,ms,ms->m", signals, signals, cost, dtype=np.float64))


def _mean_cost(link: Link) -> Array:
    """Return the cost of a device, averaged over the symbols in which it can send."""
    if link.cost.ndim == 1:
        return link.cost
    active = np.broadcast_to(link.active if link.active.ndim == 2 else link.active[:, None], link.cost.shape)
    total = np.where(active, link.cost, 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(active.sum(axis=1), 1))


def _amplitude(root: float, weights: Array, whole: float, active: Mask, coordinates: bool) -> float | Array:
    """Return what the server divides by: M sqrt(alpha) W, or M sqrt(alpha) W_f for symbols f of mixtures.

    W_f = (W / W_sent) (weight heard in f) with W_sent, the weight of all who sent any symbol; zero where
    nobody sent. A share c_m counts as much less weight.
    """
    num_devices = len(weights)
    if active.ndim == 1 or coordinates:
        return num_devices * root * whole
    sent = float(weights[anything(active)].sum())
    return num_devices * root * whole * weighted_sum(weights, active) / (sent or 1.0)


def _rescaled(
    heard: Array, noise_var: float | Array, amplitude: float | Array, active: Mask, strength: Array
) -> tuple[Array, float | Array]:
    """Return the observation and its noise, a number where it is the same in all symbols."""
    if active.ndim == 1:
        return heard / amplitude, noise_var / amplitude**2
    audible = active[strength > 0].any(axis=0)
    divisor = np.where(audible, amplitude, 1.0)
    variance = np.where(audible, noise_var / divisor**2, np.inf)
    equal = bool((variance == variance[0]).all())
    return np.where(audible, heard / divisor, 0.0), float(variance[0]) if equal else variance
