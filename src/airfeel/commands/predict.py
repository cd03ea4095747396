"""``airfeel predict``: the error a link will have, and the link an error needs, without any training."""

import itertools
import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from airfeel._timing import Timer
from airfeel.commands import Flag, Settings, load, show

if TYPE_CHECKING:
    from airfeel.lab.studies.forecasts import ByReplay, ByTheory
    from airfeel.radio.units import RadioUnits
    from airfeel.theory.planner import LinkBudget

_log = logging.getLogger("airfeel")


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
    bandwidth_hz: float | None = None,
    tx_power_dbm: float | None = None,
    path_loss_db: float | None = None,
    target_nmse: float | None = None,
    solve: Literal["rows", "power"] = "rows",
    figure: Path | None = None,
    json: Flag = False,
    samples: int = 80_000,
    seed: int = 0,
) -> None:
    """Predict the NMSE of every round by state evolution, or find the link that a target NMSE needs.

    Example: airfeel predict --activity 0.05 --ratio 0.1 --power 500 --target-nmse -15 --solve rows

    Parameters
    ----------
    source
        A TOML file, or the folder of a run: then with its learned chain and the noise it had; of a run with
        run.record_aggregates=true the real receiver replays what was sent.
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
    bandwidth_hz
        B, as radio.bandwidth_hz of a configuration; so are the next two. Answers are then in seconds and
        joules too.
    tx_power_dbm
        Transmit power of a device.
    path_loss_db
        Between device and server.
    target_nmse
        In dB: find the smallest link that reaches it in steady state.
    solve
        What to find: the number of rows s, or the power P.
    figure
        Write a map of steady-state NMSE as this name with .png and .svg: over bandwidth and transmit power
        where these are given, else over s/N and P (144 predictions, or replays).
    json
        Print one JSON object.
    samples
        Scalar chains to sample.
    seed
        Of the sampling.
    """
    from airfeel.config import parse_override
    from airfeel.lab.studies.forecasts import ByTheory
    from airfeel.lab.studies.planning import Answer, from_run, plan_of, units_of, with_air
    from airfeel.units import decibel

    if power is not None and snr_db is not None:
        raise ValueError("--power and --snr-db: must not be given together, as one follows from the other")
    radio = {"bandwidth_hz": bandwidth_hz, "tx_power_dbm": tx_power_dbm, "path_loss_db": path_loss_db}
    changes = [
        *(settings or []),
        *(f"radio.{key}={value!r}" for key, value in radio.items() if value is not None),
    ]
    run = None
    if source and Path(source).is_dir():
        if not (Path(source) / "rounds.jsonl").exists():
            raise ValueError(f"{source}: must be a configuration file or the folder of a run")
        run = from_run(Path(source), dict(parse_override(change) for change in changes))
        config, plan, link, units = run.config, run.plan, run.link, run.units
    else:
        config = load(source, changes)
        units = units_of(config)
        plan, link = plan_of(config)
    if units is not None and (power is not None or snr_db is not None):
        name = "--power" if power is not None else "--snr-db"
        raise ValueError(f"{name}: must not be given with a bandwidth and a transmit power, which tell it")
    given = {"activity": activity, "p01": p01, "beta": beta}
    chain = replace(plan.chain, **{key: value for key, value in given.items() if value is not None})
    rounds = plan.rounds if rounds is None else rounds
    plan = replace(plan, chain=chain, rounds=rounds, samples=samples, seed=seed)
    link = _link(link, units, ratio, power, snr_db, devices, size)
    _log.info(f"predicting the error of {plan.rounds} rounds")
    if run is None:
        forecast: ByTheory | ByReplay = ByTheory(with_air(plan, link, config))
    elif (link.devices, link.size) == (run.own.devices, run.own.size):
        forecast = run.forecast(plan)
    else:
        forecast = ByTheory(plan)
    hold = "energy" if snr_db is None and units is None else "snr"
    if target_nmse is not None:
        link = _solve(forecast, link, target_nmse, solve, hold)
    units = None if units is None else units.with_snr_db(decibel(link.power / link.rows))
    answer = Answer(plan, link, forecast.course(link), hold, units)
    with suppress(BrokenPipeError):  # a reader that leaves early may still want the figure
        show(answer.as_json() if json else answer.as_text())
    if figure is not None:
        _draw(forecast, link, units, figure)


def _link(
    link: "LinkBudget",
    units: "RadioUnits | None",
    ratio: float | None,
    power: float | None,
    snr_db: float | None,
    devices: int | None,
    size: int | None,
) -> "LinkBudget":
    """Return the link with what was given on the command line."""
    from airfeel.units import count, from_decibel

    ratio = link.ratio if ratio is None else ratio
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio = {ratio}: must be a finite number > 0 and <= 1")
    size = link.size if size is None else size
    link = replace(link, size=size, rows=count(ratio, size))
    if units is not None:  # a transmit power gives more energy to more symbols
        power = units.power(link.rows)
    devices = link.devices if devices is None else devices
    link = replace(link, devices=devices, power=link.power if power is None else power)
    return link if snr_db is None else link.with_snr(from_decibel(snr_db))


def _solve(
    forecast: "ByTheory | ByReplay", link: "LinkBudget", target: float, solve: str, hold: str
) -> "LinkBudget":
    """Return the smallest link that reaches the target; that there is none rests on the forecast too."""
    from airfeel.theory.planner import OutOfReachError, search_steps, solve_power, solve_rows

    timer, done = Timer(search_steps(link, solve)), itertools.count(1)

    def told(found: str) -> None:
        left = timer.left(next(done))  # if the rest takes as many steps as it can
        _log.info(f"{found}, at most about {left}" if left else found)

    try:
        if solve == "rows":
            return solve_rows(forecast, link, target, hold, say=told)
        return solve_power(forecast, link, target, say=told)
    except OutOfReachError as error:
        raise ValueError(f"{error} ({forecast.name})") from None


def _draw(
    forecast: "ByTheory | ByReplay", link: "LinkBudget", units: "RadioUnits | None", stem: Path
) -> None:
    """Compute and write the map."""
    from airfeel.lab.studies.forecasts import contour
    from airfeel.lab.study_charts import draw_map

    timers: dict[int, Timer] = {}

    def told(done: int, of: int) -> None:
        timers.setdefault(of, Timer(of)).tell(done, _log.info, f"map: {done} of {of} predictions")

    for path in draw_map(contour(forecast.for_map(), link, units, told)).save(stem):
        _log.info(f"wrote {path}")
