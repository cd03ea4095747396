"""The seam between channels and everybody who sends: a round's state of the air (6).

A channel is a frozen set of parameters with one method. ``link`` draws a round's state of the air: who may
send, at what cost, how strongly each signal arrives, and how much noise the server adds. Power control needs
the cost and decides the signals; :func:`superpose` adds them up.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel.streams import stream

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One round's state of the channel, one entry for each device.

    ``active``: the device can send. ``cost``: energy it must spend for each unit of signal energy, which is
    ``1/|h^|^2`` when it inverts the gain h^ it knows. ``gain``: the real factor at which the inverted signal
    arrives, 1 when the device knew its gain exactly. ``noise_var``: sigma_e^2, the variance of the noise in
    each (real) channel use of this round.
    """

    active: Mask
    cost: Array
    gain: Array
    noise_var: float


class Channel(Protocol):
    """What a user writes to send through other air; a frozen dataclass of about 15 lines.

    All randomness comes from :func:`airfeel.streams.stream` with (seed, round), so that every scheme meets
    the same air and a run can be resumed at any round.
    """

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Return the state of the channel in a round in which every device sends so many real symbols."""
        ...


def superpose(link: Link, signals: Array, seed: int, round: int) -> Array:
    """Return what the server hears, sum_m gain_m signal_m + N(0, noise_var I), in double precision.

    ``signals`` (M, s) are what the devices wanted to arrive, that is before they divide by their gain; the
    rows of silent devices are zero.
    """
    noise = stream(seed, "noise", round).standard_normal(signals.shape[1])
    return weighted_sum(link.gain, signals) + math.sqrt(link.noise_var) * noise


def weighted_sum(weights: Array, rows: Array) -> Array:
    """Return sum_m weights_m rows_m in double precision.

    Not a matrix product: BLAS may order the sum by the number of its threads.
    """
    return np.asarray(np.einsum("m,mn->n", weights, rows, dtype=np.float64))
