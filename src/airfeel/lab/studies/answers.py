"""A forecast in numbers for scripts and in lines for people."""

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from airfeel.lab.studies.forecasts import ForecastCourse
from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.units import decibel


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """All that is to be said about one link."""

    plan: LinkPlan
    link: LinkBudget
    course: ForecastCourse
    hold: str
    units: RadioUnits | None = None

    def as_json(self) -> str:
        """Return one JSON object."""
        link, course, chain, method = self.link, self.course, self.plan.chain, self.plan.method
        facts: dict[str, Any] = {
            "chain": {"activity": chain.activity, "p01": chain.p01, "beta": chain.beta},
            "method": {name: getattr(method, name) for name in method.__slots__},
            "link": {name: getattr(link, name) for name in link.__slots__}
            | {"ratio": link.ratio, "snr_db": decibel(link.snr), "device_snr_db": decibel(link.device_snr)}
            | {"held": self.hold},
            "rounds": list(course.rounds),
            "nmse_db": _rounded(course.nmse_db),
            "nmse_db_error": None if course.error_db is None else _rounded(course.error_db),
            "believed_nmse_db": _rounded(course.believed_db),
            "steady_nmse_db": round(course.steady_db, 4),
            "basis": course.basis,
        }
        if self.units is not None:
            seconds, joules = self.units.air_seconds(link.rows), self.units.joules(link.power)
            facts["radio"] = asdict(self.units) | {"air_seconds": seconds, "joules": joules}
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
        for name, value in self._budget():
            lines.append(f"{name:<38} {value if isinstance(value, str | int) else f'{value:.5g}'}")
        basis = textwrap.fill(course.basis, 100, break_on_hyphens=False, break_long_words=False)
        return "\n".join([*lines, "", basis])

    def _budget(self) -> list[tuple[str, float | int | str]]:
        """Return the link budget as names and values."""
        link, rounds = self.link, len(self.course.rounds)
        energy = "energy per device and round"
        rows: list[tuple[str, float | int | str]] = [
            ("parameters N", link.size),
            ("channel uses per round s", link.rows),
            ("s/N", link.ratio),
            ("devices M", link.devices),
            (f"{energy} P", link.power),
            ("energy per device and channel use", link.power / link.rows),
            ("SNR of a device per symbol (dB)", decibel(link.device_snr)),
            (f"energy per device in {rounds} rounds", link.power * rounds),
            ("noise variance per channel use", link.channel_noise),
            ("excess noise over equal devices (dB)", decibel(link.excess)),
            ("receive SNR per channel use (dB)", decibel(link.snr)),
            ("steady-state NMSE (dB)", self.course.steady_db),
            ("held fixed when s changes", energy if self.hold == "energy" else "receive SNR per channel use"),
        ]
        if self.units is not None:
            seconds, joules = self.units.air_seconds(link.rows), self.units.joules(link.power)
            rows += [
                ("bandwidth (MHz)", f"{self.units.bandwidth_hz / 1e6:g}"),
                ("transmit power (dBm)", f"{self.units.tx_power_dbm:.1f}"),
                ("round on air (ms)", f"{1e3 * seconds:.4g}"),
                ("energy of a device, at most (mJ/round)", f"{1e3 * joules:.4g}"),
            ]
        return rows


def _rounded(values: Iterable[Any]) -> list[float]:
    return [round(float(value), 4) for value in values]
