"""From a configuration, or from a finished run, to the link that is asked about and a forecast of its error.

State evolution is right about signals that follow the Markov model. Gradients do so only roughly: error
feedback makes them flicker, their amplitudes have heavier tails, and EM settles on other chains when the
link changes. A replay of what a run has sent over its own link assumes none of that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, build_config, mistakes, read_config
from airfeel.config.sections import RadioKeys
from airfeel.lab.charts import Drawing, Figure, altair
from airfeel.lab.store import Array, RunError, aggregate_file, checked_records, read_aggregate
from airfeel.lab.studies.recorded import FEWEST, send_again, stack_aggregates
from airfeel.learning.datasets import shape_of
from airfeel.learning.training import Participation
from airfeel.radio.channels import GaussianMAC
from airfeel.radio.link import Channel, Link
from airfeel.radio.power import EqualPower, Ledger, Offer, PowerPolicy
from airfeel.radio.units import RadioUnits
from airfeel.registry import SCHEMES
from airfeel.schemes.compressed import Compressed
from airfeel.simulation.assembly import energy, make_participation, make_task, sample_counts
from airfeel.simulation.records import Record
from airfeel.theory.linear import LinearPlan
from airfeel.theory.planner import (
    METHODS,
    ForecastCourse,
    LinkBudget,
    LinkDraws,
    LinkForecast,
    LinkPlan,
    Method,
)
from airfeel.units import count, decibel, from_decibel
from airfeel.uplink import arrive
from airfeel.workers import available_cores

CELLS = 12  # of a map, in each direction
WIDER, STRONGER_DB = 10.0, 20.0  # how far a map in units goes from its middle, in bandwidth and in power
LONGEST = 150  # rounds at the end of a run that are predicted or replayed
_RADIO = (f"radio.{key}" for key in RadioKeys.model_fields if key != "downlink_bps_hz")
OF_THE_LINK = frozenset(["uplink.ratio", "uplink.power", "channel.noise_var", *_RADIO])
# And the other keys of the channel:
OF_THE_AIR = ("devices.dropout", "devices.participation", "uplink.policy")
WITHOUT_PART = {"uplink.limit", "model.l2", "model.device", "channel.subcarriers"}  # though their parts have
EVERYBODY = Participation()
EQUAL = EqualPower(1.0)
DRAWS = 8  # of all rounds; the chains that are sampled are shared out among them
SILENT = 1000  # rounds in a row in which nobody can send, after which there is no link
LEVELS = 400  # symbols at most that stand for all of a round, where they differ
UNHEARD = 1e9  # noise of a symbol that nobody sends, over that of the reference model
OF_THE_CHAIN = ("activity", "p01", "beta")  # keys of [receiver]
FINE = 60  # cells per side into which a map is interpolated for drawing
SHADES = 12  # at most, of 1, 2.5, 5, 10 or 20 dB each


def with_air(
    plan: LinkPlan | LinearPlan, link: LinkBudget, config: Config, seed: int = 0
) -> LinkPlan | LinearPlan:
    """Return the plan for channel and power control of a configuration, and for who takes part in a round.

    The Gaussian channel is as the plan has it: devices that are alike are treated alike by every policy.
    """
    participation, weights, channel = make_participation(config), weights_of(config), config.part("channel")
    steady = channel == GaussianMAC(noise_var=getattr(channel, "noise_var", 1.0))  # without offsets
    if steady and participation == EVERYBODY and not np.ptp(weights):
        return plan
    given = channel, link.devices, link.rows, plan.rounds, seed
    unit = {name: 1.0 for name in ("power", "limit") if name in ("power", *config.options("policy"))}
    policy = config.part("policy", **unit)  # signals have the length 1, to which a limit is taken to be set
    return replace(plan, air=draw_air(*given, policy=policy, participation=participation, weights=weights))


def weights_of(config: Config) -> Array:
    """Return w_m, which the numbers of samples decide."""
    pool = config.partition.pool or getattr(shape_of(config.dataset), "pool", None)
    sizes = np.array(sample_counts(config, pool), float)
    return np.asarray(sizes / sizes.sum())


def is_linear(scheme: Any) -> bool:
    """Whether a scheme's error is known in closed form."""
    told = "uses_radio", "superposes", "exact", "linear", "common_support"
    return all(getattr(scheme, name, False) for name in told)


