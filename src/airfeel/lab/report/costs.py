"""What results cost: runs, rounds and seconds, as the run folders and the campaign say."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel import _files
from airfeel._timing import duration
from airfeel.lab.collect import Collected
from airfeel.lab.store import FinishedRun

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


def cost(runs: Sequence[FinishedRun]) -> Cost:
    """Return what these runs cost; one without timings counts no seconds."""
    seconds = [found for run in runs for found in run.seconds.values()]
    return Cost(len(runs), len(seconds), sum(seconds))


def cost_table(collected: Sequence[Collected]) -> Table:
    """Return one row per experiment, and a last one over all runs, each counted once."""
    rows = [["experiment", "runs", "rounds", "computing time", "seconds per round"]]
    everything: dict[FinishedRun, None] = {}
    for one in collected:
        runs = _runs(one)
        everything.update(dict.fromkeys(runs))
        rows.append([one.experiment.name, *cost(runs).cells()])
    if len(collected) > 1:
        rows.append(["all, shared runs counted once", *cost(list(everything)).cells()])
    return rows


def curve_cost_table(collected: Collected) -> Table:
    """Return one row per curve of an experiment."""
    rows = [["curve", "runs", "rounds", "computing time", "seconds per round"]]
    for curve in dict.fromkeys(line.curve for line in collected.lines):
        rows.append([curve, *cost(_runs(collected, curve)).cells()])
    return rows


def campaign(folder: Path) -> str:
    """Return in words how long the whole campaign took; empty where nobody noted it."""
    try:
        facts: dict[str, Any] = _files.parse_json(_files.read_text(folder / "campaign.json"))
        seconds, workers = float(facts["seconds"]), int(facts["workers"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return ""
    return f"computed in {duration(seconds)} by {workers} worker{'' if workers == 1 else 's'}"


def _runs(collected: Collected, curve: str | None = None) -> list[FinishedRun]:
    """Return each run once: curves and variants may share runs."""
    lines = [line for line in collected.lines if curve in (None, line.curve)]
    return list(dict.fromkeys(run for line in lines for run in line.runs.values()))
