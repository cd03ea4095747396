"""Maps of the predicted error over many links: over s/N and P, or over hertz and dBm."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import LinkBudget, LinkForecast
from airfeel.units import count, decibel
from airfeel.workers import available_cores

Array = NDArray[np.floating[Any]]
Told = Callable[[int, int], None]

WIDER, STRONGER_DB = 10.0, 20.0  # how far a map in units goes from its middle, in bandwidth and in power


def _silent(done: int, of: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One side of a map: its title, the values that were computed, and the one that was asked about."""

    title: str
    values: Array
    here: float
    log: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Steady-state NMSE in dB over bandwidth (rows of the array) and power (columns)."""

    x: Axis
    y: Axis
    nmse_db: Array


def contour(forecast: LinkForecast, link: LinkBudget, cells: int = 12, told: Told = _silent) -> Map:
    """Predict a map of ``cells`` x ``cells`` links around ``link``, on all cores.

    Bandwidth goes from a fifth of the link's to five times (at most s = N), power from 1/100 to 100 times.
    ``told`` hears how many predictions are done, and of how many.
    """
    ratios = np.geomspace(max(link.ratio / 5, 1 / link.size), min(1.0, 5 * link.ratio), cells)
    powers = np.geomspace(link.power / 100, link.power * 100, cells)
    links = [
        replace(link, rows=count(ratio, link.size), power=float(power))
        for ratio in ratios
        for power in powers
    ]
    level = decibel(link.device_snr)
    return Map(
        Axis("channel uses per parameter, s/N", ratios, link.ratio),
        Axis(
            f"energy per device and round, P (at the cross {level:.1f} dB SNR per symbol)", powers, link.power
        ),
        _predicted(forecast, links, told).reshape(cells, cells),
    )


def radio_contour(
    forecast: LinkForecast, link: LinkBudget, units: RadioUnits, cells: int = 12, told: Told = _silent
) -> Map:
    """Predict the same over bandwidths and transmit powers of a radio, the symbols of a round held fixed.

    Bandwidth goes from a tenth to ten times, power from 20 dB less to 20 dB more. The error depends on power
    over bandwidth alone, so that many cells share a prediction.
    """
    bandwidths = np.geomspace(units.bandwidth_hz / WIDER, units.bandwidth_hz * WIDER, cells)
    levels = np.linspace(units.tx_power_dbm - STRONGER_DB, units.tx_power_dbm + STRONGER_DB, cells)
    snr_db = [
        round(replace(units, bandwidth_hz=float(hertz), tx_power_dbm=float(level)).snr_db, 6)
        for hertz in bandwidths
        for level in levels
    ]
    different = sorted(set(snr_db))
    links = [replace(link, power=units.with_snr_db(snr).power(link.rows)) for snr in different]
    found = dict(zip(different, _predicted(forecast, links, told), strict=True))
    return Map(
        Axis("bandwidth (MHz)", bandwidths / 1e6, units.bandwidth_hz / 1e6),
        Axis("transmit power (dBm)", levels, units.tx_power_dbm, log=False),
        np.array([found[snr] for snr in snr_db]).reshape(cells, cells),
    )


def radio_predictions(cells: int) -> int:
    """Return how many predictions :func:`radio_contour` makes: its steps in power are two in bandwidth."""
    return 3 * (cells - 1) + 1


def _predicted(forecast: LinkForecast, links: Sequence[LinkBudget], told: Told) -> Array:
    values = []
    with ProcessPoolExecutor(min(available_cores(), len(links)), mp_context=get_context("spawn")) as pool:
        for value in pool.map(forecast.steady_db, links):
            values.append(value)
            told(len(values), len(links))
    return np.array(values)
