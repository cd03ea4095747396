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
from airfeel.radio.link import Channel, Link
from airfeel.radio.power import EqualPower, Ledger, Offer, PowerPolicy
from airfeel.theory.planner import LinkBudget, LinkDraws
from airfeel.uplink import arrive

Array = NDArray[np.floating[Any]]

EVERYBODY = Participation()
EQUAL = EqualPower(1.0)
DRAWS = 8  # of all rounds; the chains that are sampled are shared out among them
SILENT = 1000  # rounds in a row in which nobody can send, after which there is no link
LEVELS = 400  # symbols at most that stand for all of a round, where they differ
UNHEARD = 1e9  # noise of a symbol that nobody sends, over that of the reference model


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
    """The links of all rounds, drawn several times, and the policy by which devices send; P is 1."""

    links: Sequence[Sequence[RoundDraw]]
    policy: PowerPolicy

    def __call__(self, link: LinkBudget) -> LinkDraws:
        """Return what the policy makes of the links, where a device has the energy of this link.

        The receiver learns how large the sum is in the mean, so signal and noise are told relative to that
        where a policy leaves devices out for good.
        """
        snr = link.snr * link.excess  # devices whose signals are larger than the mean lose as much with them
        found = [list(zip(*self._followed(rounds, snr), strict=True)) for rounds in self.links]
        noise, sent, arriving = (np.array(part) for part in zip(*found, strict=True))
        usual = float(sent.mean()) if hasattr(self.policy, "choose") else 1.0
        return LinkDraws(noise / usual**2, sent / usual, arriving / usual, usual)

    def _followed(self, rounds: Sequence[RoundDraw], snr: float) -> Iterator[tuple[Any, float, float]]:
        """Yield noise, sent and arriving of the rounds of one draw, with what the devices have spent."""
        radio, ledger = arrive.Radio(policy=self.policy), Ledger.open(len(rounds[0].demand))
        for one in rounds:
            weights = np.full(len(one.demand), 1 / (len(one.demand) * one.whole))
            grant = radio.grant(Offer(one.demand, weights, one.strength, 1 / (snr * one.whole**2)), ledger)
            assert grant is not None  # a round in which nobody can send is left out
            ledger = ledger.charge(grant.alpha * one.demand * grant.share**2, radio.policy.power)
            heard = np.where(one.demand > 0, grant.share, 0.0)
            levels = 1.0 if one.active is None else _levels(one.active, heard)
            noise = levels / (grant.alpha * one.whole**2)
            yield noise, float(heard.mean()) / one.whole, float((one.gain * heard).mean()) / one.whole


def draw_air(
    channel: Channel,
    devices: int,
    symbols: int,
    rounds: int,
    seed: int = 0,
    draws: int = DRAWS,
    policy: PowerPolicy = EQUAL,
    participation: Participation = EVERYBODY,
) -> DrawnAir:
    """Draw what a channel does to equal devices with equal gradients; the policy of power control has P = 1.

    Only those that take part in a round can send in it. A round in which nobody can is none for the receiver,
    and is left out.
    """
    seeds = range(seed, seed + draws)
    links = [islice(_heard(channel, participation, devices, symbols, one), rounds) for one in seeds]
    return DrawnAir([list(drawn) for drawn in links], policy)


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
            yield replace(_round(link, symbols), whole=float(computing.mean()))
        else:
            silent += 1
    raise ValueError(f"no device could send in {SILENT} rounds: there is no link to predict")


def _round(link: Link, symbols: int) -> RoundDraw:
    """Return what a link asks; devices that differ from symbol to symbol are mixtures of all coefficients."""
    given: tuple[NDArray[Any], ...] = link.active, link.cost, link.gain
    width = symbols if any(part.ndim == 2 for part in given) else 1
    wide = (part if part.ndim == 2 else part[:, None] for part in given)
    active, cost, gain = (np.broadcast_to(part, (len(part), width)) for part in wide)
    if np.any(np.imag(gain)) or (width > 1 and np.any(gain.real[active] != 1)):
        rule = (
            "must be real and one per device where it is not 1: what offsets, or misjudged gains of single "
            "symbols, do is not predicted; set channel.csi_error, phase_error, timing_error and "
            "carrier_error to 0, or train with them and give the folder of the run"
        )
        raise _checks.reject("gain", f"shape {np.shape(link.gain)}", rule)
    places = np.linspace(0, symbols - 1, min(symbols, LEVELS)).round().astype(int)
    return RoundDraw(
        demand=np.where(active, cost, 0.0).mean(axis=1),
        strength=np.sqrt(active.mean(axis=1)),
        gain=(active * gain.real).max(axis=1),
        active=active[:, places] if width > 1 else None,
    )
