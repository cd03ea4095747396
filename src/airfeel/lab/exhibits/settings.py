"""With what the runs were computed: what all share, and in what curves, variants or groups differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airfeel.config import identity, mistakes
from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.exhibits.links import TITLE, level
from airfeel.lab.table import RunSelection, compared, differing


@EXHIBITS.register("settings", place=50)
def settings(shown: RunSelection) -> Iterator[TextTable]:
    """Settings of an experiment as its file has them, of single runs by group."""
    if shown.experiment is None:
        yield from _of_groups(shown)
        return
    experiment = shown.experiment
    shared = {"rounds": experiment.rounds, "seeds": list(experiment.seeds), **experiment.base}
    found = {
        "All runs": [["setting", "value"], *map(list, _readable(shared).items())],
        "Curves": _by_label(experiment.curves),
        "Variants": _by_label(experiment.variants),
        "Every combination of": [["setting", "values"], *map(list, _readable(experiment.grid).items())],
    }
    yield from (TextTable(title, rows, section="settings") for title, rows in found.items())


def _of_groups(shown: RunSelection) -> Iterator[TextTable]:
    """Yield the settings that all groups share and those in which they differ."""
    every, seeds = [], []
    for runs in shown.lines.values():
        snr = level(runs.values())
        every.append(compared(next(iter(runs.values())).settings) | ({TITLE: snr} if snr else {}))
        seeds.append(", ".join(sorted(map(str, runs), key=lambda seed: (len(seed), seed))))
    differ = differing(every)
    keys = sorted({key for of in every for key in of} - set(differ))
    shared = [[key, _word(every[0].get(key))] for key in keys]
    yield TextTable("All runs", [["setting", "value"], *shared], section="settings")
    rows = [
        [curve, of_seeds, *(_word(of.get(key)) for key in differ)]
        for (curve, _), of_seeds, of in zip(shown.lines, seeds, every, strict=True)
    ]
    yield TextTable("Each", [["run", "seeds", *differ], *rows], section="settings")


def _word(value: Any) -> str:
    return "" if value is None else str(value)


def _by_label(entries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    flat = [_readable(entry) for entry in entries]
    keys = list(dict.fromkeys(key for entry in flat for key in entry))
    return [keys, *([entry.get(key, "") for key in keys] for entry in flat)]


def _readable(tree: Mapping[str, Any]) -> dict[str, str]:
    """Return settings by dotted key as text; a multiple of another key in words."""
    found: dict[str, str] = {}
    for key, value in mistakes.flatten(tree).items():
        owner, _, last = key.rpartition(".")
        if last == "of":
            found[owner] = str(value)
        elif last == "times":
            found[owner] = f"{value} × {found[owner]}"
        elif value is not None:
            found[key] = value if isinstance(value, str) else identity.value(value)
    return found
