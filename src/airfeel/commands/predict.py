"""``airfeel predict``: the error a link will have, and the link an error needs, without any training."""

import itertools
import json
import logging
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from airfeel._pace import Pace
from airfeel.commands.run import Settings, load
from airfeel.config import parse_override
from airfeel.experiments.studies.lending import Lent, from_run
from airfeel.experiments.studies.planning import budget, contour, from_config
from airfeel.experiments.studies.promise import ByTheory, Promise, Promising
from airfeel.theory.planner import (
    LinkBudget,
    LinkPlan,
    OutOfReachError,
    search_steps,
    solve_power,
    solve_rows,
)
from airfeel.units import count, decibel, from_decibel

_log = logging.getLogger("airfeel")

CELLS = 12  # of the map, in each direction

Switch = Annotated[bool, Parameter(negative=())]


def predict(
    source: str = "",
    /,
    *,
    settings: Settings = None,
    activity: float | None = None,
    p01: float | None = None,
    beta: float | None = None,
    ratio: float | None = None,
    power: float | None = None,
    snr_db: float | None = None,
    devices: int | None = None,
    size: int | None = None,
    rounds: int | None = None,
    target_nmse: float | None = None,
    solve: Literal["rows", "power"] = "rows",
    figure: Path | None = None,
    json: Switch = False,
    samples: int = 80_000,
    seed: int = 0,
) -> None:
    """Predict the NMSE of every round by state evolution, or find the link that a target NMSE needs.

    Example: airfeel predict --activity 0.05 --ratio 0.1 --power 500 --target-nmse -15 --solve rows

    Parameters
    ----------
    source
        A TOML file, or the folder of a run: then with its learned chain, the noise it had, and a margin
        learned from its rounds; the closest one from a run with run.record_aggregates=true.
    settings
        key=value of the configuration, such as scheme=turbo_cs; may be given several times.
    activity
        lambda, the share of coefficients that are not zero.
    p01
        Probability that an active coefficient becomes inactive in a round.
    beta
        Forgetting of the amplitudes.
    ratio
        s/N, channel uses per parameter.
    power
        P, the energy of a device per round.
    snr_db
        Receive SNR per channel use, in place of a power; it is then held when the bandwidth changes.
    devices
        M.
    size
        N, the number of parameters; 7850 where no run says otherwise.
    rounds
        How many rounds to follow, 60 by default; steady state is the mean over the last quarter, so slow
        chains need more. Of a run, its last ones: 150 by default, or as many as it has.
    target_nmse
        In dB: find the smallest link that reaches it in steady state.
    solve
        What to find: the number of rows s, or the power P.
    figure
        Write a map of steady-state NMSE over s/N and P as this name with .png and .svg (144 predictions,
        or replays).
    json
        Print one JSON object.
    samples
        Scalar chains to sample.
    seed
        Of the sampling.
    """
    if power is not None and snr_db is not None:
        raise ValueError("--power and --snr-db: must not be given together, as one follows from the other")
    lent, plan, link = _read(source, settings)
    given = {"activity": activity, "p01": p01, "beta": beta}
    chain = replace(plan.chain, **{key: value for key, value in given.items() if value is not None})
    plan = replace(plan, chain=chain, rounds=plan.rounds if rounds is None else rounds)
    plan = replace(plan, samples=samples, seed=seed)
    link = _link(link, ratio, power, snr_db, devices, size)
    forecast: Promising = ByTheory(plan)
    if lent is not None and (link.devices, link.size) == (lent.own.devices, lent.own.size):
        forecast = lent.promising(plan)
    hold = "energy" if snr_db is None else "snr"
    if target_nmse is not None:
        link = _solve(forecast, link, target_nmse, solve, hold)
    promise = forecast.promise(link)
    with suppress(BrokenPipeError):  # a reader that leaves early may still want the figure
        print((_as_json if json else _as_text)(plan, link, promise, hold), flush=True)
    if figure is not None:
        _draw(forecast, link, figure)


