"""The way through the air that all schemes share: scale, send, rescale (12), (6), (13)(14)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.radio.gaussian import GaussianMAC
from airfeel.radio.link import Channel, Link, superpose
from airfeel.radio.power import SLACK, EqualPower, Ledger, PowerPolicy

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """What came through the air: y = (1/W) sum of w_m signal_m + n, n ~ N(0, noise_var I)."""

    observation: Array
    noise_var: float
    alpha: float
    energy: Array


@dataclass(frozen=True, slots=True)
class Air:
    """A channel, and how the devices spend their energy on it.

    ``limit`` is the most energy per symbol, where a transmit power bounds every round and not only their mean
    as P does.
    """

    channel: Channel = field(default_factory=GaussianMAC)
    policy: PowerPolicy = field(default_factory=EqualPower)
    limit: float | None = None

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
    ) -> Arrival | None:
        """Scale, send and rescale the signals (M, s), one row per device; None when nothing is sent.

        With one alpha for all, an active device sends sqrt(alpha) M w_m signal_m / h^_m; the server divides
        what it hears by M sqrt(alpha) W, which leaves noise of variance sigma_e^2 / (M sqrt(alpha) W)^2. W
        is ``whole``, the weight of all devices that computed an update: what a silent one keeps arrives
        later, and dividing by the weight of those heard would then count it 1/W times. The observation has
        the precision of the signals as far as that can hold it, and a receiver follows it.
        """
        num_devices = len(weights)
        scale = np.where(active, num_devices * weights, 0.0)
        demand = scale**2 * np.einsum("ms,ms->m", signals, signals, dtype=np.float64) * link.cost
        alpha = self.policy.alpha(demand, ledger)
        if alpha is None:
            return None
        if self.limit is not None:
            alpha = min(alpha, self.limit * signals.shape[1] / float(demand.max()))
        heard = superpose(link, (np.sqrt(alpha) * scale)[:, None] * signals, seed, round)
        amplitude = num_devices * np.sqrt(alpha) * whole
        observation = heard / amplitude
        if np.abs(observation).max() <= np.finfo(signals.dtype).max:
            observation = observation.astype(signals.dtype, copy=False)
        return Arrival(observation, link.noise_var / amplitude**2, alpha, alpha * demand)

    def afford(self, energy: float, link: Link, sending: Mask, ledger: Ledger) -> tuple[Mask, Array]:
        """Return who can bring so much energy to the server, each in uses of its own, and what that costs.

        Without superposition every device has an alpha of its own. Where it would be below 1, the link is too
        weak for what the policy grants, and the device is silent.
        """
        able = sending & link.active
        demand = np.where(able, energy * link.cost, 0.0)
        for m in np.flatnonzero(able):
            alpha = self.policy.alpha(demand[m : m + 1], Ledger(ledger.spent[m : m + 1], ledger.rounds))
            able[m] = alpha is not None and alpha >= 1 - SLACK
        return able, np.where(able, demand, 0.0)
