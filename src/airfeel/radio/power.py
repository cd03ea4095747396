"""Power control and energy (7)(12).

Signals are scaled by one alpha for all devices, otherwise their sum in the air is not the weighted mean;
policies differ in how they choose it. Where gains differ by orders of magnitude the weakest device sets
everybody's noise; the last two give up a part of the weighted mean where that saves more noise than it costs.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.arrays import Array
from airfeel.ranges import LARGEST, Checked, Positive
from airfeel.registry import POLICIES, option

SLACK = 1e-9  # relative rounding error granted to the energy audit
SHORTER = 0.1  # share of the devices whose signals are taken for those of one round
WEAKEST = 1e-200  # signal energy that is as good as zero: its alpha would overflow


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """Energy every device has spent, and over how many rounds.

    >>> ledger = Ledger.open(num_devices=2)
    >>> ledger.charge(np.array([3.0, 5.0]), power=5.0).spent
    array([3., 5.])
    """

    spent: Array
    rounds: int

    @classmethod
    def open(cls, num_devices: int) -> "Ledger":
        """Return the ledger before the first round."""
        return cls(np.zeros(_checks.integer("num_devices", num_devices, at_least=1)), 0)

    def available(self, power: float) -> Array:
        """Return what each device may spend in the next round so that (7) still holds after it."""
        return (self.rounds + 1) * power - self.spent

    def charge(self, energy: Array, power: float) -> "Ledger":
        """Return the ledger after one more round; raise EnergyExceeded where (7) would not hold after it."""
        spent, rounds = self.spent + energy, self.rounds + 1
        over = np.flatnonzero(~(spent <= rounds * power * (1 + SLACK)))
        if len(over):
            device = int(over[0])
            raise EnergyExceeded(
                f"device {device} would have spent {spent[device]:g} after {rounds} rounds: "
                f"(7) allows {power:g} per round, {rounds * power:g} in all"
            )
        return Ledger(spent, rounds)


class EnergyExceeded(RuntimeError):
    """A device would exceed its average power P: a power policy (or a channel's cost) is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What the devices could send in a round, (M,) each.

    ``demand`` is the energy that a device's signal takes at alpha = 1, 0 where there is nothing to send;
    ``weights`` are w_m / W, ``norm`` the lengths ||signal_m||. ``noise`` is the energy of the noise in the
    weighted mean at alpha = 1, over all symbols; it falls as 1 / alpha. ``arriving`` is the energy that would
    arrive of each signal at alpha = 1; None: as much as it takes.
    """

    demand: Array
    weights: Array
    norm: Array
    noise: float
    arriving: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """What power control decides: alpha, and c_m in [0, 1], at what share of its strength a device sends."""

    alpha: float
    share: Array


class PowerPolicy(Protocol):
    """How alpha (12) is chosen from what the devices' signals demand and what they have spent.

    An optional ``choose(offer, ledger)`` returns a :class:`Grant` (or None when nobody has anything to send)
    where a policy may leave devices out, or let them send less than the others. A policy that may spend more
    than P in a round, having saved before, has the class attribute ``saves = True``.
    """

    @property
    def power(self) -> float:
        """P, the average energy a device may spend in a round (7)."""
        ...

    def alpha(self, demand: Array, ledger: Ledger) -> float | None:
        """Return alpha given each device's energy at alpha = 1, or None when nobody has anything to send."""
        ...


@POLICIES.register("equal", place=0)
@dataclass(frozen=True, slots=True)
class EqualPower(Checked):
    """alpha = P / max_m demand_m: the strongest device spends exactly P in every round, the others less."""

    power: Annotated[float, Gt(0), Le(LARGEST)] = 500.0

    def alpha(self, demand: Array, ledger: Ledger) -> float | None:
        """Return alpha for this round alone."""
        largest = float(demand.max(initial=0.0))
        return self.power / largest if largest > WEAKEST else None


@POLICIES.register("long_term", place=10)
@dataclass(frozen=True, slots=True)
class LongTermPower(EqualPower):
    """Spend what earlier rounds left over: alpha is the largest for which (7) holds at the end of this round.

    A device has t P to spend in t rounds. Devices that were not the strongest, or were silent, have saved,
    and alpha is limited by the device whose savings last least: never below the alpha of
    :class:`EqualPower`.
    """

    saves: ClassVar[bool] = True

    def alpha(self, demand: Array, ledger: Ledger) -> float | None:
        """Return alpha from the savings of the devices that send."""
        sending = demand > WEAKEST
        if not sending.any():
            return None
        return float((ledger.available(self.power)[sending] / demand[sending]).min())


@POLICIES.register("selection", place=20)
@dataclass(frozen=True, slots=True)
class Selection(EqualPower):
    """Leave out the devices that demand most, as many as makes the predicted error least.

    The error is (sum of worth_m over those left out)^2 + noise / alpha, alpha = P / (largest demand of the
    others): one number for each of the M places at which the sorted demands can be cut.
    """

    def choose(self, offer: Offer, ledger: Ledger) -> Grant | None:
        """Return the alpha of those who send; the others have the share 0."""
        ranked = _ranked(offer)
        if not len(ranked):
            return None
        missing = _behind(worth(offer)[ranked])
        alpha = self.power / offer.demand[ranked]
        best = int(np.argmin(missing**2 + offer.noise / alpha))
        return Grant(float(alpha[best]), np.isin(np.arange(len(offer.demand)), ranked[: best + 1]) * 1.0)


@POLICIES.register("mse", place=30)
@dataclass(frozen=True, slots=True)
class LeastError(EqualPower):
    """Choose alpha so that the predicted error is least; who cannot afford it sends with all it has.

    The signal of such a device arrives scaled by c_m = (P / (alpha demand_m))^(1/2) < 1, and the error is
    (sum of worth_m (1 - c_m))^2 + noise / alpha. In b = alpha^(-1/2) it is a parabola between two devices'
    limits: its least value is found in each piece, and the least of all is taken. At least one device sends
    its signal whole; beyond that, only the server's divisor would change. After Cao, Zhu, Xu and
    Huang, "Optimized power control for over-the-air computation in fading channels", IEEE Transactions on
    Wireless Communications 19(11), 2020, whose payloads are independent, so that errors add up as squares;
    those of devices that learn the same model point the same way and add up themselves.
    """

    def choose(self, offer: Offer, ledger: Ledger) -> Grant | None:
        """Return alpha, and what each device can send of its signal at that alpha."""
        ranked = _ranked(offer)
        if not len(ranked):
            return None
        limit = np.sqrt(offer.demand[ranked] / self.power)  # a device sends all of its signal if b >= limit
        value = worth(offer)[ranked]
        # In piece i, limit[i] <= b <= limit[i + 1]: the devices behind i are short of energy.
        D, E = _behind(value), _behind(value / limit)
        with np.errstate(invalid="ignore", divide="ignore"):
            lowest = np.nan_to_num(D * E / (E**2 + offer.noise))
        b = np.clip(lowest, limit, np.append(limit[1:], limit[-1]))
        best = b[int(np.argmin((D - E * b) ** 2 + offer.noise * b**2))]
        share = np.zeros(len(offer.demand))
        share[ranked] = np.minimum(1.0, best / limit)
        return Grant(float(best**-2), share)


@POLICIES.register("fixed", place=40)
@dataclass(frozen=True, slots=True)
class FixedAlpha(EqualPower):
    """alpha = P / limit^2 in every round, whatever the devices have to send: for a promise about privacy.

    A device of mean weight spends P on a signal as long as ``limit``. A longer one is sent shorter, as much
    as it takes that the device neither spends nor arrives with more than P; what is left over is the
    scheme's, as with devices that cannot afford more.
    """

    limit: Positive = option(1.0, "length of a signal that takes all of P")

    def choose(self, offer: Offer, ledger: Ledger) -> Grant | None:
        """Return the one alpha, and at what share of its strength each device may send."""
        if not (offer.demand > WEAKEST).any():
            return None
        alpha = self.power / self.limit**2
        most = offer.demand if offer.arriving is None else np.maximum(offer.demand, offer.arriving)
        return Grant(alpha, np.sqrt(np.minimum(1.0, self.power / np.maximum(alpha * most, WEAKEST))))


def _ranked(offer: Offer) -> NDArray[np.intp]:
    """Return who has something to send, the least demanding first."""
    order = np.argsort(offer.demand, kind="stable")
    return order[offer.demand[order] > WEAKEST]


def _behind(values: Array) -> Array:
    """Return the sum of all values behind each."""
    return np.append(values[::-1].cumsum()[::-1][1:], 0.0)


def worth(offer: Offer) -> Array:
    """Return what the weighted mean of a round lacks without each device, as a norm: w_m / W times a length.

    Who was left out before has gathered updates of many rounds in its memory. That backlog is late whatever
    is decided now, and counting it would let the far devices in after all, at everybody's cost. So a signal
    counts for no more than the shorter ones, those of devices that have just been heard.
    """
    lengths = offer.norm[offer.demand > WEAKEST]
    return offer.weights * np.minimum(offer.norm, np.quantile(lengths, SHORTER, method="lower"))
