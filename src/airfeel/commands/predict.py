"""``airfeel predict``: the error a link will have, and the link an error needs, without any training."""

import json as encoding
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airfeel._checks import real
from airfeel._timing import Timer
from airfeel.commands import Flag, Settings, Whole, load, log, show

if TYPE_CHECKING:
    from airfeel.radio.units import RadioUnits
    from airfeel.theory.linear import LinearPlan
    from airfeel.theory.planner import ForecastCourse, LinkBudget, LinkForecast, LinkPlan

    Plan = LinkPlan | LinearPlan
    Answer = tuple[Plan, LinkBudget, ForecastCourse, str, RadioUnits | None, dict[str, str]]

KEYS = {  # of a configuration, which options stand for
    **{name: f"receiver.{name}" for name in ("activity", "p01", "beta")},
    **{name: f"radio.{name}" for name in ("bandwidth_hz", "tx_power_dbm", "path_loss_db")},
    "ratio": "uplink.ratio",
    "power": "uplink.power",
    "devices": "devices.count",
}


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
    devices: Whole = None,
    size: Whole = None,
    rounds: Whole = None,
    bandwidth_hz: float | None = None,
    tx_power_dbm: float | None = None,
    path_loss_db: float | None = None,
    excess_db: float | None = None,
    target_nmse: float | None = None,
    solve: Literal["rows", "power"] | None = None,
    figure: Path | None = None,
    json: Flag = False,
    samples: Whole = None,
    seed: Whole = None,
) -> None:
    """Predict by theory the error (NMSE) of what the server hears, or find the link that a target needs.

    Of linear schemes, such as scheduled, in closed form; of TSA-GA and its relatives by state evolution.

    Example: airfeel predict --activity 0.05 --power 500 --target-nmse -15 --solve rows

    Parameters
    ----------
    source
        A TOML file, or the folder of a run: then with its learned chain and the noise it had; of a run with
        run.record_aggregates=true the real receiver replays what was sent.
    settings
        key=value of the configuration, such as scheme=turbo_cs; may be given several times. Without a file
        the scheme is tsa_ga where none is given.
    activity
        Share of coefficients that are not zero, lambda.
    p01
        Probability that an active coefficient becomes inactive in a round.
    beta
        Forgetting of the amplitudes from round to round.
    ratio
        Symbols per parameter, s/N.
    power
        Energy of a device per round, P.
    snr_db
        Receive SNR per symbol, in place of a power; it is then held when the bandwidth changes.
    devices
        Number of devices, M.
    size
        Number of parameters, N; 7850 where no run says otherwise.
    rounds
        How many rounds to follow, 60 by default; steady state is the mean over the last quarter, so slow
        chains need more. Of a run, its last ones: 150 by default, or as many as it has.
    bandwidth_hz
        Bandwidth, as radio.bandwidth_hz of a configuration; so are the next two. Answers are then in seconds
        and joules too.
    tx_power_dbm
        Transmit power of a device.
    path_loss_db
        Between device and server.
    excess_db
        By how many dB the energy of the most energetic device's signal exceeds that of the mean; 0 where no
        run tells it.
    target_nmse
        In dB: find the smallest link that reaches it in steady state.
    solve
        What --target-nmse finds: rows, the number of symbols s (where nothing is said), or the power P.
    figure
        Write a map of steady-state NMSE as this name with .png and .svg: over bandwidth and transmit power
        where these are given, else over s/N and P (144 predictions, or replays).
    json
        Print one JSON object.
    samples
        How many chains of a coefficient are sampled, 80,000 by default.
    seed
        Of the sampling and of the channel; that of the configuration by default.
    """
    from airfeel.config import mistakes, parse_override
    from airfeel.lab.studies import planning
    from airfeel.simulation.assembly import make_units
    from airfeel.theory.linear import LinearPlan
    from airfeel.theory.planner import LinkPlan, solve_power, solve_rows
    from airfeel.theory.privacy import guarantee
    from airfeel.units import decibel, from_decibel

    options = {"activity": activity, "p01": p01, "beta": beta, "ratio": ratio, "power": power}
    options |= {"bandwidth_hz": bandwidth_hz, "tx_power_dbm": tx_power_dbm, "path_loss_db": path_loss_db}
    given = dict(parse_override(setting) for setting in settings or [])
    for name, value in (options | {"devices": devices}).items():
        if value is not None:
            if (key := KEYS[name]) in given:
                raise ValueError(f"--{name.replace('_', '-')} and --set {key}: must not be given together")
            given[key] = value
    if snr_db is not None and "uplink.power" in given:
        raise ValueError("--power and --snr-db: must not be given together, as one follows from the other")
    if solve is not None and target_nmse is None:
        raise ValueError(f"--solve {solve}: needs --target-nmse")
    solve = solve or "rows"
    sought = "uplink.ratio" if solve == "rows" else "uplink.power" if snr_db is None else "--snr-db"
    if target_nmse is not None and sought in {*given, "--snr-db"}:
        raise ValueError(f"{sought}: must not be given with --target-nmse, which finds it")
    if excess_db is not None:
        excess_db = real("--excess-db", excess_db, at_least=-300, at_most=300)
    run = None
    if source and Path(source).is_dir():
        if not (Path(source) / "rounds.jsonl").exists():
            raise ValueError(f"{source}: must be a configuration file or the folder of a run")
        run = planning.from_run(Path(source), given, size)
        config, plan, link, units = run.config, run.plan, run.link, run.units
        if excess_db is not None:
            raise ValueError(f"--excess-db {excess_db:g}: must not be given with a run, which tells it")
    else:
        # Without a file, the paper's own scheme is meant, whose chain the flags describe.
        config = load(source, given if source else {"scheme": "tsa_ga", **given})
        planning.require_read(config, given, sized=size is not None)
        if ignored := planning.unread(config, mistakes.flatten(config.model_dump(exclude_unset=True))):
            log.info(f"{source}: without a part in this answer: {', '.join(ignored)}")
        units, plan = make_units(config, config.part("channel")), planning.plan_of(config)
        link = replace(planning.link_of(config, size, units), excess=from_decibel(excess_db or 0.0))
    if snr_db is not None:
        if units is not None:
            raise ValueError("--snr-db: must not be given with a bandwidth and a power, which tell it")
        link = link.with_snr(from_decibel(snr_db))
    chance = config.seed if seed is None else seed
    care: dict[str, Any] = {"rounds": rounds, "samples": samples, "seed": chance}
    care = {name: value for name, value in care.items() if value is not None and hasattr(plan, name)}
    plan = replace(plan, **care)
    log.info(f"predicting the error of {plan.rounds} rounds")
    forecast = planning.with_air(plan, link, config, chance) if run is None else run.forecast(plan)
    sampled = isinstance(forecast, LinkPlan) and not forecast.method.dense
    drawn = sampled or getattr(forecast, "air", None) is not None
    for name, number, read in (
        ("--samples", samples, sampled),
        ("--seed", seed, drawn),
        ("--set seed", given.get("seed"), drawn),
    ):
        if number is not None and not read:
            raise ValueError(f"{name} {number}: must not be given, as this answer does not depend on it")
    hold = "energy" if snr_db is None and units is None else "snr"
    if target_nmse is not None and solve == "power":
        link = solve_power(forecast, link, target_nmse, say=log.info)
    elif target_nmse is not None:
        if isinstance(forecast, LinearPlan):
            rule = "the fewer a linear scheme sends the better they arrive, and the worse it learns"
            other = "--solve power, or airfeel plan --vary uplink.ratio=0.01:0.5"
            raise ValueError(f"--solve rows: {rule}; ask {other}")
        link = solve_rows(forecast, link, target_nmse, hold, say=log.info)
    units = None if units is None else units.with_snr_db(decibel(link.power / link.rows))
    course = forecast.course(link)
    about = link.power, len(course.rounds), link.rows, link.snr, link.channel_noise
    privacy = guarantee(*about, fixed=config.uplink.policy == "fixed")
    answer = plan, link, course, hold, units, {"basis": forecast.basis, "privacy": privacy}
    with suppress(BrokenPipeError):  # a reader that leaves early may still want the figure
        show(_as_json(answer) if json else _as_text(answer))
    if figure is not None:
        _draw(forecast, link, units, figure)


