"""What arrives of the signals: power control and superposition (12), (6), (13)(14), or a digital mean.

Both ways take the signals of those who computed, a few devices at a time, and say what was delivered.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.radio.channels import GaussianMAC
from airfeel.radio.link import Array, Channel, Link, Mask, anything, energy_of, hear, weighted_sum
from airfeel.radio.power import SLACK, EqualPower, Grant, Ledger, Offer, PowerPolicy
from airfeel.uplink.scheme import Heard, Plan, Scheme

AT_ONCE = 2**15  # symbols


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
        if (weights < 0).any():  # those of mixed sign could even add up to nothing
            device = int(np.flatnonzero(weights < 0)[0])
            raise _checks.reject(f"weights[{device}]", float(weights[device]), "every entry must be >= 0")
        computing = np.ones(len(weights), np.bool_) if computing is None else computing
        sending = computing if sending is None else sending
        for name, mask in (("computing", computing), ("sending", sending)):
            if mask.shape != weights.shape:
                raise ValueError(
                    f"{name} has shape {mask.shape}: must be {weights.shape}, one entry per device"
                )
        devices = np.flatnonzero(computing)
        whole = float(weights[computing].sum())
        return cls(devices, weights[devices], sending[devices], whole, len(weights))

    def link(self, channel: Channel, symbols: int, seed: int, round: int) -> Link:
        """Return the state of the air for them, drawn for all that are known; only who sends is active."""
        found = channel.link(self.known, symbols, seed, round)
        link: Link = _checks.returned(channel, "link", found, Link)
        own = slice(None) if len(self.devices) == self.known else self.devices
        active = link.active[own]
        active = active & (self.sending if active.ndim == 1 else self.sending[:, None])
        return Link(active, link.cost[own], link.gain[own], link.noise_var)

    def accounts(self, ledger: Ledger) -> Ledger:
        """Return what they have spent."""
        return Ledger(ledger.spent[self.devices], ledger.rounds)

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
        shares = self._shares[rows] * delivered
        if self.value is None:
            self.value = np.zeros(part.shape[1])
        for start in range(0, part.shape[1], AT_ONCE):  # what is added stays in the processor's cache
            stretch = slice(start, start + AT_ONCE)
            own = shares if shares.ndim == 1 else shares[:, stretch]
            self.value[stretch] += weighted_sum(own, part[:, stretch])


@dataclass(frozen=True, slots=True)
class Radio:
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

    def grant(self, offer: Offer, ledger: Ledger, symbols: int = 1) -> Grant | None:
        """Ask power control for alpha, and where it chooses for the share at which each device sends."""
        if self.chooses:
            return self.policy.choose(offer, ledger)  # type: ignore[attr-defined,no-any-return]
        alpha = self.policy.alpha(offer.demand, ledger)
        if alpha is not None and self.limit is not None:
            alpha = min(alpha, self.limit * symbols / float(offer.demand.max()))
        return None if alpha is None else Grant(alpha, np.ones(len(offer.demand)))

    def receives(self, link: Link) -> float | None:
        """Return the bits per channel use that every device which can send could receive at its own power.

        None where no transmit power is known, or nobody can send.
        """
        able = anything(link.active)
        if self.limit is None or not able.any():
            return None
        snr = np.where(link.active, self.limit / np.where(link.active, link.cost, 1.0), 0.0)[able]
        bits = np.log2(1 + snr)
        return float((bits if bits.ndim == 1 else bits.mean(axis=1)).min())

    def afford(self, energy: float, link: Link, ledger: Ledger) -> tuple[Mask, Array]:
        """Return who can bring so much energy to the server, each in uses of its own, and what that costs.

        Without superposition every device has an alpha of its own. Where it would be below 1, the link is too
        weak for what the policy grants, and the device is silent. A device whose cost differs from symbol to
        symbol spreads the energy evenly over those in which it can send.
        """
        able = anything(link.active).copy()
        cost = link.cost
        if cost.ndim == 2:
            active = np.broadcast_to(link.active.reshape(len(cost), -1), cost.shape)
            cost = np.where(active, cost, 0.0).sum(axis=1) / np.maximum(active.sum(axis=1), 1)
        demand = np.where(able, energy * cost, 0.0)
        for m in np.flatnonzero(able):
            alpha = self.policy.alpha(demand[m : m + 1], Ledger(ledger.spent[m : m + 1], ledger.rounds))
            able[m] = alpha is not None and alpha >= 1 - SLACK
        return able, np.where(able, demand, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """What arrived: y = (1/W) sum of w_m signal_m + n, n ~ N(0, noise_var I).

    ``noise_var`` is one number, or one per symbol; where nobody sent it is infinite and the observation zero.
    ``delivered`` is which part of each device's signal arrived, (rows,), or of each symbol, (rows, s). Where
    nobody was heard, ``alpha`` is None. ``clean`` is the mean of the same signals without noise. Where
    signals arrive one by one, ``each`` is what part of the share every row has.
    """

    observation: Array
    noise_var: float | Array
    alpha: float | None
    energy: Array
    delivered: Array
    share: float | Array
    clean: Array
    channel_uses: int
    each: Array | None = None

    def heard(self, computed: float, *, noise: bool = True) -> Heard:
        """Return what the server is told, or would be told of the same signals without noise."""
        if noise:
            return Heard(self.observation, self.noise_var, self.share, computed, self.each)
        noise_var = np.where(np.isinf(self.noise_var), np.inf, 0.0)[()]
        return Heard(self.clean, noise_var, self.share, computed, self.each)

    @property
    def typical_noise(self) -> float:
        """One number for the noise of all symbols: the harmonic mean, as the unheard say nothing."""
        if np.ndim(self.noise_var) == 0:
            return float(self.noise_var)
        with np.errstate(divide="ignore"):
            return float(1 / np.mean(1 / np.asarray(self.noise_var)))


def transmission(
    scheme: Scheme[Any], air: Radio | None, plan: Plan, senders: Senders, ledger: Ledger, *place: int
) -> "Superposed | Digital":
    """Return the way on which signals arrive at a ``place``, seed and round; without air, a digital one."""
    own = senders.accounts(ledger)
    if air is not None and scheme.uses_radio and scheme.superposes:
        return Superposed(air, senders, own, scheme.symbols_are_coordinates, *place)
    if air is None or not scheme.uses_radio:
        return Digital(senders, senders.sending, np.zeros(len(senders.weights)))
    cost = scheme.spends(plan)
    link = senders.link(air.channel, cost.channel_uses, *place)
    able, energy = air.afford(cost.energy, link, own)
    return Digital(senders, able, energy, cost.channel_uses, link)


class Superposed:
    """Signals that add up in the air.

    With one alpha for all, an active device sends sqrt(alpha) M w_m signal_m / h^_m; the server divides what
    it hears by M sqrt(alpha) W, which leaves noise of variance sigma_e^2 / (M sqrt(alpha) W)^2. W is the
    weight of all that computed an update: what a silent device keeps arrives later, and counts once. The
    observation has the precision of the signals as far as that can hold it, and a receiver follows it.

    A device that leaves a symbol out keeps it where symbols are ``coordinates``. Where they are mixtures of
    all coefficients, that symbol lacks the device, and takes those who sent it for all who sent any: it is
    divided by M sqrt(alpha) W_f, see :func:`_divisor`.
    """

    def __init__(
        self, air: Radio, senders: Senders, ledger: Ledger, coordinates: bool, seed: int, round: int
    ) -> None:
        self.air, self.senders, self._ledger, self._coordinates = air, senders, ledger, coordinates
        self._seed, self._round = seed, round
        self._signals: Array | None = None
        self.link: Link | None = None

    def draw(self, symbols: int) -> Link:
        """Return the state of the air in a round of so many symbols; who can send, sends."""
        if self.link is None:
            self.link = self.senders.link(self.air.channel, symbols, self._seed, self._round)
        return self.link

    def put(self, rows: slice, signals: Array) -> None:
        """Take the signals of some devices."""
        self.draw(signals.shape[1])
        if len(signals) == (count := len(self.senders.weights)):
            self._signals = signals
            return
        if self._signals is None:
            self._signals = np.empty((count, signals.shape[1]), signals.dtype)
        self._signals[rows] = signals

    def delivered(self, rows: slice) -> Array | None:
        """Return what part of the signals arrives; None as long as power control has to say."""
        if self.air.chooses or self.link is None:
            return None
        active = self.link.active[rows]
        return self._delivered(active, np.ones(len(active)))

    def grant(self, energy: Array, symbols: int, norm: Array | None = None) -> Grant | None:
        """Return what power control decides, given what each device spends on its signal at unit scale.

        One that chooses also wants to know how long the signals are.
        """
        link, who = self.draw(symbols), self.senders
        whole = who.whole or 1.0
        noise = float(np.broadcast_to(link.noise_var, (symbols,)).sum()) / (who.known * whole) ** 2
        demand = self._scale(link) ** 2 * energy
        length = energy if norm is None else norm
        arriving = None if norm is None else (self._scale(link) * norm) ** 2
        offer = Offer(demand, who.weights / whole, length, noise, arriving)
        return self.air.grant(offer, self._ledger, symbols)

    def arrive(self) -> Arrival:
        """Scale, send and rescale the signals."""
        signals, link, who = self._signals, self.link, self.senders
        assert signals is not None and link is not None
        if link.active.ndim == 2:
            signals = np.where(link.active, signals, 0)
        energy = energy_of(signals, link.cost)
        norm = np.sqrt(energy_of(signals, np.ones(len(signals)))) if self.air.chooses else None
        grant = self.grant(energy, signals.shape[1], norm)
        if grant is None:
            return nothing(*signals.shape)
        scale = self._scale(link)
        strength = np.sqrt(grant.alpha) * scale * grant.share
        energy = grant.alpha * (scale**2 * energy) * grant.share**2
        sent = strength[:, None] * signals
        received = hear(self.air.channel, link, sent, who.devices, self._seed, self._round)
        if received is None:  # energy is spent, and everybody keeps what was sent in vain
            return replace(nothing(*signals.shape), energy=energy)
        heard, noise_var = received
        weights = who.weights * grant.share
        given = weights, who.whole, link.active, self._coordinates
        amplitude = _divisor(who.known * np.sqrt(grant.alpha), *given)
        observation, noise_var = _rescaled(heard, noise_var, link.active, amplitude, strength)
        if np.abs(observation).max() <= np.finfo(signals.dtype).max:
            observation = observation.astype(signals.dtype, copy=False)
        delivered = self._delivered(link.active, grant.share)
        clean = _clean(np.where(anything(link.active), weights, 0.0), _divisor(1.0, *given), signals)
        told = delivered, _share(who, delivered), clean, signals.shape[1]
        return Arrival(observation, noise_var, grant.alpha, energy, *told)

    def _scale(self, link: Link) -> Array:
        return self.senders.known * np.where(anything(link.active), self.senders.weights, 0.0)

    def _delivered(self, active: Mask, share: Array) -> Array:
        """Return which part of each device's signal arrives, where they send at such shares of strength.

        Where symbols are mixtures, a device that sent any symbol has told all it had to tell.
        """
        heard = active if self._coordinates else anything(active)
        return np.where(heard, share if heard.ndim == 1 else share[:, None], 0.0)


class Digital:
    """Signals that reach the server one by one and free of error: their weighted mean, in double precision.

    ``able`` are those whose messages arrive, and ``energy`` what that costs each; without a radio there are
    no ``channel_uses``.
    """

    def __init__(
        self, senders: Senders, able: Mask, energy: Array, channel_uses: int = 0, link: Link | None = None
    ) -> None:
        self._senders, self._able, self._energy, self._uses = senders, able, energy, channel_uses
        self.link = link
        self._mean = WeightedMean(np.where(able, senders.weights, 0.0), senders.whole)

    def put(self, rows: slice, signals: Array) -> None:
        """Take the signals of some devices."""
        self._mean.put(rows, signals)

    def delivered(self, rows: slice) -> Array:
        """Return what part of the signals arrives: all of it, or nothing."""
        return self._able[rows].astype(float)

    def arrive(self) -> Arrival:
        """Return the mean."""
        mean, who = self._mean.value, self._senders
        assert mean is not None
        if not self._able.any() or who.whole == 0:
            return nothing(len(who.weights), len(mean))
        delivered = self.delivered(slice(None))
        share, alpha = _share(who, delivered), 1.0 if self._uses else None
        each = who.weights * delivered / who.whole
        return Arrival(mean, 0.0, alpha, self._energy, delivered, share, mean, self._uses, each)


def nothing(devices: int, symbols: int) -> Arrival:
    """Return what arrives where nobody is heard."""
    zeros, silence = np.zeros(devices), np.zeros(symbols)
    return Arrival(silence, np.inf, None, zeros, zeros, 0.0, silence, 0)


def _share(who: Senders, delivered: Array) -> float | Array:
    """Return the part of the weight that was heard: a number where it is the same in all symbols."""
    if delivered.ndim == 1:
        return float((who.weights * delivered).sum()) / who.whole
    share = weighted_sum(who.weights, delivered) / who.whole
    return float(share[0]) if (share == share[0]).all() else share


def _divisor(unit: float, weights: Array, whole: float, active: Mask, coordinates: bool) -> float | Array:
    """Return what the server divides by where it hears weights times ``unit``: W, or W_f for mixtures f.

    W_f = (W / W_sent) (weight heard in f) with W_sent, the weight of all who sent any symbol; zero where
    nobody sent. A share c_m counts as much less weight.
    """
    if active.ndim == 1 or coordinates:
        return unit * whole
    sent = float(weights[anything(active)].sum())
    return unit * whole * weighted_sum(weights, active) / (sent or 1.0)


def _rescaled(
    heard: Array, noise_var: float | Array, active: Mask, amplitude: float | Array, strength: Array
) -> tuple[Array, float | Array]:
    """Return the observation and its noise, a number where it is the same in all symbols."""
    if active.ndim == 1:
        return heard / amplitude, noise_var / amplitude**2
    audible = active[strength > 0].any(axis=0)
    divisor = np.where(audible, amplitude, 1.0)
    variance = np.where(audible, noise_var / divisor**2, np.inf)
    equal = bool((variance == variance[0]).all())
    return np.where(audible, heard / divisor, 0.0), float(variance[0]) if equal else variance


def _clean(weights: Array, divisor: float | Array, signals: Array) -> Array:
    """Return the mean of the signals, which are zero where nobody sent them."""
    if not isinstance(divisor, np.ndarray):
        return weighted_sum(weights / divisor, signals)
    return np.asarray(weighted_sum(weights, signals) / np.where(divisor > 0, divisor, 1.0))
