"""What an engineer asks of a link: seconds and joules of a round, and until an accuracy is reached."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from airfeel.experiments.studies.other_devices import OFTEN, backlog_db
from airfeel.experiments.studies.profiles import Profile
from airfeel.experiments.studies.promise import ByTheory, Promise
from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.units import decibel

MAP_SAMPLES = 4000  # per cell of a map
FACTORS = {
    "bandwidth": (0.25, 0.5, 1.0, 2.0, 4.0),
    "power": (0.01, 0.1, 0.31623, 1.0, 3.1623, 10.0, 100.0),
}


@dataclass(frozen=True, slots=True)
class ByProfile:
    """State evolution for a profile's chain, moved to what the profile measured where it says the same."""

    plan: LinkPlan
    profile: Profile

    @property
    def basis(self) -> str:
        """Say on what the forecast rests."""
        return f"by the profile {self.profile.name}"

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return self._told(self.plan.steady_db(link), link).steady_db

    def promise(self, link: LinkBudget) -> Promise:
        """Return what to expect of a link."""
        said = ByTheory(self.plan).promise(link)
        told, profile = self._told(said.steady_db, link), self.profile
        margin = (
            f"Profile {profile.name}: {profile.about}, TSA-GA with k/N = {profile.sparsity:g}, equal power. "
            f"Margin {told.plain_db - said.steady_db:+.1f} dB on state evolution, as measured at the "
            f"profile's links of like error; left out one by one, these are told to {profile.spread_db:.1f} "
            f"dB. {self._others(link, told)}Assumed are equal devices{self._size(link)}, and in the air what "
            "the channel's own draws say. A training of your own tells more: airfeel predict RUN"
        )
        return replace(
            said,
            nmse_db=said.nmse_db + (told.steady_db - said.steady_db),
            steady_db=told.steady_db,
            best_db=told.steady_db - told.spread_db,
            worst_db=told.steady_db + told.spread_db,
            margin=margin,
            error_db=None,
            plain_db=told.plain_db,
        )

    def for_map(self) -> "ByProfile":
        """Follow fewer chains, but as many rounds, as the margin belongs to these."""
        return replace(self, plan=replace(self.plan, samples=MAP_SAMPLES))

    def _heard(self, link: LinkBudget) -> tuple[int, float, float]:
        """Return how many devices compute in a round, the share of all not heard, and that of these late."""
        if self.plan.air is None:
            return link.devices, 0.0, 0.0
        air = self.plan.air.at(link)
        return max(1, round(air.computing * link.devices)), air.silent, air.late

    def _told(self, said_db: float, link: LinkBudget) -> "_Told":
        """Return what the profile makes of what state evolution says."""
        plain, spread = self.profile.measured_db(said_db)
        computing, silent, late = self._heard(link)
        change, doubt = self.profile.others.change_db(plain, computing, silent)
        more = backlog_db(late)
        return _Told(plain, plain + change + more, math.hypot(spread, doubt) + more)

    def _others(self, link: LinkBudget, told: "_Told") -> str:
        """Say what devices unlike the profile's do."""
        unlike = []
        computing, silent, late = self._heard(link)
        if computing != self.profile.devices:
            unlike.append(f"{computing} devices in place of {self.profile.devices}")
        if silent:
            unlike.append(f"{100 * silent:.2g} % of the devices silent in a round")
        if not unlike:
            return ""
        change = told.steady_db - told.plain_db
        measured = "as measured with others like these"
        if late > OFTEN:
            measured = (
                f"of which {backlog_db(late):.1f} dB, give or take as much, as so many were not measured"
            )
        return f"For {' and '.join(unlike)}, {change:+.1f} dB more, {measured}. "

    def _size(self, link: LinkBudget) -> str:
        """Name what else is not as the profile was measured."""
        size = self.profile.size
        return "" if link.size == size else f", that N = {link.size} behaves as N = {size}"


@dataclass(frozen=True, slots=True)
class _Told:
    """An error as the profile has it, with the devices that are asked about, and how sure that is."""

    plain_db: float
    steady_db: float
    spread_db: float