def _as_json(answer: "Answer") -> str:
    """Return all that is to be said about one link, as one JSON object."""
    from airfeel.units import decibel

    plan, link, course, hold, units, sentences = answer
    chain, method = getattr(plan, "chain", None), getattr(plan, "method", None)
    levels = {"snr_db": decibel(link.snr), "device_snr_db": decibel(link.device_snr)}
    facts: dict[str, Any] = {
        "chain": chain and {"activity": chain.activity, "p01": chain.p01, "beta": chain.beta},
        "method": method and asdict(method),
        "link": asdict(link) | {"ratio": link.ratio} | levels | {"held": hold},
        "rounds": list(course.rounds),
        "nmse_db": _rounded(course.nmse_db),
        "nmse_db_error": _rounded(course.error_db),
        "believed_nmse_db": _rounded(course.believed_db),
        "against_all_db": _rounded(course.against_all_db),
        "steady_nmse_db": round(course.steady_db, 4),
        **sentences,
    }
    if units is not None:
        spent = {"air_seconds": units.air_seconds(link.rows), "joules": units.joules(link.power)}
        facts["radio"] = asdict(units) | spent
    return encoding.dumps(facts, indent=2)


def _rounded(values: Iterable[Any] | None) -> list[float] | None:
    return None if values is None else [round(float(value), 4) for value in values]