def plan_of(config: Config) -> LinkPlan | LinearPlan:
    """Return the plan of a configuration, in the reference model of equal devices and steady air."""
    if is_linear(config.part("scheme")):
        return LinearPlan()
    scheme, method = config.scheme_as("tsa_ga"), method_of(config)
    return LinkPlan(ChainParams(scheme.activity, scheme.p01, scheme.beta), method)


def link_of(config: Config, size: int | None = None, units: RadioUnits | None = None) -> LinkBudget:
    """Return the link of a configuration.

    ``size`` is N, and ``units`` the radio, where they are known already: no model or channel is built then.
    """
    uplink = config.uplink
    noise_var = getattr(config.channel, "noise_var", None) or 1.0
    size = make_task(config, shape_of(config.dataset)).size if size is None else size
    rows, devices = count(uplink.ratio, size), config.devices.count
    return LinkBudget(size, rows, devices, energy(config, rows, units), noise_var)


def method_of(config: Config) -> Method:
    """Return the recovery method a scheme stands for."""
    if config.scheme not in METHODS:
        linear = [name for name in SCHEMES.names() if is_linear(SCHEMES.get(name).kind)]
        rule = f"theory knows no error of it, only those of {', '.join([*linear, *METHODS])}"
        rule += "; airfeel plan answers for every scheme, by trial trainings"
        raise ValueError(f"scheme = {config.scheme!r}: {rule}")
    method = METHODS[config.scheme]
    if method.dense:
        return method
    return replace(method, amplitude_message=config.scheme_as("tsa_ga").amplitude_message)


def unread(config: Config, given: Iterable[str], run: bool = False, sized: bool = False) -> list[str]:
    """Return the keys on which an answer by theory does not depend, or that of a run; N may be given."""
    read = {*OF_THE_LINK, "scheme", "uplink.policy", "channel.kind", "devices.count"}
    read |= {f"devices.{name}" for name in ("participation", "dropout")}
    seams = {"channel", "policy"}
    if not is_linear(config.part("scheme")):
        method = method_of(config)
        chained = not method.dense and (method.support_chain or method.amplitude_chain)
        read |= {f"receiver.{name}" for name in (OF_THE_CHAIN if chained else OF_THE_CHAIN[:1])}
        read |= {"receiver.amplitude_message"} if chained and method.amplitude_chain else set()
        read |= set() if run else {"uplink.sparsity"}
    if not run:
        read |= {"seed"}
        if np.ptp(weights_of(config)):  # only who weighs more than others has a part in the answer
            read |= {"partition.pool", "devices.samples", "devices.spread"}
    if not run and not sized:
        read |= {"dataset", "model.kind"}
        seams.add("model")
    read |= {key for key, (seam, _) in config.chosen.keys.items() if seam in seams} - WITHOUT_PART
    if config.uplink.power is not None:  # without hertz and watts only differences between paths count
        read -= {"channel.loss_db"}
    return [key for key in given if key not in read]


def require_read(config: Config, given: Iterable[str], run: bool = False, sized: bool = False) -> None:
    """Refuse keys on which the answer does not depend."""
    flat = mistakes.flatten(config.model_dump(exclude_none=True))
    for key in unread(config, given, run, sized):
        rule = "must not be given, as this answer does not depend on it; airfeel plan trains with it"
        raise ValueError(f"{key} = {flat.get(key)!r}: {rule}")


