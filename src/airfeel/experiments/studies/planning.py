"""From a configuration to a plan of its link, and the link budget."""

from dataclasses import replace

from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config
from airfeel.experiments.studies.air_draws import EVERYBODY, draw_air
from airfeel.experiments.studies.methods import METHODS
from airfeel.experiments.studies.promise import Promise
from airfeel.learning.datasets import shape_of
from airfeel.radio.units import RadioUnits
from airfeel.simulation.assembly import (
    energy,
    make_participation,
    make_task,
    make_units,
)
from airfeel.theory.planner import LinkBudget, LinkPlan, Method
from airfeel.units import count, decibel


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


def budget(link: LinkBudget, promise: Promise, hold: str) -> list[tuple[str, float | int | str]]:
    """Return the link budget as names and values."""
    rounds = len(promise.rounds)
    kept = "energy per device and round" if hold == "energy" else "receive SNR per channel use"
    rows: list[tuple[str, float | int | str]] = [
        ("parameters N", link.size),
        ("channel uses per round s", link.rows),
        ("s/N", link.ratio),
        ("devices M", link.devices),
        ("energy per device and round P", link.power),
        ("energy per device and channel use", link.power / link.rows),
        ("SNR of a device per symbol (dB)", decibel(link.device_snr)),
        (f"energy per device in {rounds} rounds", link.power * rounds),
        ("noise variance per channel use", link.channel_noise),
        ("excess noise over equal devices (dB)", decibel(link.excess)),
        ("receive SNR per channel use (dB)", decibel(link.snr)),
        ("steady-state NMSE (dB)", promise.steady_db),
        ("and its limits (dB)", f"{promise.best_db:.1f} to {promise.worst_db:.1f}"),
        ("held fixed when s changes", kept),
    ]
    return [row for row in rows if promise.best_db < promise.worst_db or "limits" not in row[0]]
