"""The seam between channels and everybody who sends: a round's state of the air (6).

A channel is a frozen set of parameters with one method. ``link`` draws a round's state of the air: who may
send, at what cost, how strongly each signal arrives, and how much noise the server adds. Power control needs
the cost and decides the signals; :func:`hear` adds them up.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel.arrays import Array as Array
from airfeel.arrays import Mask as Mask
from airfeel.streams import stream

Gain = NDArray[np.inexact[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One round's state of the channel: one entry for each device (M,), or for each device and symbol (M, s).

    ``active``: the device can send (this symbol). ``cost``: energy it must spend for each unit of signal
    energy, which is ``1/|h^|^2`` when it inverts the gain h^ it knows. ``gain``: the factor at which the
    inverted signal arrives, 1 when the device knew its gain exactly. ``noise_var``: sigma_e^2, the variance
    of the noise in each (real) symbol of this round; a number, or one for each symbol (s,).

    A complex ``gain`` says that symbols 2e and 2e + 1 are in-phase and quadrature part of one complex channel
    use e, which arrives turned: (I + jQ) gain.
    """

    active: Mask
    cost: Array
    gain: Gain
    noise_var: float | Array


class Channel(Protocol):
    """What a user writes to send through other air; a frozen dataclass of about 15 lines.

    All randomness comes from :func:`airfeel.streams.stream` with (seed, round), so that every scheme meets
    the same air and a run can be resumed at any round.
    """

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Return the state of the channel in a round in which every device sends so many real symbols."""
        ...


def hear(
    channel: Channel, link: Link, signals: Array, devices: NDArray[np.intp], seed: int, round: int
) -> tuple[Array, float | Array] | None:
    """Return what the server hears of these devices' signals, and the variance of its noise.

    A channel that is more than a factor per symbol has a method ``transmit`` with these arguments and this
    result; None says that the round was lost. For all others signals are superposed.
    """
    if hasattr(channel, "transmit"):
        found: tuple[Array, float | Array] | None = channel.transmit(link, signals, devices, seed, round)
        return found
    return superpose(link, signals, seed, round), link.noise_var


def superpose(link: Link, signals: Array, seed: int, round: int) -> Array:
    """Return what the server hears, sum_m gain_m signal_m + N(0, noise_var I), in double precision.

    ``signals`` (M, s) are what the devices wanted to arrive, that is before they divide by their gain; where
    a device is silent they are zero. A complex gain turns each pair of symbols, I + jQ.
    """
    heard = weighted_sum(link.gain.real, signals)
    if np.iscomplexobj(link.gain):
        # (I + jQ) gain = (I Re - Q Im) + j (Q Re + I Im). The partner of a last symbol without one is zero.
        partner, even = np.zeros_like(signals), 2 * (signals.shape[1] // 2)
        partner[:, 0:even:2], partner[:, 1::2] = -signals[:, 1::2], signals[:, 0:even:2]
        heard = heard + weighted_sum(link.gain.imag, partner)
    noise = stream(seed, "noise", round).standard_normal(signals.shape[1])
    return heard + np.sqrt(link.noise_var) * noise


def weighted_sum(weights: Array, rows: Array | Mask) -> Array:
    """Return sum_m weights_m rows_m in double precision; weights are (M,), or (M, n) like the rows.

    Not a matrix product: BLAS may order the sum by the number of its threads.
    """
    shares = "m" if weights.ndim == 1 else "mn"
    return np.asarray(np.einsum(f"{shares},mn->n", weights, rows, dtype=np.float64))


def anything(active: Mask) -> Mask:
    """Return who can send at all, (M,), from who can send which symbol."""
    return active if active.ndim == 1 else np.asarray(active.any(axis=1))


def energy_of(signals: Array, cost: Array) -> Array:
    """Return what each device spends on its signal at unit scale."""
    if cost.ndim == 1:
        return np.asarray(np.einsum("ms,ms->m", signals, signals, dtype=np.float64) * cost)
    return np.asarray(np.einsum("ms,ms,ms->m", signals, signals, cost, dtype=np.float64))


def per_symbol(elements: NDArray[Any], symbols: int) -> NDArray[Any]:
    """Give both symbols of an element its value: (M, ceil(s/2)) to (M, s); one value per device stays one.

    >>> per_symbol(np.array([[1, 2]]), 3)
    array([[1, 1, 2]])
    """
    return elements if elements.ndim == 1 else np.repeat(elements, 2, axis=1)[:, :symbols]


def elements_of(symbols: int) -> int:
    """Return how many complex channel uses so many real symbols take: two in each."""
    return -(-symbols // 2)