@dataclass(frozen=True, slots=True, eq=False)
class RoundDraw:
    """What a round's link asks of the devices, whose signals have unit energy, spread evenly over symbols.

    ``demand`` is what each device needs at alpha = 1, and ``strength`` the part of its signal that it can
    send at all; ``gain`` is at what factor that arrives. ``active``, (M, levels), says who sends which of
    some symbols that stand for all; None where symbols do not differ. ``whole`` is W, the weight of the
    devices that computed, by which the server divides.
    """

    demand: Array
    strength: Array
    gain: Array
    active: NDArray[np.bool_] | None = None
    whole: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class DrawnAir:
    """The links of all rounds, drawn several times, and the policy by which devices send; P is 1.

    ``weights`` are the devices' w_m, with which they scale their signals.
    """

    links: Sequence[Sequence[RoundDraw]]
    policy: PowerPolicy
    weights: Array

    def __call__(self, link: LinkBudget) -> LinkDraws:
        """Return what the policy makes of the links, where a device has the energy of this link.

        The receiver learns how large the sum is in the mean, so signal and noise are told relative to that
        where a policy leaves devices out for good.
        """
        snr = link.snr * link.excess  # devices whose signals are larger than the mean lose as much with them
        found = [list(zip(*self._followed(rounds, snr), strict=True)) for rounds in self.links]
        noise, sent, arriving = (np.array(part) for part in zip(*found, strict=True))
        usual = float(sent.mean()) if hasattr(self.policy, "choose") else 1.0
        return LinkDraws(noise / usual**2, sent / usual, arriving / usual, usual)

    def _followed(self, rounds: Sequence[RoundDraw], snr: float) -> Iterator[tuple[Any, float, float]]:
        """Yield noise, sent and arriving of the rounds of one draw, with what the devices have spent."""
        radio, ledger = arrive.Radio(policy=self.policy), Ledger.open(len(rounds[0].demand))
        for one in rounds:
            weights = self.weights / one.whole
            demand = one.demand * (len(weights) * self.weights) ** 2
            grant = radio.grant(Offer(demand, weights, one.strength, 1 / (snr * one.whole**2)), ledger)
            assert grant is not None  # a round in which nobody can send is left out
            ledger = ledger.charge(grant.alpha * demand * grant.share**2, radio.policy.power)
            heard = np.where(demand > 0, grant.share, 0.0) * weights
            levels: Any = 1.0
            if one.active is not None:  # a symbol that few send has more noise than one that all of them do
                weight = heard @ one.active / heard.sum()
                levels = np.where(weight > 0, 1 / np.maximum(weight, UNHEARD**-0.5) ** 2, UNHEARD)
            noise = levels / (grant.alpha * one.whole**2)
            yield noise, float(heard.sum()), float(one.gain @ heard)


def draw_air(
    channel: Channel,
    devices: int,
    symbols: int,
    rounds: int,
    seed: int = 0,
    draws: int = DRAWS,
    policy: PowerPolicy = EQUAL,
    participation: Participation = EVERYBODY,
    weights: Array | None = None,
) -> DrawnAir:
    """Draw what a channel does to devices with equal gradients; the policy of power control has P = 1.

    Only those that take part in a round can send in it. A round in which nobody can is none for the receiver,
    and is left out.
    """
    weights = np.full(devices, 1 / devices) if weights is None else weights
    seeds = range(seed, seed + draws)
    links = [islice(_heard(channel, participation, weights, symbols, one), rounds) for one in seeds]
    return DrawnAir([list(drawn) for drawn in links], policy, weights)


def _heard(
    channel: Channel, participation: Participation, weights: Array, symbols: int, seed: int
) -> Iterator[RoundDraw]:
    """Yield the rounds in which anybody can send."""
    silent, round = 0, 0
    while silent < SILENT:
        round += 1
        computing, sending = participation.draw(len(weights), seed, round)
        link = channel.link(len(weights), symbols, seed, round)
        link = replace(link, active=link.active & (sending if link.active.ndim == 1 else sending[:, None]))
        if link.active.any():
            silent = 0
            yield replace(_round(link, symbols), whole=float(weights[computing].sum()))
        else:
            silent += 1
    raise ValueError(f"no device could send in {SILENT} rounds: there is no link to predict")