def _read(source: str, settings: list[str] | None) -> tuple[Lent | None, LinkPlan, LinkBudget]:
    """Return plan and link of a configuration file or of the defaults, or of a run's folder and that run."""
    if source and Path(source).is_dir():
        if not (Path(source) / "rounds.jsonl").exists():
            raise ValueError(f"{source}: must be a configuration file or the folder of a run")
        lent = from_run(Path(source), dict(parse_override(setting) for setting in settings or []))
        return lent, lent.plan, lent.link
    return None, *from_config(load(source, settings))


def _solve(forecast: Promising, link: LinkBudget, target: float, solve: str, hold: str) -> LinkBudget:
    """Return the smallest link that reaches the target; that there is none rests on the forecast too."""
    told = _told(search_steps(link, solve))
    try:
        if solve == "rows":
            return solve_rows(forecast, link, target, hold, told=told)
        return solve_power(forecast, link, target, told=told)
    except OutOfReachError as error:
        raise ValueError(f"{error} ({forecast.basis})") from None


def _told(steps: int) -> Callable[[str], None]:
    """Return who logs every step of a search, with the time that is left where the rest takes as many."""
    pace, done = Pace(steps), itertools.count(1)

    def told(found: str) -> None:
        _log.info(f"{found}, at most about {pace.left(next(done))}")

    return told


def _link(
    link: LinkBudget,
    ratio: float | None,
    power: float | None,
    snr_db: float | None,
    devices: int | None,
    size: int | None,
) -> LinkBudget:
    """Return the link with what was given on the command line."""
    ratio = link.ratio if ratio is None else ratio
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio = {ratio}: must be a finite number > 0 and <= 1")
    size = link.size if size is None else size
    link = replace(link, size=size, rows=count(ratio, size))
    devices = link.devices if devices is None else devices
    link = replace(link, devices=devices, power=link.power if power is None else power)
    return link if snr_db is None else link.with_snr(from_decibel(snr_db))


def _as_json(plan: LinkPlan, link: LinkBudget, promise: Promise, hold: str) -> str:
    chain, method = plan.chain, plan.method
    return json.dumps(
        {
            "chain": {"activity": chain.activity, "p01": chain.p01, "beta": chain.beta},
            "method": {name: getattr(method, name) for name in method.__slots__},
            "link": {name: getattr(link, name) for name in link.__slots__}
            | {"ratio": link.ratio, "snr_db": decibel(link.snr), "held": hold},
            "rounds": list(promise.rounds),
            "nmse_db": _rounded(promise.nmse_db),
            "nmse_db_error": None if promise.error_db is None else _rounded(promise.error_db),
            "believed_nmse_db": _rounded(promise.believed_db),
            "steady_nmse_db": round(promise.steady_db, 4),
            "steady_nmse_db_limits": _rounded([promise.best_db, promise.worst_db]),
            "margin": promise.margin,
        },
        indent=2,
    )


def _as_text(plan: LinkPlan, link: LinkBudget, promise: Promise, hold: str) -> str:
    chain = plan.chain
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
    for name, value in budget(link, promise, hold):
        shown_value = value if isinstance(value, str | int) else f"{value:.5g}"
        lines.append(f"{name:<38} {shown_value}")
    return "\n".join(
        [*lines, "", textwrap.fill(promise.margin, 100, break_on_hyphens=False, break_long_words=False)]
    )


def _draw(forecast: Promising, link: LinkBudget, stem: Path) -> None:
    """Compute and write the map."""
    from airfeel.experiments.report.theory_charts import draw_map

    pace = Pace(CELLS**2)

    def told(done: int, of: int) -> None:
        pace.tell(done, _log.info, f"map: {done} of {of} predictions")

    for path in draw_map(contour(forecast.for_map(), link, CELLS, told), link).save(stem):
        _log.info(f"wrote {path}")


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]
