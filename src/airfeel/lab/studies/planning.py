"""From a configuration, or from a finished run, to a plan of its link, a forecast, and what is said of it."""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, build_config, mistakes, read_config
from airfeel.config.sections import RadioKeys
from airfeel.lab.store import RunError, aggregate_file, checked_records, read_aggregate
from airfeel.lab.studies.air import EVERYBODY, draw_air
from airfeel.lab.studies.forecasts import ByReplay, ByTheory, ForecastCourse
from airfeel.lab.studies.recorded import FEWEST, stack_aggregates
from airfeel.learning.datasets import shape_of
from airfeel.radio.units import RadioUnits
from airfeel.schemes.compressed import Compressed
from airfeel.simulation.assembly import energy, make_participation, make_task, make_units
from airfeel.simulation.records import Record
from airfeel.theory.planner import METHODS, LinkBudget, LinkPlan, Method
from airfeel.units import count, decibel

LONGEST = 150  # rounds at the end of a run that are predicted or replayed
_RADIO = (f"radio.{key}" for key in RadioKeys.model_fields)
OF_THE_LINK = frozenset(["uplink.ratio", "uplink.power", "channel.noise_var", *_RADIO])
# And the other keys of the channel:
OF_THE_AIR = ("devices.dropout", "devices.participation", "uplink.policy")


def units_of(config: Config) -> RadioUnits | None:
    """Return the radio of a configuration in hertz and watts, where it has one."""
    return make_units(config, config.part("channel")) if config.uplink.power is None else None


def with_air(plan: LinkPlan, link: LinkBudget, config: Config) -> LinkPlan:
    """Return the plan for channel and power control of a configuration, and for who takes part in a round.

    The Gaussian channel is as the plan has it: devices that are alike are treated alike by every policy.
    """
    participation = make_participation(config)
    if config.channel.kind == "gaussian" and participation == EVERYBODY:
        return plan
    given = config.part("channel"), link.devices, link.rows, plan.rounds, plan.seed
    policy = config.part("policy", power=1.0)
    return replace(plan, air=draw_air(*given, policy=policy, participation=participation))


def plan_of(
    config: Config, size: int | None = None, units: RadioUnits | None = None
) -> tuple[LinkPlan, LinkBudget]:
    """Return plan and link of a configuration, in the reference model of equal devices and steady air.

    ``size`` is N, and ``units`` the radio, where they are known already: no model or channel is built then.
    """
    scheme, uplink = config.scheme_as("tsa_ga"), config.uplink
    plan = LinkPlan(ChainParams(scheme.activity, scheme.p01, scheme.beta), method_of(config))
    noise_var = getattr(config.channel, "noise_var", None) or 1.0
    size = make_task(config, shape_of(config.dataset)).size if size is None else size
    rows, devices = count(uplink.ratio, size), config.devices.count
    return plan, LinkBudget(size, rows, devices, energy(config, rows, units), noise_var)


def method_of(config: Config) -> Method:
    """Return the recovery method a scheme stands for."""
    if config.scheme not in METHODS:
        rule = f"its error cannot be predicted, only that of {', '.join(METHODS)}"
        raise ValueError(f"scheme = {config.scheme!r}: {rule}")
    method = METHODS[config.scheme]
    known = method.denoiser is None
    message = config.scheme_as("tsa_ga").amplitude_message
    return replace(method, amplitude_message=message) if known else method


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
    plan: LinkPlan
    own: LinkBudget
    link: LinkBudget
    alike: bool

    def forecast(self, plan: LinkPlan) -> ByTheory | ByReplay:
        """Return a replay where aggregates were recorded and only the link is another one, else theory."""
        if not self.alike or plan.chain != self.plan.chain:
            return ByTheory(plan, "A run with these keys would tell more.")
        last = self.records[-plan.rounds :]
        if len(last) < FEWEST or not all(aggregate_file(self.folder, r.round).exists() for r in last):
            again = f"airfeel run {self.folder / 'config.toml'} --set run.record_aggregates=true"
            return ByTheory(replace(plan, rounds=len(last)), f"For a replay of the run: {again}")
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


