"""A profile as JSON holds it, from the runs that measure it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import ChainParams
from airfeel.experiments.runs.reading import FinishedRun
from airfeel.experiments.studies.air_draws import draw_air
from airfeel.experiments.studies.profiles import between, plan_for
from airfeel.radio.fading import FadingMAC
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.theory.prediction import late
from airfeel.units import count, decibel, from_decibel

Array = NDArray[np.floating[Any]]
Facts = dict[str, Any]


def measure(about: str, size: int, runs: Sequence[FinishedRun]) -> Facts:
    """Return a profile as JSON holds it, from runs over several links, with the same seeds for each."""
    by_link: dict[tuple[float, float], list[FinishedRun]] = {}
    for run in runs:
        by_link.setdefault((run.settings["uplink.ratio"], run.settings["uplink.power"]), []).append(run)
    chain = ChainParams(*(_median(runs, key) for key in ("activity", "p01", "beta")))
    devices, rows = runs[0].settings["devices.count"], runs[0].rows
    reference = {key: LinkBudget(size, count(key[0], size), devices, key[1]) for key in by_link}
    excess = float(np.median([_noise(of) * reference[key].snr for key, of in by_link.items()]))
    plan, links = plan_for(chain), []
    for key, members in by_link.items():
        levels = [_steady(run) for run in members]
        links.append(
            {
                "ratio": key[0],
                "snr_db": round(decibel(reference[key].snr), 2),
                "predicted_db": round(plan.steady_db(replace(reference[key], excess=excess)), 3),
                "nmse_db": round(decibel(float(np.mean(levels))), 3),
                "accuracy": [[round(a, 4) for a in _column(run, "accuracy").tolist()] for run in members],
            }
        )
    return {
        "about": about,
        "size": size,
        "devices": devices,
        "sparsity": runs[0].settings["uplink.sparsity"],
        "chain": {key: float(f"{getattr(chain, key):.4g}") for key in ("activity", "p01", "beta")},
        "excess_db": round(decibel(excess), 2),
        "evaluated": [row["round"] for row in rows if row["accuracy"] is not None],
        "links": sorted(links, key=lambda link: float(link["nmse_db"])),
    }


def measure_others(facts: Facts, runs: Sequence[FinishedRun], others: Sequence[FinishedRun]) -> list[Facts]:
    """Return what changed with twice the devices, with fading, and with both, at the links of ``others``.

    ``facts`` are what :func:`measure` made of ``runs``. Every run of ``others`` is held against the one of
    the same link and seed, in the same rounds; what the noise of a fading channel is predicted to change is
    not counted. Over several seeds, the mean is taken.
    """
    links = []
    for ratio, snr_db in sorted({_link_of(run, facts) for run in others}):
        own = next(
            link for link in facts["links"] if (link["ratio"], round(link["snr_db"])) == (ratio, snr_db)
        )
        changes: dict[str, list[float]] = {}
        for run in others:
            if _link_of(run, facts) == (ratio, snr_db):
                change = _change_db(facts, own, _partner(run, runs, facts), run)
                changes.setdefault(_kind(run, facts), []).append(change)
        means = {key: round(float(np.mean(found)), 2) for key, found in sorted(changes.items())}
        links.append({"nmse_db": own["nmse_db"]} | means)
    return sorted(links, key=lambda link: float(link["nmse_db"]))


def _change_db(facts: Facts, own: Facts, before: FinishedRun, after: FinishedRun) -> float:
    """Return by how much a run was worse than its partner, beyond what its noise is predicted to do."""
    rounds = len(after.rows)
    measured = decibel(_steady(after)) - decibel(_steady(before, rounds))
    if not _fades(after):
        return measured
    devices, size = _devices(after), facts["size"]
    rows, power = count(after.settings["uplink.ratio"], size), after.settings["uplink.power"]
    link = LinkBudget(size, rows, devices, power, excess=from_decibel(float(facts["excess_db"])))
    plan: LinkPlan = plan_for(ChainParams(**facts["chain"]))
    said = replace(plan, air=draw_air(FadingMAC(), devices, rows, plan.rounds)).steady_db(link)
    known = sorted((one["predicted_db"], one["nmse_db"]) for one in facts["links"])
    return measured - (between(said, known) - float(own["nmse_db"]))


def _partner(run: FinishedRun, runs: Sequence[FinishedRun], facts: Facts) -> FinishedRun:
    """Return the profile's run over the same link with the same seed."""
    link, seed = _link_of(run, facts), run.settings["seed"]
    return next(one for one in runs if (_link_of(one, facts), one.settings["seed"]) == (link, seed))


def _kind(run: FinishedRun, facts: Facts) -> str:
    more = _devices(run) > facts["devices"]
    return ("both_db" if more else "silent_db") if _fades(run) else "doubled_db"


def _link_of(run: FinishedRun, facts: Facts) -> tuple[float, int]:
    """Return ratio and receive SNR in whole dB, that of a fading channel in the mean over its draws."""
    ratio, devices = run.settings["uplink.ratio"], _devices(run)
    rows = count(ratio, facts["size"])
    snr = LinkBudget(facts["size"], rows, devices, run.settings["uplink.power"]).snr
    if _fades(run):
        snr /= float(draw_air(FadingMAC(), devices, rows, 100).at(LinkBudget()).noise.mean())
    return ratio, round(decibel(snr))


def _fades(run: FinishedRun) -> bool:
    return bool(run.settings["channel.kind"] == "fading")


def _devices(run: FinishedRun) -> int:
    return int(run.settings["devices.count"])


def _steady(run: FinishedRun, rounds: int | None = None) -> float:
    """Return the mean NMSE of the last quarter of so many rounds."""
    return float(np.mean(from_decibel(late(_column(run, "nmse_db")[:rounds]))))


def _median(runs: Sequence[FinishedRun], key: str) -> float:
    """Return the median of what the receivers had learned in the second halves of the rounds."""
    rows = [row for run in runs for row in run.rows[len(run.rows) // 2 :]]
    return float(np.median([row[key] for row in rows if row[key] is not None]))


def _noise(runs: Sequence[FinishedRun]) -> float:
    """Return sigma^2 over the signal's power per measurement."""
    return _median(runs, "noise_var") / (_median(runs, "activity") * _median(runs, "variance"))


def _column(run: FinishedRun, key: str) -> Array:
    return np.array([row[key] for row in run.rows if row[key] is not None], dtype=float)
