"""From a configuration or a finished run to a plan of its link, the link budget, and maps over many links."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, read_config
from airfeel.experiments.runs.files import RunError
from airfeel.experiments.runs.reading import checked_records
from airfeel.experiments.studies.methods import METHODS
from airfeel.learning.datasets import shape_of
from airfeel.simulation import Record
from airfeel.simulation.assembly import make_task
from airfeel.theory.planner import LinkBudget, LinkPlan, Method
from airfeel.theory.prediction import Prediction
from airfeel.units import count, decibel
from airfeel.workers import available_cores

Array = NDArray[np.floating[Any]]

MAP_SAMPLES, MAP_ROUNDS = 16_000, 40  # at most, per cell of a map: 144 cells should take about a minute


def from_config(config: Config) -> tuple[LinkPlan, LinkBudget]:
    """Return plan and link of a configuration, in the reference model of equal devices."""
    if config.channel.kind != "gaussian":
        rule = "what it costs is only known from a run: give the folder of one"
        raise ValueError(f"channel.kind = {config.channel.kind!r}: {rule}")
    return _plan(config)


def _plan(config: Config) -> tuple[LinkPlan, LinkBudget]:
    scheme, uplink = config.scheme_as("tsa_ga"), config.uplink
    plan = LinkPlan(ChainParams(scheme.activity, scheme.p01, scheme.beta), method_of(config))
    noise_var = getattr(config.channel, "noise_var", None) or 1.0
    size = make_task(config, shape_of(config.dataset)).size
    rows, devices = count(uplink.ratio, size), config.devices.count
    return plan, LinkBudget(size, rows, devices, uplink.power, noise_var)


def from_run(folder: Path, settings: dict[str, Any]) -> tuple[LinkPlan, LinkBudget]:
    """Return plan and link of a run: its learned chain, and the noise it really had (the link's excess).

    Chain and noise are medians over the second half of the rounds.
    """
    records = checked_records(folder)
    config = read_config(folder / "config.toml", settings)
    plan, reference = _plan(config)
    rounds = [r for r in records if r.noise_var]
    late = [r for r in rounds[len(rounds) // 2 :] if r.activity and r.variance]
    if not late:
        raise RunError(f"{folder} has no round in which chain parameters were in force: give them as options")
    chain = ChainParams(*(_median(late, name) for name in ("activity", "p01", "beta", "variance")))
    rows = rounds[0].symbols
    link = replace(reference, size=round(rows / config.uplink.ratio), rows=rows)
    noise = _median(late, "noise_var") / (chain.activity * chain.variance)
    return replace(plan, chain=replace(chain, variance=1.0)), replace(link, excess=noise * link.snr)


def method_of(config: Config) -> Method:
    """Return the recovery method a scheme stands for."""
    if config.scheme not in METHODS:
        rule = f"its error cannot be predicted, only that of {', '.join(METHODS)}"
        raise ValueError(f"scheme = {config.scheme!r}: {rule}")
    method = METHODS[config.scheme]
    known = method.denoiser is None
    message = config.scheme_as("tsa_ga").amplitude_message
    return replace(method, amplitude_message=message) if known else method


def budget(
    plan: LinkPlan, link: LinkBudget, prediction: Prediction, hold: str
) -> list[tuple[str, float | int | str]]:
    """Return the link budget as names and values."""
    kept = "energy per device and round" if hold == "energy" else "receive SNR per channel use"
    rows: list[tuple[str, float | int | str]] = [
        ("parameters N", link.size),
        ("channel uses per round s", link.rows),
        ("s/N", link.ratio),
        ("devices M", link.devices),
        ("energy per device and round P", link.power),
        ("energy per device and channel use", link.power / link.rows),
        (f"energy per device in {plan.rounds} rounds", link.power * plan.rounds),
        ("noise variance per channel use", link.channel_noise),
        ("excess noise over equal devices (dB)", decibel(link.excess)),
        ("receive SNR per channel use (dB)", decibel(link.snr)),
        ("steady-state NMSE (dB)", decibel(prediction.steady_nmse)),
        ("held fixed when s changes", kept),
    ]
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Steady-state NMSE in dB over bandwidth (rows of the array) and power (columns)."""

    ratios: Array
    powers: Array
    nmse_db: Array


def contour(
    plan: LinkPlan,
    link: LinkBudget,
    cells: int = 12,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Map:
    """Predict a map of ``cells`` x ``cells`` links around ``link``, on all cores.

    Bandwidth goes from a fifth of the link's to five times (at most s = N), power from 1/100 to 100 times.
    ``told`` hears how many cells are done.
    """
    ratios = np.geomspace(max(link.ratio / 5, 1 / link.size), min(1.0, 5 * link.ratio), cells)
    powers = np.geomspace(link.power / 100, link.power * 100, cells)
    plan = replace(plan, samples=min(plan.samples, MAP_SAMPLES), rounds=min(plan.rounds, MAP_ROUNDS))
    links = [
        replace(link, rows=count(ratio, link.size), power=float(power))
        for ratio in ratios
        for power in powers
    ]
    values = list(_in_processes(plan, links, told))
    return Map(ratios, powers, np.array(values).reshape(cells, cells))


def _in_processes(
    plan: LinkPlan, links: Sequence[LinkBudget], told: Callable[[int, int], None]
) -> list[float]:
    values = []
    with ProcessPoolExecutor(min(available_cores(), len(links)), mp_context=get_context("spawn")) as pool:
        for value in pool.map(plan.steady_db, links):
            values.append(value)
            told(len(values), len(links))
    return values


def _median(records: Sequence[Record], name: str) -> float:
    return float(np.median([getattr(record, name) for record in records]))
