"""``airfeel predict``: the error a link will have, and the link an error needs, without any training."""

import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from airfeel import _checks
from airfeel._pace import Pace
from airfeel.commands.run import Settings, load
from airfeel.config import Config, parse_override
from airfeel.experiments.report.own_reaching import run_reaching
from airfeel.experiments.report.tables import text_table
from airfeel.experiments.studies.answers import Answer, as_json, as_text
from airfeel.experiments.studies.engineering import FACTORS, ByProfile, Reaching, rounds_to, sweep_table
from airfeel.experiments.studies.lending import Lent, from_run
from airfeel.experiments.studies.maps import contour, radio_contour, radio_predictions
from airfeel.experiments.studies.planning import plan_of, units_of, with_air
from airfeel.experiments.studies.profiles import Profile, plan_for
from airfeel.experiments.studies.profiles import load as load_profile
from airfeel.experiments.studies.promise import ByTheory, Promise, Promising
from airfeel.radio.units import RadioUnits
from airfeel.simulation.assembly import energy
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
    asked = _read(source, changes, None if profile is None else load_profile(profile))
    given = {"activity": activity, "p01": p01, "beta": beta}
    known = {key: value for key, value in given.items() if value is not None}
    _require_fitting(asked, known, rounds, power, snr_db, target_accuracy, table)
    plan = replace(asked.plan, chain=replace(asked.plan.chain, **known))
    if asked.profile is None:
        plan = replace(plan, rounds=plan.rounds if rounds is None else rounds, samples=samples, seed=seed)
    link = _link(asked, ratio, power, snr_db, devices, size)
    if asked.lent is None:
        plan = with_air(plan, link, asked.config)
    _log.info(f"predicting the error of {plan.rounds} rounds")
    forecast = _forecast(asked, plan, link)
    hold = "energy" if snr_db is None and asked.units is None else "snr"
    if target_nmse is not None:
        link = _solve(forecast, link, target_nmse, solve, hold)
    units = None if asked.units is None else asked.units.with_snr_db(decibel(link.power / link.rows))
    promise = forecast.promise(link)
    answer = Answer(
        plan, link, promise, hold, units, target_accuracy, _reaching(asked, link, promise, target_accuracy)
    )
    with suppress(BrokenPipeError):  # a reader that leaves early may still want the figure
        print(as_json(answer) if json else as_text(answer), flush=True)
        if table is not None and units is not None and isinstance(forecast, ByProfile):
            told = _counted("table", len(FACTORS[table]))
            rows = sweep_table(units, link, table, forecast, target_accuracy, told)
            print(f"\n{text_table(rows)}", flush=True)
    if figure is not None:
        _draw(forecast, link, units, figure)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What a prediction starts from: a configuration with its link and radio, a run, a profile."""

    config: Config
    plan: LinkPlan
    link: LinkBudget
    units: RadioUnits | None = None
    lent: Lent | None = None
    profile: Profile | None = None


def _read(source: str, settings: list[str], profile: Profile | None) -> _Asked:
    """Return plan and link of a configuration file or of the defaults, or of a run's folder and that run."""
    if source and Path(source).is_dir():
        if not (Path(source) / "rounds.jsonl").exists():
            raise ValueError(f"{source}: must be a configuration file or the folder of a run")
        if profile is not None:
            raise ValueError(
                f"--profile {profile.name}: must not be given with a run, which has its own gradients"
            )
        lent = from_run(Path(source), dict(parse_override(setting) for setting in settings))
        return _Asked(lent.config, lent.plan, lent.link, units_of(lent.asked), lent)
    config = load(source, settings)
    plan, link = plan_of(config)
    if profile is not None:
        if config.scheme != "tsa_ga":
            raise ValueError(
                f"scheme = {config.scheme!r}: must be 'tsa_ga' with --profile, which was measured with it"
            )
        plan = plan_for(profile.chain)
        rows = count(config.uplink.ratio, profile.size)
        link = replace(link, size=profile.size, rows=rows, power=energy(config, rows), excess=profile.excess)
    return _Asked(config, plan, link, units_of(config), None, profile)


def _require_fitting(
    asked: _Asked,
    chain: dict[str, float],
    rounds: int | None,
    power: float | None,
    snr_db: float | None,
    accuracy: float | None,
    table: str | None,
) -> None:
    """Refuse options that do not go together."""
    if asked.profile is not None and (chain or rounds is not None):
        name = next(iter(chain), "rounds")
        raise ValueError(f"--{name}: must not be given with --profile, which tells it")
    if asked.units is not None and (power is not None or snr_db is not None):
        name = "--power" if power is not None else "--snr-db"
        raise ValueError(f"{name}: must not be given with a bandwidth and a transmit power, which tell it")
    if table is not None and (asked.profile is None or asked.units is None):
        raise ValueError(f"--table {table}: must be given with --profile and --bandwidth-hz")
    if accuracy is not None:
        _checks.real("--target-accuracy", accuracy, above=0, at_most=1)
        if asked.profile is None and asked.lent is None:
            raise ValueError("--target-accuracy: must be given with --profile or the folder of a run")


def _forecast(asked: _Asked, plan: LinkPlan, link: LinkBudget) -> Promising:
    """Return who foresees the error: a profile, a run where nothing but its link changed, or the theory."""
    if asked.profile is not None:
        return ByProfile(plan, asked.profile)
    lent = asked.lent
    if lent is not None and (link.devices, link.size) == (lent.own.devices, lent.own.size):
        return lent.promising(plan)
    return ByTheory(plan)


def _reaching(asked: _Asked, link: LinkBudget, promise: Promise, accuracy: float | None) -> Reaching | None:
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


def _counted(what: str, of: int) -> Callable[[int, int], None]:
    """Return who logs now and then how many of so many predictions are done."""
    pace = Pace(of)
    return lambda done, of: pace.tell(done, _log.info, f"{what}: {done} of {of} predictions")


def _link(
    asked: _Asked,
    ratio: float | None,
    power: float | None,
    snr_db: float | None,
    devices: int | None,
    size: int | None,
) -> LinkBudget:
    """Return the link with what was given on the command line."""
    link = asked.link
    ratio = link.ratio if ratio is None else ratio
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio = {ratio}: must be a finite number > 0 and <= 1")
    size = link.size if size is None else size
    link = replace(link, size=size, rows=count(ratio, size))
    if asked.units is not None:  # a transmit power gives more energy to more symbols
        power = asked.units.power(link.rows)
    devices = link.devices if devices is None else devices
    link = replace(link, devices=devices, power=link.power if power is None else power)
    return link if snr_db is None else link.with_snr(from_decibel(snr_db))


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