@dataclass(frozen=True, slots=True)
class Reaching:
    """Rounds until an accuracy with limits; None where it is not reached. ``basis`` says whose they are."""

    rounds: float | None
    fewest: float | None
    most: float | None
    basis: str = ""

    def times(self, each: float) -> str:
        """Return the rounds times what one takes, in words."""
        if self.rounds is None:
            return "not reached"
        most = "never" if self.most is None else f"{self.most * each:.3g}"
        return f"{self.rounds * each:.3g} ({(self.fewest or 0) * each:.3g} to {most})"


def rounds_to(profile: Profile, accuracy: float, promise: Promise) -> Reaching:
    """Return how many rounds a profile takes to an accuracy; limits over seeds and the error's limits.

    Whether other devices save rounds as a better link would is not known: the profile is asked at the error
    with them, and at the one without.
    """
    levels = {promise.steady_db, promise.steady_db if promise.plain_db is None else promise.plain_db}
    found = [profile.rounds_to(accuracy, level) for level in sorted(levels)]
    if not all(found):
        return Reaching(None, None, None)
    best, worst = (profile.rounds_to(accuracy, level) for level in (promise.best_db, promise.worst_db))
    means = [sum(seeds) / len(seeds) for seeds in found]
    fewest, most = ([sum(seeds) / len(seeds)] if seeds else [] for seeds in (best, worst))
    factor = profile.seeds_factor(accuracy)
    return Reaching(
        sum(means) / len(means),
        max(1.0, min(fewest + means) / factor),
        max(most + means) * factor if most else None,
        "limits are those of the error and, at 95 %, of another seed than the profile's",
    )


def radio_rows(
    units: RadioUnits, link: LinkBudget, reaching: Reaching | None, accuracy: float | None
) -> list[tuple[str, str]]:
    """Return the radio of a link in names and values."""
    seconds, joules = units.air_seconds(link.rows), units.joules(link.power)
    rows = [
        ("bandwidth (MHz)", f"{units.bandwidth_hz / 1e6:g}"),
        ("transmit power (dBm)", f"{units.tx_power_dbm:.1f}"),
        ("round on air (ms)", f"{1e3 * seconds:.4g}"),
        ("energy of a device, at most (mJ/round)", f"{1e3 * joules:.4g}"),
    ]
    if reaching is not None:
        until = f"until {100 * (accuracy or 0):g} %"
        rows += [
            (f"seconds on air {until}", reaching.times(seconds)),
            (f"joules of a device, at most, {until}", reaching.times(joules)),
        ]
    return rows


def swept(units: RadioUnits, link: LinkBudget, over: str) -> Iterator[tuple[RadioUnits, LinkBudget]]:
    """Yield radios with other bandwidths or transmit powers, and the links they make."""
    for factor in FACTORS[over]:
        if over == "bandwidth":
            other = replace(units, bandwidth_hz=units.bandwidth_hz * factor)
        else:
            other = replace(units, tx_power_dbm=units.tx_power_dbm + decibel(factor))
        yield other, replace(link, power=other.power(link.rows))


def sweep_table(
    units: RadioUnits,
    link: LinkBudget,
    over: str,
    forecast: ByProfile,
    accuracy: float | None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> list[Sequence[str]]:
    """Return one row per bandwidth or power, the first being the heading.

    ``told`` hears how many are done, and of how many.
    """
    heads = ["MHz" if over == "bandwidth" else "dBm", "SNR (dB)", "NMSE (dB)", "round (ms)", "mJ per round"]
    until = [] if accuracy is None else ["rounds", "seconds", "joules"]
    rows: list[Sequence[str]] = [[*heads, *until]]
    for radio, other in swept(units, link, over):
        promise = forecast.promise(other)
        seconds, joules = radio.air_seconds(other.rows), radio.joules(other.power)
        first = f"{radio.bandwidth_hz / 1e6:g}" if over == "bandwidth" else f"{radio.tx_power_dbm:.1f}"
        cells = [first, f"{radio.snr_db:.1f}", f"{promise.steady_db:.1f}", f"{1e3 * seconds:.4g}"]
        cells.append(f"{1e3 * joules:.3g}")
        if accuracy is not None:
            reach = rounds_to(forecast.profile, accuracy, promise)
            cells += [reach.times(1.0), reach.times(seconds), reach.times(joules)]
        rows.append(cells)
        told(len(rows) - 1, len(FACTORS[over]))
    return rows