def _as_text(answer: "Answer") -> str:
    """Return the course of the error, the link budget, and what they rest on."""
    from airfeel.units import decibel

    plan, link, course, hold, units, sentences = answer
    chain, energy = getattr(plan, "chain", None), "energy per device and round"
    spent = f"P = {link.power:.4g}" if units is None else f"{units.tx_power_dbm:.1f} dBm"
    uses = f"s = {link.rows} channel uses (s/N = {link.ratio:.3g}) and {spent}"
    lines = [textwrap.fill(f"NMSE of {course.steady_db:.1f} dB in steady state with {uses}", 100), ""]
    if chain is not None:
        lines += [f"lambda = {chain.activity:.4g}, p01 = {chain.p01:.4g}, beta = {chain.beta:.4g}", ""]
    told = {
        "NMSE (dB)": course.nmse_db,
        "standard error": course.error_db,
        "what the receiver believes (dB)": course.believed_db,
        "with what is missing (dB)": course.against_all_db,
    }
    columns = {name: values for name, values in told.items() if values is not None}
    lines.append("   ".join(["round", *columns]))
    for place, (round, *values) in enumerate(zip(course.rounds, *columns.values(), strict=True), start=1):
        if place <= 10 or round % 5 == 0 or place == len(course.rounds):
            shown = (f"{value:{len(name)}.2f}" for name, value in zip(columns, values, strict=True))
            lines.append("   ".join([f"{round:5d}", *shown]))
    budget: dict[str, float | int | str] = {
        "parameters N": link.size,
        "channel uses per round s": link.rows,
        "s/N": link.ratio,
        "devices M": link.devices,
        f"{energy} P": link.power,
        "energy per device and channel use": link.power / link.rows,
        "SNR of a device per symbol (dB)": decibel(link.device_snr),
        f"energy per device in {len(course.rounds)} rounds": link.power * len(course.rounds),
        "noise variance per channel use": link.channel_noise,
        "excess noise over equal devices (dB)": decibel(link.excess),
        "receive SNR per channel use (dB)": decibel(link.snr),
        "steady-state NMSE (dB)": course.steady_db,
        "held fixed when s changes": energy if hold == "energy" else "receive SNR per channel use",
    }
    if units is not None:
        budget |= {
            "bandwidth (MHz)": f"{units.bandwidth_hz / 1e6:g}",
            "transmit power (dBm)": f"{units.tx_power_dbm:.1f}",
            "round on air (ms)": f"{1e3 * units.air_seconds(link.rows):.4g}",
            "energy of a device, at most (mJ/round)": f"{1e3 * units.joules(link.power):.4g}",
        }
    lines.append("")
    for name, value in budget.items():
        lines.append(f"{name:<38} {f'{value:.5g}' if isinstance(value, float) else value}")
    for sentence in sentences.values():
        lines += ["", textwrap.fill(sentence, 100, break_on_hyphens=False, break_long_words=False)]
    return "\n".join(lines)


def _draw(forecast: "LinkForecast", link: "LinkBudget", units: "RadioUnits | None", stem: Path) -> None:
    """Compute and write the map."""
    from airfeel.lab.studies.planning import contour, draw_map
    from airfeel.theory.planner import LinkPlan

    timers: dict[int, Timer] = {}

    def told(done: int, of: int) -> None:
        timers.setdefault(of, Timer(of)).tell(done, log.info, f"map: {done} of {of} predictions")

    quick = forecast.for_map() if isinstance(forecast, LinkPlan) else forecast  # a replay has no quick form
    for path in draw_map(contour(quick, link, units, told)).save(stem):
        log.info(f"wrote {path}")