def _round(link: Link, symbols: int) -> RoundDraw:
    """Return what a link asks; devices that differ from symbol to symbol are mixtures of all coefficients."""
    given: tuple[NDArray[Any], ...] = link.active, link.cost, link.gain
    width = symbols if any(part.ndim == 2 for part in given) else 1
    wide = (part if part.ndim == 2 else part[:, None] for part in given)
    active, cost, gain = (np.broadcast_to(part, (len(part), width)) for part in wide)
    if np.any(np.imag(gain)) or (width > 1 and np.any(gain.real[active] != 1)):
        rule = (
            "must be real and one per device where it is not 1: what offsets, or misjudged gains of single "
            "symbols, do is not predicted; set channel.csi_error, phase_error, timing_error and "
            "carrier_error to 0, or train with them and give the folder of the run"
        )
        raise _checks.reject("gain", f"shape {np.shape(link.gain)}", rule)
    places = np.linspace(0, symbols - 1, min(symbols, LEVELS)).round().astype(int)
    return RoundDraw(
        demand=np.where(active, cost, 0.0).mean(axis=1),
        strength=np.sqrt(active.mean(axis=1)),
        gain=(active * gain.real).max(axis=1),
        active=active[:, places] if width > 1 else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class ByReplay(LinkForecast):
    """The real receiver on a run's own aggregates, at the noise that they would have over another link.

    Nothing is assumed about the gradients, and the receiver learns its chains anew for every link. What
    remains is that training itself changes a little with the errors of its link. ``aggregates``, (rounds, N),
    are what the run sent, and ``noise_var`` and ``measured_db`` the noise and the NMSE of its rounds over its
    ``own`` link.
    """

    rounds: Sequence[int]
    aggregates: Array
    noise_var: Array
    measured_db: Array
    own: LinkBudget
    seed: int
    scheme: Compressed
    name: ClassVar[str] = "by a replay of the run's recorded aggregates"

    @property
    def basis(self) -> str:
        """How far a replay over the run's own link is from the run."""
        measured = ForecastCourse(self.rounds, self.measured_db).steady_db
        off = round(measured - self.steady_db(self.own), 1) + 0.0
        return (
            f"By a replay of the run's recorded aggregates. Over its own link the run measured "
            f"{measured:.1f} dB, {off:+.1f} dB from its replay. Training itself changes with the link, which "
            "no replay shows."
        )

    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return the error of every round over a link, and what the receiver believes of it."""
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
        return ForecastCourse(self.rounds, *decibel(np.array(found).T))


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """A run as the planner sees it: its plan, its own link, and the link that is asked about.

    ``units`` is the radio that is asked about, where the run has one; ``alike`` says that nothing but the
    link was changed.
    """

    folder: Path
    config: Config
    units: RadioUnits | None
    records: Sequence[Record]
    plan: LinkPlan | LinearPlan
    own: LinkBudget
    link: LinkBudget
    alike: bool

    def forecast(self, plan: LinkPlan | LinearPlan) -> LinkForecast:
        """Return a replay where aggregates were recorded and only the link is another one, else theory."""
        if isinstance(plan, LinearPlan):
            return plan
        if not self.alike:
            return replace(plan, hint="A run with these keys would tell more.")
        last = self.records[-plan.rounds :]
        if len(last) < FEWEST or not all(aggregate_file(self.folder, r.round).exists() for r in last):
            again = f"airfeel run {self.folder / 'config.toml'} --set run.record_aggregates=true"
            return replace(plan, rounds=len(last), hint=f"For a replay of the run: {again}")
        rounds = [record.round for record in last]
        scheme = self.config.part("scheme")
        assert isinstance(scheme, Compressed)  # as are all that the planner knows a method for
        return ByReplay(
            rounds=rounds,
            aggregates=stack_aggregates(self.folder, rounds),
            noise_var=np.array([record.noise_var for record in last]),
            measured_db=np.array([record.nmse_db for record in last]),
            own=self.own,
            seed=self.config.seed,
            scheme=scheme,
        )


def from_run(folder: Path, settings: Mapping[str, Any], other_size: int | None = None) -> RecordedRun:
    """Read what a run tells a planner: its learned chain, and the noise it really had (the link's excess).

    Chain and noise are medians over the second half of the rounds; of a linear scheme the errors on record
    are all there is to know. ``settings`` are changes to its configuration, by dotted key, and ``other_size``
    is another N.
    """
    records = [r for r in checked_records(folder) if r.noise_var and r.nmse_db is not None]
    config = read_config(folder / "config.toml")
    changed = build_config(config.model_dump(exclude_none=True), settings, str(folder / "config.toml"))
    before, after = (mistakes.flatten(of.model_dump()) for of in (config, changed))
    fixed = {*OF_THE_AIR, *(["scheme"] if is_linear(config.part("scheme")) else [])}
    for key in sorted({*settings} - OF_THE_LINK):
        if (key in fixed or key.startswith("channel.")) and before.get(key) != after.get(key):
            rule = "must not be changed for the folder of a run, which tells of its own air only"
            raise ValueError(f"{key} = {after.get(key)!r}: {rule}")
    require_read(changed, settings, run=True)
    plan = plan_of(changed)  # refuses a scheme that cannot be predicted before asking for its chain
    if not records:
        raise RunError(f"{folder} has no round with an error on record, from which to predict others")
    rows = records[0].symbols
    if aggregate_file(folder, records[-1].round).exists():
        size = len(read_aggregate(folder, records[-1].round))
    else:  # as s/N has it, since only the run could load data and model of its own
        size = round(rows / config.uplink.ratio)
    units = _units(folder, config, records[-1])
    own = replace(link_of(config, size, units), rows=rows)
    units = None if units is None else replace(units, **changed.radio.model_dump(exclude_none=True))
    asked = link_of(changed, size if other_size is None else other_size, units)
    if isinstance(plan, LinearPlan):
        errors = from_decibel(np.array([record.nmse_db for record in records]))
        own = replace(own, excess=float(np.median(errors)) * own.snr)
        numbers, asked = [record.round for record in records], replace(asked, excess=own.excess)
        plan = LinearPlan(min(len(records), LONGEST), scaled=errors * own.snr, numbers=numbers)
        return RecordedRun(folder, config, units, records, plan, own, asked, alike=True)
    settled = [r for r in records[len(records) // 2 :] if r.activity and r.variance]
    if not settled:
        rule = "ask without the folder, with --activity and its like"
        raise RunError(f"{folder} has no round in which chain parameters were in force: {rule}")
    chain = ChainParams(*(_median(settled, name) for name in ("activity", "p01", "beta", "variance")))
    noise = _median(settled, "noise_var") / (chain.activity * chain.variance)
    own = replace(own, excess=noise * own.snr)
    other = {name: settings[f"receiver.{name}"] for name in OF_THE_CHAIN if f"receiver.{name}" in settings}
    plan = replace(plan, chain=replace(chain, variance=1.0, **other), rounds=min(len(records), LONGEST))
    asked = replace(asked, excess=own.excess)
    alike = settings.keys() <= OF_THE_LINK and asked.size == size
    return RecordedRun(folder, config, units, records, plan, own, asked, alike)


def _units(folder: Path, config: Config, last: Record) -> RadioUnits | None:
    """Return the radio of a run, with the path loss of its channel as its records tell it.

    The channel may be one that only the run could build.
    """
    given = config.radio.model_dump(exclude_none=True)
    if not given or "path_loss_db" in given:
        return RadioUnits(**given) if given else None
    near = RadioUnits(**given, path_loss_db=0.0)
    spent = near.joules(last.energy or 0.0)
    if not last.joules or not spent:
        raise RunError(f"{folder} has no joules on record that tell the path loss of its channel")
    return replace(near, path_loss_db=decibel(last.joules / spent))


def _median(records: Sequence[Record], name: str) -> float:
    return float(np.median([getattr(record, name) for record in records]))


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
    if units is None:
        ratios = np.geomspace(max(link.ratio / 5, 1 / link.size), min(1.0, 5 * link.ratio), cells)
        x = Axis("channel uses per parameter, s/N", ratios, link.ratio)
        level = f"(at the cross {decibel(link.device_snr):.1f} dB SNR per symbol)"
        powers = np.geomspace(link.power / 100, link.power * 100, cells)
        y = Axis(f"energy per device and round, P {level}", powers, link.power)
    else:
        bandwidth, power = units.bandwidth_hz / 1e6, units.tx_power_dbm
        x = Axis("bandwidth (MHz)", np.geomspace(bandwidth / WIDER, bandwidth * WIDER, cells), bandwidth)
        levels = np.linspace(power - STRONGER_DB, power + STRONGER_DB, cells)
        y = Axis("transmit power (dBm)", levels, power, log=False)

    def at(across: float, up: float) -> LinkBudget:
        if units is None:
            return replace(link, rows=count(across, link.size), power=up)
        snr_db = replace(units, bandwidth_hz=1e6 * across, tx_power_dbm=up).snr_db
        # Power over bandwidth is all that counts, so that cells share it.
        return replace(link, power=units.with_snr_db(round(snr_db, 6)).power(link.rows))

    links = [at(across, up) for across in x.values.tolist() for up in y.values.tolist()]
    different, found = list(dict.fromkeys(links)), {}
    with ProcessPoolExecutor(min(available_cores(), len(different)), get_context("spawn")) as pool:
        for one, value in zip(different, pool.map(forecast.steady_db, different), strict=True):
            found[one] = value
            told(len(found), len(different))
    return Map(x, y, np.array([found[one] for one in links]).reshape(cells, cells))


def draw_map(field: Map) -> Drawing:
    """Draw steady-state NMSE in shades; points mark what was computed, a cross the link asked about."""
    figure = Figure("contour", "predicted NMSE in steady state", "nmse_db", field.y.title)
    lowest = float(field.nmse_db.min())
    step = next((s for s in (1.0, 2.5, 5.0, 10.0) if -lowest <= s * SHADES), 20.0)
    limits = -step * np.arange(max(2, int(np.ceil(-lowest / step))) - 1, 0, -1)  # dark where errors are small
    shades = altair.Scale(type="threshold", domain=list(limits), scheme="viridis")
    x = altair.X("x:Q", title=field.x.title, scale=_scale(field.x))
    y = altair.Y("y:Q", title=field.y.title, scale=_scale(field.y))
    cells = altair.Chart(altair.InlineData(values=_fine(field))).encode(
        x=x,
        x2="x2:Q",
        y=y,
        y2="y2:Q",
        color=altair.Color("nmse:Q", scale=shades, title="NMSE (dB)"),
        stroke=altair.Stroke("nmse:Q", scale=shades, title="NMSE (dB)"),
    )
    computed = [
        {"x": float(field.x.values[i]), "y": float(field.y.values[j]), "nmse": round(float(value), 2)}
        for (i, j), value in np.ndenumerate(field.nmse_db)
    ]
    dots = altair.Chart(altair.InlineData(values=computed))
    dots = dots.mark_circle(size=9, color="black", opacity=0.5)
    own = [{"x": field.x.here, "y": field.y.here}]
    here = altair.Chart(altair.InlineData(values=own)).mark_point(
        shape="cross", size=160, color="white", filled=True, stroke="black"
    )
    chart = cells.mark_rect() + dots.encode(x=x, y=y, tooltip=["nmse:Q"]) + here.encode(x=x, y=y)
    return Drawing(figure, chart.configure_axis(grid=False))


def _fine(field: Map) -> list[dict[str, float]]:
    """Interpolate the map linearly between its points, on the axes as they are drawn."""
    from scipy.interpolate import RegularGridInterpolator  # which takes long to import

    sides = field.x, field.y
    where = [np.log(side.values) if side.log else side.values for side in sides]
    edges = [np.linspace(axis[0], axis[-1], FINE + 1) for axis in where]
    middles = [(edge[:-1] + edge[1:]) / 2 for edge in edges]
    nmse = RegularGridInterpolator(where, field.nmse_db)(tuple(np.meshgrid(*middles, indexing="ij")))
    x, y = (
        [float(f"{end:.5g}") for end in (np.exp(edge) if side.log else edge)]
        for side, edge in zip(sides, edges, strict=True)
    )
    return [
        {"x": x[i], "x2": x[i + 1], "y": y[j], "y2": y[j + 1], "nmse": round(float(value), 2)}
        for (i, j), value in np.ndenumerate(nmse)
    ]


def _scale(axis: Axis) -> Any:
    ends = [float(axis.values[0]), float(axis.values[-1])]
    return altair.Scale(type="log" if axis.log else "linear", domain=ends, nice=False)
