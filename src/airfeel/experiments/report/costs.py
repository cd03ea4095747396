"""What results cost: runs, rounds and seconds, as the run folders and the campaign say."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel.experiments.campaigns.collect import Collected
from airfeel.experiments.runs import files
from airfeel.experiments.runs.progress import duration

Table = list[list[str]]


@dataclass(frozen=True, slots=True)
class Cost:
    """Runs, rounds and the seconds spent in them."""

    runs: int
    rounds: int
    seconds: float

    def cells(self) -> list[str]:
        """Return the numbers in words, seconds per round last."""
        each = f"{self.seconds / self.rounds:.3f}" if self.rounds else "-"
        return [str(self.runs), f"{self.rounds:,}", duration(self.seconds), each]


def cost(folders: Sequence[Path]) -> Cost:
    """Return what the runs in these folders cost; one without timings counts no seconds."""
    seconds = [found for folder in folders for found in _seconds(folder)]
    return Cost(len(folders), len(seconds), sum(seconds))


def cost_table(collected: Sequence[Collected]) -> Table:
    """Return one row per experiment, and a last one over all runs, each counted once."""
    rows = [["experiment", "runs", "rounds", "computing time", "seconds per round"]]
    everything: dict[Path, None] = {}
    for one in collected:
        folders = _folders(one)
        everything.update(dict.fromkeys(folders))
        rows.append([one.experiment.name, *cost(folders).cells()])
    if len(collected) > 1:
        rows.append(["all, shared runs counted once", *cost(list(everything)).cells()])
    return rows


def curve_cost_table(collected: Collected) -> Table:
    """Return one row per curve of an experiment."""
    rows = [["curve", "runs", "rounds", "computing time", "seconds per round"]]
    for curve in dict.fromkeys(line.curve for line in collected.lines):
        rows.append([curve, *cost(_folders(collected, curve)).cells()])
    return rows


def campaign(folder: Path) -> str:
    """Return in words how long the whole campaign took; empty where nobody noted it."""
    try:
        facts: dict[str, Any] = json.loads(files.read_text(folder / "campaign.json"))
        seconds, workers = float(facts["seconds"]), int(facts["workers"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return f"computed in {duration(seconds)} by {workers} worker{'' if workers == 1 else 's'}"


def _folders(collected: Collected, curve: str | None = None) -> list[Path]:
    """Return each folder once: curves and variants may share runs."""
    lines = [line for line in collected.lines if curve in (None, line.curve)]
    return list(dict.fromkeys(folder for line in lines for folder in line.folders.values()))


def _seconds(folder: Path) -> list[float]:
    try:
        return [float(json.loads(line)["seconds"]) for line in files.read_lines(folder / "timings.jsonl")]
    except (OSError, ValueError, KeyError):
        return []
