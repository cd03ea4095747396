"""What a link will do to the recovery: by theory, or by a replay of what a run has sent over its own link.

State evolution is right about signals that follow the Markov model. Gradients do so only roughly: error
feedback makes them flicker, their amplitudes have heavier tails, and EM settles on other chains when the
link changes. A replay assumes none of that.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from airfeel.lab.studies.recorded import Array, send_again
from airfeel.radio.units import RadioUnits
from airfeel.schemes.compressed import Compressed
from airfeel.theory.planner import LinkBudget, LinkForecast, LinkPlan
from airfeel.theory.scalar import late
from airfeel.units import count, decibel, from_decibel
from airfeel.workers import available_cores

CELLS = 12  # of a map, in each direction
MAP_SAMPLES, MAP_ROUNDS = 16_000, 40  # at most, per cell: 144 cells should take about a minute
WIDER, STRONGER_DB = 10.0, 20.0  # how far a map in units goes from its middle, in bandwidth and in power


@dataclass(frozen=True, slots=True, eq=False)
class ForecastCourse:
    """The NMSE over one link, round by round.

    ``rounds`` are numbered as in training; ``nmse_db``, ``believed_db`` (what the receiver thinks) and, where
    it is known, the standard error ``error_db`` belong to them. ``steady_db`` is the mean over their last
    quarter, and ``basis`` says in plain sentences what all of it rests on.
    """

    rounds: Sequence[int]
    nmse_db: Array
    believed_db: Array
    steady_db: float
    basis: str
    error_db: Array | None = None


@dataclass(frozen=True, slots=True)
class ByTheory:
    """State evolution; ``hint`` says how to learn more."""

    plan: LinkPlan
    hint: str = "The folder of a run that kept its aggregates tells more."
    name = "by state evolution"

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return self.plan.steady_db(link)

    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return what the theory says about a link."""
        found = self.plan.predict(link)
        return ForecastCourse(
            rounds=range(1, self.plan.rounds + 1),
            nmse_db=found.nmse_db,
            believed_db=decibel(found.variance / found.power),
            steady_db=decibel(found.steady_nmse),
            basis="By state evolution alone: this holds for gradients that follow these chains, as real ones "
            f"do only roughly. {self.hint}",
            error_db=10 / np.log(10) * found.nmse_error / found.nmse,
        )

    def for_map(self) -> "ByTheory":
        """Follow fewer chains over fewer rounds."""
        samples, rounds = min(self.plan.samples, MAP_SAMPLES), min(self.plan.rounds, MAP_ROUNDS)
        return replace(self, plan=replace(self.plan, samples=samples, rounds=rounds))


@dataclass(frozen=True, slots=True, eq=False)
class ByReplay:
    """The real receiver on a run's own aggregates, at the noise that they would have over another link.

    Nothing is assumed about the gradients, and the receiver learns its chains anew for every link. What
    remains is that training itself changes a little with the errors of its link.

    Parameters
    ----------
    rounds, aggregates, noise_var, measured_db
        What the run sent, (rounds, N), the noise sigma^2 that each round met, and its NMSE.
    own, seed, scheme
        The run's link, seed and scheme.
    """

    rounds: Sequence[int]
    aggregates: Array
    noise_var: Array
    measured_db: Array
    own: LinkBudget
    seed: int
    scheme: Compressed
    name = "by a replay of the run's recorded aggregates"

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return decibel(float(np.mean(late(self.replay(link)[0]))))

    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return the replay over a link, and how far a replay over the run's own link is from the run."""
        nmse, believed = self.replay(link)
        measured = decibel(float(np.mean(from_decibel(late(self.measured_db)))))
        off = round(measured - self.steady_db(self.own), 1) + 0.0
        return ForecastCourse(
            rounds=self.rounds,
            nmse_db=decibel(nmse),
            believed_db=decibel(believed),
            steady_db=decibel(float(np.mean(late(nmse)))),
            basis=f"By a replay of the run's recorded aggregates. Over its own link the run measured "
            f"{measured:.1f} dB, {off:+.1f} dB from its replay. Training itself changes with the link, which "
            "no replay shows.",
        )

    def for_map(self) -> "ByReplay":
        """Return this: a replay takes as long as any."""
        return self

    def replay(self, link: LinkBudget) -> tuple[Array, Array]:
        """Return NMSE per round, actual and believed by the receiver."""
        receiver = self.scheme.receiver()
        state = receiver.init(link.size)
        noise_var = self.noise_var * (self.own.snr / link.snr)  # its share of the signal in a measurement
        found = []
        given = self.aggregates, self.rounds, noise_var, self.scheme, link.rows, self.seed
        for x, reception in send_again(*given, "replay noise"):
            estimate, state = receiver.receive(state, reception)
            power = float(np.sum(x**2))
            believed = np.nan if estimate.variance is None else float(np.sum(estimate.variance, dtype=float))
            found.append((float(np.sum((estimate.mean - x) ** 2)) / power, believed / power))
        actual, believed_nmse = np.array(found).T
        return actual, believed_nmse


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


