"""What a round begins with, and what comes of it."""

from dataclasses import dataclass
from typing import Any

from airfeel import _checks
from airfeel.radio.power import Ledger
from airfeel.receivers.base import Info
from airfeel.units import relative_error
from airfeel.uplink.scheme import Array, Mask, Memory, Scheme, Setting, Shapes, everywhere, size_of


@dataclass(frozen=True, slots=True, eq=False)
class UplinkState:
    """What a run carries from round to round on the way from devices to server.

    ``memory`` are the named rows of all devices, ``scheme`` what the server carries, ``size`` N.
    """

    memory: Memory
    ledger: Ledger
    scheme: Any = None
    size: int = 0


def begin(scheme: Scheme[Any], shapes: Shapes, setting: Setting) -> UplinkState:
    """Return the state before round 1: memories as the scheme begins them, nothing spent."""
    size = _checks.integer("size", size_of(shapes), at_least=1)
    ledger, memory = Ledger.open(setting.devices), everywhere(scheme.memory(shapes), setting.devices)
    return UplinkState(memory, ledger, scheme.init(shapes, setting), size)


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """The result of one round.

    Parameters
    ----------
    mean
        x^, what the server believes the weighted mean to be.
    truth
        x, what it would have found in the same signals without noise; where symbols are mixtures that it
        cannot undo even then, the mean (1/W) sum of w_m times what the signals stand for.
    active, energy
        Devices that sent something, and what each device spent, (M,); zeros without a radio.
    channel_uses, alpha
        Real symbols sent, and power scaling (12); 0 and None without a radio, or when nothing was sent.
    noise_var
        sigma^2 of y = A x + n (13), the harmonic mean where it differs from symbol to symbol; None as alpha.
    info, variance
        The receiver's report, and its posterior variance of every coefficient; None where no receiver ran.
    downlink
        Numbers that the server told every device beside the model: the plan.
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
    downlink: int = 0

    @property
    def nmse(self) -> float | None:
        """||x^ - x||^2 / ||x||^2; None when x = 0 or there was no radio to lose anything."""
        return None if self.alpha is None else relative_error(self.mean, self.truth)
