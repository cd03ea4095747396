"""D-DSGD, the digital rival (Amiri and Gunduz, IEEE Transactions on Signal Processing 68, 2020)."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from airfeel import _checks
from airfeel.ranges import Fraction
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes.sparsification import largest
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes, Spending, size_of

VALUE_BITS = 33  # a mean magnitude in single precision, and its sign
ROUNDING = 1e-6  # bits by which the logarithm of a binomial coefficient may be wrong


@dataclass(frozen=True, slots=True)
class DDsgdState:
    """What is agreed before the first round: q entries of a device, channel uses of all, energy of each."""

    keep: int
    channel_uses: int
    energy: float


@SCHEMES.register("d_dsgd", place=50)
@dataclass(frozen=True)
class DDsgd(ErrorFeedback[DDsgdState]):
    """D-DSGD: every device sends a few of its largest entries in bits, free of error.

    The M devices of a round take turns: each has s/M channel uses and all its energy P in them, which carry
    at most R = s/(2M) log2(1 + M P / (s sigma_e^2)) bits. A device looks at its q largest and at its q
    smallest entries and sends the group whose mean is farther from zero: which q of the N entries they are,
    in ceil(log2 binomial(N, q)) bits, and their mean, in 33. q is the largest number that fits in R, at most
    N/2. What the mean does not say of these entries waits in the error memory with all the others.

    Capacity is taken for granted: a message that was sent is decoded, and what devices misjudge of their
    gains does no harm. With fading, a device whose link is too weak for the energy it has is silent in that
    round; ``margin`` below 1 gives up bits so that fewer are (it sends at the rate, and with the energy, of
    that share of P).
    """

    margin: Fraction = option(1.0, "share of the power that the rate counts on; the rest is for weak links")

    superposes, exact = False, True
    revision: ClassVar[int] = 2  # those that compute in a round share it, not all devices

    def init(self, shapes: Shapes, setting: Setting) -> DDsgdState:
        """Find out how many entries fit in the bits of a round."""
        for name, value in (("power", setting.power), ("noise_var", setting.noise_var)):
            if value is None:
                raise _checks.reject(name, value, "d_dsgd must know power and noise to count its bits")
        size, energy = size_of(shapes), self.margin * float(setting.power or 0)
        devices = setting.computing or setting.devices
        bits = capacity(setting.symbols / devices, energy, float(setting.noise_var or 0))
        keep = fitting(size, bits)
        if keep == 0:
            rule = (
                f"D-DSGD has {bits:.4g} bits for each of {devices} devices in a round "
                f"and needs {message_bits(size, 1)} for one of {size} entries; "
                "fewer devices, more channel uses or more power would do"
            )
            raise _checks.reject("symbols", setting.symbols, rule)
        return DDsgdState(keep, setting.symbols, energy)

    def plan(self, state: DDsgdState, seed: int, round: int) -> Plan:
        """Announce how many entries a device sends, in how many channel uses and with what energy."""
        return {"keep": state.keep, "symbols": state.channel_uses, "energy": state.energy}

    def spends(self, plan: Plan) -> Spending:
        """Return the channel uses of all devices and the energy of each: there is no superposition."""
        return Spending(plan["symbols"], plan["energy"])

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Return what the server reads from each device's message: one value at q places, zero elsewhere."""
        keep, rows = plan["keep"], len(accumulated)
        groups = [largest(accumulated, keep), largest(-accumulated, keep)]
        high, low = (
            accumulated[group].reshape(rows, keep).mean(axis=1, dtype=np.float64) for group in groups
        )
        upper = high >= -low
        chosen = np.where(upper[:, None], *groups)
        limit = np.finfo(np.float32).max  # a message holds single precision
        value = np.clip(np.where(upper, high, low), -limit, limit).astype(np.float32)
        signal = chosen * value.astype(accumulated.dtype)[:, None]
        return Sent(signal, accumulated - signal)

    def decode(self, state: DDsgdState, plan: Plan, heard: Heard) -> tuple[Estimate, DDsgdState]:
        """Take the weighted mean of the messages for what it is."""
        return Estimate(heard.observation), state


def capacity(uses: float, energy: float, noise_var: float) -> float:
    """Return the bits that so much energy carries in so many real channel uses; infinite without noise.

    >>> capacity(uses=10, energy=30.0, noise_var=1.0)
    10.0
    """
    if noise_var == 0:
        return math.inf
    return uses / 2 * math.log1p(energy / (uses * noise_var)) / math.log(2)


def message_bits(size: int, keep: int) -> int:
    """Return the bits of a message: which ``keep`` of ``size`` entries, and one value.

    >>> message_bits(size=100, keep=2) - VALUE_BITS, 2**12 < 100 * 99 // 2 < 2**13
    (13, True)
    """
    ways = math.lgamma(size + 1) - math.lgamma(keep + 1) - math.lgamma(size - keep + 1)
    return math.floor(ways / math.log(2) + ROUNDING) + 1 + VALUE_BITS


def fitting(size: int, bits: float) -> int:
    """Return how many entries fit in so many bits: at most half of all, from where places get cheaper."""
    return bisect_right(range(1, max(1, size // 2) + 1), bits, key=lambda keep: message_bits(size, keep))
