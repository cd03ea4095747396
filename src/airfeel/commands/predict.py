"""``airfeel predict``: the error a link will have, and the link an error needs, without any training."""

import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from airfeel._timing import Timer
from airfeel.commands import show
from airfeel.commands.questions import Asked, forecast_for, link_of, read_question, require_fitting
from airfeel.commands.run import Settings
from airfeel.experiments.report.own_reaching import run_reaching
from airfeel.experiments.report.tables import text_table
from airfeel.experiments.studies.answers import Answer, as_json, as_text
from airfeel.experiments.studies.engineering import FACTORS, ByProfile, Reaching, rounds_to, sweep_table
from airfeel.experiments.studies.maps import contour, radio_contour, radio_predictions
from airfeel.experiments.studies.planning import with_air
from airfeel.experiments.studies.profiles import load as load_profile
from airfeel.experiments.studies.promise import Promise, Promising
from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import (
    LinkBudget,
    OutOfReachError,
    search_steps,
    solve_power,
    solve_rows,
)
from airfeel.units import decibel

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
    profile: str | None = None,
    bandwidth_hz: float | None = None,
    tx_power_dbm: float | None = None,
    path_loss_db: float | None = None,
    target_nmse: float | None = None,
    target_accuracy: float | None = None,
    table: Literal["bandwidth", "power"] | None = None,
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
    profile
        Measured gradients in place of chain parameters: mnist-softmax, fashion-mnist-softmax or mnist-cnn.
    bandwidth_hz
        B, as radio.bandwidth_hz of a configuration; so are the next two. Answers are then in seconds and
        joules too.
    tx_power_dbm
        Transmit power of a device.
    path_loss_db
        Between device and server.
    target_accuracy
        Tell how many rounds, seconds and joules it takes to reach it, such as 0.8: from a profile, or from
        the folder of a run for its own link.
    table
        Compare bandwidths, or powers, around the one given (with --profile).
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
    if power is not None and snr_db is not None:
        raise ValueError("--power and --snr-db: must not be given together, as one follows from the other")
    radio = {"bandwidth_hz": bandwidth_hz, "tx_power_dbm": tx_power_dbm, "path_loss_db": path_loss_db}
    changes = [
        *(settings or []),
        *(f"radio.{key}={value!r}" for key, value in radio.items() if value is not None),
    ]
    asked = read_question(source, changes, None if profile is None else load_profile(profile))
    given = {"activity": activity, "p01": p01, "beta": beta}
    known = {key: value for key, value in given.items() if value is not None}
    require_fitting(asked, known, rounds, power, snr_db, target_accuracy, table)
    plan = replace(asked.plan, chain=replace(asked.plan.chain, **known))
    if asked.profile is None:
        plan = replace(plan, rounds=plan.rounds if rounds is None else rounds, samples=samples, seed=seed)
    link = link_of(asked, ratio, power, snr_db, devices, size)
    if asked.lent is None:
        plan = with_air(plan, link, asked.config)
    _log.info(f"predicting the error of {plan.rounds} rounds")
    forecast = forecast_for(asked, plan, link)
    hold = "energy" if snr_db is None and asked.units is None else "snr"
    if target_nmse is not None:
        link = _solve(forecast, link, target_nmse, solve, hold)
    units = None if asked.units is None else asked.units.with_snr_db(decibel(link.power / link.rows))
    promise = forecast.promise(link)
    answer = Answer(
        plan, link, promise, hold, units, target_accuracy, _reaching(asked, link, promise, target_accuracy)
    )
    with suppress(BrokenPipeError):  # a reader that leaves early may still want the figure
        show(as_json(answer) if json else as_text(answer))
        if table is not None and units is not None and isinstance(forecast, ByProfile):
            told = _counted("table", len(FACTORS[table]))
            rows = sweep_table(units, link, table, forecast, target_accuracy, told)
            show(f"\n{text_table(rows)}")
    if figure is not None:
        _draw(forecast, link, units, figure)


def _reaching(asked: Asked, link: LinkBudget, promise: Promise, accuracy: float | None) -> Reaching | None:
    """Return the rounds until an accuracy: of a profile, or of a run over its own link."""
    if accuracy is None:
        return None
    if asked.profile is not None:
        return rounds_to(asked.profile, accuracy, promise)
    lent = asked.lent
    assert lent is not None
    if link != lent.own:
        raise ValueError("--target-accuracy: a run tells only of its own link what accuracy it reaches when")
    return run_reaching(lent.folder, [asdict(record) for record in lent.records], accuracy)


def _solve(forecast: Promising, link: LinkBudget, target: float, solve: str, hold: str) -> LinkBudget:
    """Return the smallest link that reaches the target; that there is none rests on the forecast too."""
    told = _told(search_steps(link, solve))
    try:
        if solve == "rows":
            return solve_rows(forecast, link, target, hold, say=told)
        return solve_power(forecast, link, target, say=told)
    except OutOfReachError as error:
        raise ValueError(f"{error} ({forecast.basis})") from None


def _told(steps: int) -> Callable[[str], None]:
    """Return who logs every step of a search, with the time that is left where the rest takes as many."""
    timer, done = Timer(steps), itertools.count(1)

    def told(found: str) -> None:
        left = timer.left(next(done))
        _log.info(f"{found}, at most about {left}" if left else found)

    return told


def _counted(what: str, of: int) -> Callable[[int, int], None]:
    """Return who logs now and then how many of so many predictions are done."""
    timer = Timer(of)
    return lambda done, of: timer.tell(done, _log.info, f"{what}: {done} of {of} predictions")


def _draw(forecast: Promising, link: LinkBudget, units: RadioUnits | None, stem: Path) -> None:
    """Compute and write the map."""
    from airfeel.experiments.report.theory_charts import draw_map

    quick = forecast.for_map()
    if units is None:
        field = contour(quick, link, CELLS, _counted("map", CELLS**2))
    else:
        field = radio_contour(quick, link, units, CELLS, _counted("map", radio_predictions(CELLS)))
    for path in draw_map(field).save(stem):
        _log.info(f"wrote {path}")
