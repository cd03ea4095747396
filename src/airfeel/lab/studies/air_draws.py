"""Air that changes from round to round, as the planner sees it: drawn from the channel itself.

The devices are equal and have equal gradients, as in the planner's reference model. What they spend and who
sends is decided by the power control of a run, given what each of them would need.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.learning.training import Participation
from airfeel.radio.link import Channel, Link, anything
from airfeel.radio.power import EqualPower, Grant, Ledger, Offer, PowerPolicy
from airfeel.theory.planner import ChangingAir, LinkBudget, LinkDraws
from airfeel.uplink import arrive

Array = NDArray[np.floating[Any]]

EVERYBODY = Participation()
EQUAL = EqualPower(1.0)
DRAWS = 8  # of all rounds; the chains that are sampled are shared out among them
SILENT = 1000  # rounds in a row in which nobody can send, after which there is no link
LEVELS = 400  # symbols at most that stand for all of a round, where they differ
UNHEARD = 1e9  # noise of a symbol that nobody sends, over that of the reference model


def draw_air(
    channel: Channel,
    devices: int,
    symbols: int,
    rounds: int,
    seed: int = 0,
    draws: int = DRAWS,
    policy: PowerPolicy = EQUAL,
    participation: Participation = EVERYBODY,
) -> ChangingAir:
    """Draw what a channel does to equal devices with equal gradients under a policy of power control.

    The policy has P = 1.

    Only those that take part in a round can send in it. A round in which nobody can is none for the receiver,
    and is left out.
    """
    links = [
        list(islice(_heard(channel, participation, devices, symbols, seed + draw), rounds))
        for draw in range(draws)
    ]
    drawn = DrawnAir(links, policy)
    return drawn if hasattr(policy, "choose") else drawn.at(LinkBudget(devices=devices))


@dataclass(frozen=True, slots=True, eq=False)
class RoundDraw:
    """What a round's link asks of the devices, whose signals have unit energy, spread evenly over symbols.

    ``demand`` is what each device needs at alpha = 1, and ``strength`` the part of its signal that it can
    send at all; ``gain`` is at what factor that arrives. ``active``, (M, levels), says who sends which of
    some symbols that stand for all; None where symbols do not differ. ``whole`` is W, the share of the
    devices that computed, by which the server divides.
    """

    demand: Array
    strength: Array
    gain: Array
    active: NDArray[np.bool_] | None = None
    whole: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class DrawnAir:
    """The links of all rounds, drawn several times, and the policy by which devices send over them."""

    links: Sequence[Sequence[RoundDraw]]
    policy: PowerPolicy

    def at(self, link: LinkBudget) -> LinkDraws:
        """Return what the policy makes of the links, where a device has the energy of this link.

        The receiver learns how large the sum is in the mean, so signal and noise are told relative to that
        where a policy leaves devices out for good.
        """
        snr = link.snr * link.excess  # devices whose signals are larger than the mean lose as much with them
        found = [self._followed(rounds, snr) for rounds in self.links]
        noise, sent, arriving = (np.array(part) for part in zip(*found, strict=True))
        every = [one for rounds in self.links for one in rounds]
        silent = 1 - float(np.mean([np.mean(one.demand > 0) for one in every]))
        computing = float(np.mean([one.whole for one in every]))
        if hasattr(self.policy, "choose"):
            usual = float(sent.mean())
            silent = 1 - computing * usual
            noise, sent, arriving = noise / usual**2, sent / usual, arriving / usual
        return LinkDraws(noise, sent, arriving, silent, computing)

    def _followed(
        self, rounds: Sequence[RoundDraw], snr: float
    ) -> tuple[list[Any], list[float], list[float]]:
        """Follow one draw through its rounds, with what the devices have spent; P is 1."""
        air, ledger = arrive.Radio(policy=self.policy), Ledger.open(len(rounds[0].demand))
        noise, sent, arriving = [], [], []
        for one in rounds:
            grant = _granted(air, one, ledger, snr)
            ledger = ledger.charge(grant.alpha * one.demand * grant.share**2, air.policy.power)
            heard = np.where(one.demand > 0, grant.share, 0.0)
            levels = 1.0 if one.active is None else _levels(one.active, heard)
            noise.append(levels / (grant.alpha * one.whole**2))
            sent.append(float(heard.mean()) / one.whole)
            arriving.append(float((one.gain * heard).mean()) / one.whole)
        return noise, sent, arriving


def _granted(air: arrive.Radio, one: RoundDraw, ledger: Ledger, snr: float) -> Grant:
    """Ask power control, as a run does."""
    weights = np.full(len(one.demand), 1 / (len(one.demand) * one.whole))
    offer = Offer(one.demand, weights, one.strength, 1 / (snr * one.whole**2))
    grant = air.grant(offer, ledger)
    assert grant is not None  # a round in which nobody can send is left out
    return grant


def _levels(active: NDArray[np.bool_], share: Array) -> Array:
    """Return the noise of symbols that not everybody sends, over that of one that all who send at all do."""
    weight = share @ active / share.sum()
    return np.where(weight > 0, 1 / np.maximum(weight, UNHEARD**-0.5) ** 2, UNHEARD)


def _heard(
    channel: Channel, participation: Participation, devices: int, symbols: int, seed: int
) -> Iterator[RoundDraw]:
    """Yield the rounds in which anybody can send."""
    silent, round = 0, 0
    while silent < SILENT:
        round += 1
        computing, sending = participation.draw(devices, seed, round)
        link = channel.link(devices, symbols, seed, round)
        link = replace(link, active=link.active & (sending if link.active.ndim == 1 else sending[:, None]))
        if link.active.any():
            silent = 0
            found = _flat(link) if link.active.ndim == link.cost.ndim == 1 else _by_symbol(link, symbols)
            yield replace(found, whole=float(computing.mean()))
        else:
            silent += 1
    raise ValueError(f"no device could send in {SILENT} rounds: there is no link to predict")


def _flat(link: Link) -> RoundDraw:
    """Return a round in which a device has one gain."""
    if link.gain.ndim > 1 or np.any(np.imag(link.gain)):
        raise _turned(link)
    able = link.active.astype(float)
    return RoundDraw(np.where(link.active, link.cost, 0.0), able, able * link.gain.real)


def _by_symbol(link: Link, symbols: int) -> RoundDraw:
    """Return a round in which devices differ from symbol to symbol: mixtures of all coefficients."""
    active, cost, gain = (_wide(part, symbols) for part in (link.active, link.cost, link.gain))
    if np.any(np.imag(gain)) or np.any(gain.real[active] != 1):
        raise _turned(link)
    places = np.linspace(0, symbols - 1, min(symbols, LEVELS)).round().astype(int)
    demand = np.where(active, cost, 0.0).mean(axis=1)
    return RoundDraw(demand, np.sqrt(active.mean(axis=1)), anything(active).astype(float), active[:, places])


def _wide(part: NDArray[Any], symbols: int) -> NDArray[Any]:
    """Give every symbol what was given for each device."""
    return np.broadcast_to(part if part.ndim == 2 else part[:, None], (len(part), symbols))


def _turned(link: Link) -> ValueError:
    """Refuse what turns or scales single symbols."""
    rule = (
        "must be real and one per device where it is not 1: what offsets, or misjudged gains of single "
        "symbols, do is not predicted; set channel.csi_error, phase_error, timing_error and carrier_error to "
        "0, or train with them and give the folder of the run"
    )
    return _checks.reject("gain", f"shape {np.shape(link.gain)}", rule)
