"""A prediction in numbers for scripts and in lines for people."""

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from airfeel.experiments.studies.engineering import Reaching, radio_rows
from airfeel.experiments.studies.planning import budget
from airfeel.experiments.studies.promise import Promise
from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.units import decibel


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """All that is to be said about one link."""

    plan: LinkPlan
    link: LinkBudget
    promise: Promise
    hold: str
    units: RadioUnits | None = None
    accuracy: float | None = None
    reaching: Reaching | None = None


def as_json(answer: Answer) -> str:
    """Return one JSON object."""
    plan, link, promise = answer.plan, answer.link, answer.promise
    chain, method = plan.chain, plan.method
    facts: dict[str, Any] = {
        "chain": {"activity": chain.activity, "p01": chain.p01, "beta": chain.beta},
        "method": {name: getattr(method, name) for name in method.__slots__},
        "link": {name: getattr(link, name) for name in link.__slots__}
        | {"ratio": link.ratio, "snr_db": decibel(link.snr), "device_snr_db": decibel(link.device_snr)}
        | {"held": answer.hold},
        "rounds": list(promise.rounds),
        "nmse_db": _rounded(promise.nmse_db),
        "nmse_db_error": None if promise.error_db is None else _rounded(promise.error_db),
        "believed_nmse_db": _rounded(promise.believed_db),
        "steady_nmse_db": round(promise.steady_db, 4),
        "steady_nmse_db_limits": _rounded([promise.best_db, promise.worst_db]),
        "margin": promise.margin,
    }
    if (units := answer.units) is not None:
        seconds, joules = units.air_seconds(link.rows), units.joules(link.power)
        facts["radio"] = asdict(units) | {"air_seconds": seconds, "joules": joules}
    if answer.reaching is not None:
        facts["until"] = {"accuracy": answer.accuracy} | asdict(answer.reaching)
    return json.dumps(facts, indent=2)


def as_text(answer: Answer) -> str:
    """Return the course of the error, the link budget, and what they rest on."""
    chain, promise, link = answer.plan.chain, answer.promise, answer.link
    lines = [f"lambda = {chain.activity:.4g}, p01 = {chain.p01:.4g}, beta = {chain.beta:.4g}", ""]
    columns = {"NMSE (dB)": promise.nmse_db}
    if promise.error_db is not None:
        columns["standard error"] = promise.error_db
    columns["what the receiver believes (dB)"] = promise.believed_db
    lines.append("   ".join(["round", *columns]))
    for place, (round, *values) in enumerate(zip(promise.rounds, *columns.values(), strict=True), start=1):
        if place <= 10 or round % 5 == 0 or place == len(promise.rounds):
            shown = (f"{value:{len(name)}.2f}" for name, value in zip(columns, values, strict=True))
            lines.append("   ".join([f"{round:5d}", *shown]))
    lines.append("")
    for name, value in [*budget(link, promise, answer.hold), *_engineer(answer)]:
        shown_value = value if isinstance(value, str | int) else f"{value:.5g}"
        lines.append(f"{name:<38} {shown_value}")
    lines += ["", _wrapped(promise.margin)]
    if answer.reaching is not None and answer.reaching.basis:
        lines += ["", _wrapped(f"Rounds until {100 * (answer.accuracy or 0):g} %: {answer.reaching.basis}.")]
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)


def _engineer(answer: Answer) -> list[tuple[str, str]]:
    """Return rounds, seconds and joules, as far as they are known."""
    rows = []
    if answer.reaching is not None:
        rows.append((f"rounds until {100 * (answer.accuracy or 0):g} %", answer.reaching.times(1.0)))
    if answer.units is not None:
        rows += radio_rows(answer.units, answer.link, answer.reaching, answer.accuracy)
    return rows


def _rounded(values: Iterable[Any]) -> list[float]:
    return [round(float(value), 4) for value in values]