def from_run(folder: Path, settings: Mapping[str, Any]) -> RecordedRun:
    """Read what a run tells a planner: its learned chain, and the noise it really had (the link's excess).

    Chain and noise are medians over the second half of the rounds. ``settings`` are changes to its
    configuration, by dotted key.
    """
    records = [r for r in checked_records(folder) if r.noise_var and r.nmse_db is not None]
    config = read_config(folder / "config.toml")
    changed = build_config(config.model_dump(exclude_none=True), settings, str(folder / "config.toml"))
    _require_its_air(config, changed, settings)
    method_of(changed)  # refuses a scheme that cannot be predicted before asking for its chain
    late = [r for r in records[len(records) // 2 :] if r.activity and r.variance]
    if not late:
        raise RunError(f"{folder} has no round in which chain parameters were in force: give them as options")
    chain = ChainParams(*(_median(late, name) for name in ("activity", "p01", "beta", "variance")))
    rows = records[0].symbols
    size = _size(folder, records[-1].round, rows, config)
    units = _units(folder, config, records[-1])
    own = replace(plan_of(config, size, units)[1], rows=rows)
    units = None if units is None else replace(units, **changed.radio.model_dump(exclude_none=True))
    plan, reference = plan_of(changed, size, units)
    noise = _median(late, "noise_var") / (chain.activity * chain.variance)
    own = replace(own, excess=noise * own.snr)
    plan = replace(plan, chain=replace(chain, variance=1.0), rounds=min(len(records), LONGEST))
    asked = replace(reference, excess=own.excess)
    return RecordedRun(folder, config, units, records, plan, own, asked, alike=settings.keys() <= OF_THE_LINK)


def _require_its_air(config: Config, changed: Config, settings: Iterable[str]) -> None:
    """Refuse changes of the air beyond the link: the rounds of a run tell of their own only."""
    before, after = (mistakes.flatten(of.model_dump()) for of in (config, changed))
    for key in sorted({*settings} - OF_THE_LINK):
        if (key in OF_THE_AIR or key.startswith("channel.")) and before.get(key) != after.get(key):
            rule = "must not be changed for the folder of a run, which tells of its own air only"
            raise ValueError(f"{key} = {after.get(key)!r}: {rule}")


def _size(folder: Path, round_: int, rows: int, config: Config) -> int:
    """Return N: as recorded, or as s/N has it, since only the run could load data and model of its own."""
    if aggregate_file(folder, round_).exists():
        return len(read_aggregate(folder, round_))
    return round(rows / config.uplink.ratio)


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
class Answer:
    """All that is to be said about one link, in numbers for scripts and in lines for people."""

    plan: LinkPlan
    link: LinkBudget
    course: ForecastCourse
    hold: str
    units: RadioUnits | None = None

    def as_json(self) -> str:
        """Return one JSON object."""
        link, course, chain, method = self.link, self.course, self.plan.chain, self.plan.method
        levels = {"snr_db": decibel(link.snr), "device_snr_db": decibel(link.device_snr)}
        facts: dict[str, Any] = {
            "chain": {"activity": chain.activity, "p01": chain.p01, "beta": chain.beta},
            "method": asdict(method),
            "link": asdict(link) | {"ratio": link.ratio} | levels | {"held": self.hold},
            "rounds": list(course.rounds),
            "nmse_db": _rounded(course.nmse_db),
            "nmse_db_error": None if course.error_db is None else _rounded(course.error_db),
            "believed_nmse_db": _rounded(course.believed_db),
            "steady_nmse_db": round(course.steady_db, 4),
            "basis": course.basis,
        }
        if self.units is not None:
            spent = self.units.air_seconds(link.rows), self.units.joules(link.power)
            facts["radio"] = asdict(self.units) | dict(zip(("air_seconds", "joules"), spent, strict=True))
        return json.dumps(facts, indent=2)

    def as_text(self) -> str:
        """Return the course of the error, the link budget, and what they rest on."""
        chain, course = self.plan.chain, self.course
        lines = [f"lambda = {chain.activity:.4g}, p01 = {chain.p01:.4g}, beta = {chain.beta:.4g}", ""]
        columns = {"NMSE (dB)": course.nmse_db}
        if course.error_db is not None:
            columns["standard error"] = course.error_db
        columns["what the receiver believes (dB)"] = course.believed_db
        lines.append("   ".join(["round", *columns]))
        for place, (round, *values) in enumerate(zip(course.rounds, *columns.values(), strict=True), start=1):
            if place <= 10 or round % 5 == 0 or place == len(course.rounds):
                shown = (f"{value:{len(name)}.2f}" for name, value in zip(columns, values, strict=True))
                lines.append("   ".join([f"{round:5d}", *shown]))
        lines.append("")
        for name, value in self._budget().items():
            lines.append(f"{name:<38} {f'{value:.5g}' if isinstance(value, float) else value}")
        basis = textwrap.fill(course.basis, 100, break_on_hyphens=False, break_long_words=False)
        return "\n".join([*lines, "", basis])

    def _budget(self) -> dict[str, float | int | str]:
        """Return the link budget by name."""
        link, rounds = self.link, len(self.course.rounds)
        energy = "energy per device and round"
        budget: dict[str, float | int | str] = {
            "parameters N": link.size,
            "channel uses per round s": link.rows,
            "s/N": link.ratio,
            "devices M": link.devices,
            f"{energy} P": link.power,
            "energy per device and channel use": link.power / link.rows,
            "SNR of a device per symbol (dB)": decibel(link.device_snr),
            f"energy per device in {rounds} rounds": link.power * rounds,
            "noise variance per channel use": link.channel_noise,
            "excess noise over equal devices (dB)": decibel(link.excess),
            "receive SNR per channel use (dB)": decibel(link.snr),
            "steady-state NMSE (dB)": self.course.steady_db,
            "held fixed when s changes": energy if self.hold == "energy" else "receive SNR per channel use",
        }
        if self.units is not None:
            budget |= {
                "bandwidth (MHz)": f"{self.units.bandwidth_hz / 1e6:g}",
                "transmit power (dBm)": f"{self.units.tx_power_dbm:.1f}",
                "round on air (ms)": f"{1e3 * self.units.air_seconds(link.rows):.4g}",
                "energy of a device, at most (mJ/round)": f"{1e3 * self.units.joules(link.power):.4g}",
            }
        return budget


def _rounded(values: Iterable[Any]) -> list[float]:
    return [round(float(value), 4) for value in values]
