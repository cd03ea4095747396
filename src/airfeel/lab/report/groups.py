"""Runs that belong to no experiment: those that differ only in their seed become one curve."""

from __future__ import annotations  # imports for type checkers alone

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airfeel._checks import visible
from airfeel.lab.report.link_level import TITLE, level
from airfeel.lab.store import FinishedRun, left_out, not_verified
from airfeel.registry import SCHEMES

if TYPE_CHECKING:
    from airfeel.lab.folder import ResultsFolder


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs that differ in nothing but the seed, and the words that tell them from the other groups."""

    label: str
    runs: Sequence[FinishedRun]


def read_runs(results: ResultsFolder, elsewhere: Collection[str] = ()) -> tuple[list[FinishedRun], list[str]]:
    """Return the finished training runs of a folder and a sentence about each run left out or not verified.

    Folders whose names are in ``elsewhere`` are shown elsewhere; they are named only where they are damaged
    or not verified.
    """
    found = {label: results.run(label) for label in results.labels()}
    notes = [left_out(label, damage) for label in found if (damage := results.damage(label))]
    if not any(found.values()):
        nothing = f"{results.path}: has no finished run under {results.path / 'runs'}"
        raise ValueError("\n".join([nothing, *notes]))
    runs = []
    for label, run in found.items():
        if label in elsewhere or results.damage(label):
            continue
        if run is None:
            notes.append(visible(f"{label}: not finished, left out"))
        elif "kind" in run.summary:
            study = f"a study ({run.summary['kind']}) of no known experiment"
            notes.append(visible(f"{label}: {study}, left out"))
        else:
            runs.append(run)
    doubtful = [label for label, run in found.items() if run is not None and not run.verified]
    return runs, notes + not_verified(doubtful)


def group_runs(runs: Iterable[FinishedRun]) -> list[Group]:
    """Put runs together that differ only in their seed, in order of the labels, which name what differs."""
    groups: dict[str, tuple[dict[str, Any], list[FinishedRun]]] = {}
    for run in runs:
        settings = _compared(run)
        groups.setdefault(json.dumps(settings, sort_keys=True, default=str), (settings, []))[1].append(run)
    every = [settings for settings, _ in groups.values()]
    named = [Group(_label(settings, every), members) for settings, members in groups.values()]
    order = {name: place for place, name in enumerate(SCHEMES.names())}
    return sorted(
        named, key=lambda group: (order.get(group.runs[0].settings["scheme"], len(order)), group.label)
    )


def settings_tables(groups: Sequence[Group]) -> list[tuple[str, list[list[str]]]]:
    """Return, under a title each, the settings that all groups share and those in which they differ."""
    every = [_compared(group.runs[0]) | _level(group) for group in groups]
    keys = sorted({key for settings in every for key in settings})
    differ = [key for key in keys if len({repr(settings.get(key)) for settings in every}) > 1]
    shared = [[key, _word(every[0].get(key))] for key in keys if key not in differ]
    rows = [
        [group.label, ", ".join(_seeds(group))] + [_word(settings.get(key)) for key in differ]
        for group, settings in zip(groups, every, strict=True)
    ]
    found = [("All runs", [["setting", "value"], *shared])] if shared else []
    return [*found, ("Each", [["run", "seeds", *differ], *rows])]


def _level(group: Group) -> dict[str, str]:
    """Return the SNR that belongs to the P of runs, where they tell."""
    found = level(group.runs)
    return {TITLE: found} if found else {}


def _seeds(group: Group) -> list[str]:
    """Return the seeds in their order, as text: a file may hold anything."""
    return sorted((str(run.settings.get("seed")) for run in group.runs), key=lambda seed: (len(seed), seed))


def _word(value: Any) -> str:
    return "" if value is None else str(value)


def _compared(run: FinishedRun) -> dict[str, Any]:
    """Return the settings that two runs must share to be averaged: those that determined the result."""
    return {key: run.settings.get(key) for key in run.settings["identity.keys"] if key != "seed"}


def _label(settings: Mapping[str, Any], every: Sequence[Mapping[str, Any]]) -> str:
    """Return the scheme, and the values of those keys in which runs of the same scheme differ."""
    same = [other for other in every if other["scheme"] == settings["scheme"]]
    keys = sorted({key for other in same for key in other})
    differ = [key for key in keys if len({repr(other.get(key)) for other in same}) > 1]
    return ", ".join([str(settings["scheme"]), *(f"{key} = {settings.get(key)}" for key in differ)])
