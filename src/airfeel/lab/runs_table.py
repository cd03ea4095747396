"""One row for each run: what it was, whether it is finished, what came out, what it cost."""

from __future__ import annotations  # imports for type checkers alone

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfeel import _files
from airfeel.lab import store
from airfeel.lab.csv_table import csv_table
from airfeel.lab.store import ROUNDS, FinishedRun

if TYPE_CHECKING:
    from airfeel.lab.folder import ResultsFolder

Row = dict[str, Any]

NAME = "runs.csv"
FIRST = ("run", "status", "rounds", "final_accuracy", "best_accuracy", "seconds")
_LAST = 10  # the final accuracy is the mean over so great a part of the rounds, as in the report


def list_runs(results: ResultsFolder) -> list[Row]:
    """Return every run of a folder, finished or not, with all keys of its configuration by dotted name.

    ``status`` is finished, unfinished or damaged; only a finished run has settings and results.
    """
    return [_row(results, label) for label in results.labels()]


def write_runs(results: ResultsFolder) -> Path:
    """Write ``runs.csv`` into a results folder."""
    rows, path = list_runs(results), results.path / NAME
    heading = columns(rows)
    table = csv_table([heading, *([row.get(key) for key in heading] for row in rows)])
    with store.explained(results.path):
        _files.write_atomically(path, table)
    return path


def _row(results: ResultsFolder, label: str) -> Row:
    run = results.run(label)
    if run is None:
        status = "damaged" if results.damage(label) else "unfinished"
        return {"run": label, "status": status, "rounds": _rounds(results.path / "runs" / label / ROUNDS)}
    accuracies = [row["accuracy"] for row in run.rows if row.get("accuracy") is not None]
    found = {"run": label, "status": "finished", "rounds": len(run.rows)}
    found |= {"final_accuracy": final(accuracies), "best_accuracy": max(accuracies, default=None)}
    settings = {key: value for key, value in run.settings.items() if not key.startswith("identity.")}
    return {**settings, **found, "seconds": _seconds(run)}


def final(values: Sequence[float]) -> float | None:
    """Return the mean of the last tenth of the values, of one at least; None where there are none."""
    last = values[len(values) - math.ceil(len(values) / _LAST) :]
    return math.fsum(last) / len(last) if last else None


def _seconds(run: FinishedRun) -> float | None:
    return round(math.fsum(run.seconds.values()), 3) if run.seconds else None


def _rounds(path: Path) -> int:
    """Count the records of a run that is not finished."""
    try:
        return sum(line.endswith(b"\n") for line in _files.read_lines(path))
    except OSError:
        return 0


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of a table in the order of the file: results first, then keys."""
    return [*FIRST, *sorted({key for row in rows for key in row} - set(FIRST))]
