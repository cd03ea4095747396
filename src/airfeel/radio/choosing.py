"""Power control where gains differ by orders of magnitude: weak devices are left out, or send what they can.

With one alpha for all and full inversion the weakest device sets everybody's noise. Both policies here give
up a part of the weighted mean where that saves more noise than it costs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airfeel.radio.power import WEAKEST, Array, EqualPower, Grant, Ledger, Offer
from airfeel.registry import POLICIES

SHORTER = 0.1  # share of the devices whose signals are taken for those of one round


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