def contour(
    forecast: LinkForecast,
    link: LinkBudget,
    units: RadioUnits | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
    cells: int = CELLS,
) -> Map:
    """Predict a map of ``cells`` x ``cells`` links around ``link``, on all cores.

    Bandwidth goes from a fifth of the link's to five times (at most s = N), power from 1/100 to 100 times.
    With ``units`` it is a map over hertz and dBm, a tenth to ten times and 20 dB up and down, the symbols of
    a round held fixed. ``told`` hears how many predictions are done, and of how many.
    """
    if units is not None:
        return _radio_contour(forecast, link, units, told, cells)
    ratios = np.geomspace(max(link.ratio / 5, 1 / link.size), min(1.0, 5 * link.ratio), cells)
    powers = np.geomspace(link.power / 100, link.power * 100, cells)
    links = [
        replace(link, rows=count(ratio, link.size), power=float(power))
        for ratio in ratios
        for power in powers
    ]
    level = f"(at the cross {decibel(link.device_snr):.1f} dB SNR per symbol)"
    return Map(
        Axis("channel uses per parameter, s/N", ratios, link.ratio),
        Axis(f"energy per device and round, P {level}", powers, link.power),
        _predicted(forecast, links, told).reshape(cells, cells),
    )


def _radio_contour(
    forecast: LinkForecast, link: LinkBudget, units: RadioUnits, told: Callable[[int, int], None], cells: int
) -> Map:
    """Predict the map of a radio: the error depends on power over bandwidth alone, so that cells share it."""
    bandwidths = np.geomspace(units.bandwidth_hz / WIDER, units.bandwidth_hz * WIDER, cells)
    levels = np.linspace(units.tx_power_dbm - STRONGER_DB, units.tx_power_dbm + STRONGER_DB, cells)
    snr_db = [
        round(replace(units, bandwidth_hz=float(hertz), tx_power_dbm=float(level)).snr_db, 6)
        for hertz in bandwidths
        for level in levels
    ]
    links = [replace(link, power=units.with_snr_db(snr).power(link.rows)) for snr in snr_db]
    return Map(
        Axis("bandwidth (MHz)", bandwidths / 1e6, units.bandwidth_hz / 1e6),
        Axis("transmit power (dBm)", levels, units.tx_power_dbm, log=False),
        _predicted(forecast, links, told).reshape(cells, cells),
    )


def _predicted(
    forecast: LinkForecast, links: Iterable[LinkBudget], told: Callable[[int, int], None]
) -> Array:
    """Predict every link, equal ones once."""
    different = list(dict.fromkeys(links := list(links)))
    found = {}
    with ProcessPoolExecutor(min(available_cores(), len(different)), get_context("spawn")) as pool:
        for link, value in zip(different, pool.map(forecast.steady_db, different), strict=True):
            found[link] = value
            told(len(found), len(different))
    return np.array([found[link] for link in links])
