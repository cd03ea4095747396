"""What ``airfeel predict`` is asked: where it starts from, which options fit together, and the link."""

from dataclasses import dataclass, replace
from pathlib import Path

from airfeel import _checks
from airfeel.commands.run import load
from airfeel.config import Config, parse_override
from airfeel.experiments.studies.engineering import ByProfile
from airfeel.experiments.studies.lending import Lent, from_run
from airfeel.experiments.studies.planning import plan_of, units_of
from airfeel.experiments.studies.profiles import Profile, plan_for
from airfeel.experiments.studies.promise import ByTheory, Promising
from airfeel.radio.units import RadioUnits
from airfeel.simulation.assembly import energy
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.units import count, from_decibel


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What a prediction starts from: a configuration with its link and radio, a run, a profile."""

    config: Config
    plan: LinkPlan
    link: LinkBudget
    units: RadioUnits | None = None
    lent: Lent | None = None
    profile: Profile | None = None


def read_question(source: str, settings: list[str], profile: Profile | None) -> Asked:
    """Return plan and link of a configuration file or of the defaults, or of a run's folder and that run."""
    if source and Path(source).is_dir():
        if not (Path(source) / "rounds.jsonl").exists():
            raise ValueError(f"{source}: must be a configuration file or the folder of a run")
        if profile is not None:
            raise ValueError(
                f"--profile {profile.name}: must not be given with a run, which has its own gradients"
            )
        lent = from_run(Path(source), dict(parse_override(setting) for setting in settings))
        return Asked(lent.config, lent.plan, lent.link, lent.units, lent)
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
    return Asked(config, plan, link, units_of(config), None, profile)


def require_fitting(
    asked: Asked,
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


def forecast_for(asked: Asked, plan: LinkPlan, link: LinkBudget) -> Promising:
    """Return who foresees the error: a profile, a run where nothing but its link changed, or the theory."""
    if asked.profile is not None:
        return ByProfile(plan, asked.profile)
    lent = asked.lent
    if lent is not None and (link.devices, link.size) == (lent.own.devices, lent.own.size):
        return lent.promising(plan)
    return ByTheory(plan)


def link_of(
    asked: Asked,
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
