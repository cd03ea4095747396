"""What the folder of a run tells, read without importing or building anything that its files name."""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.config import mistakes
from airfeel.experiments.runs import files
from airfeel.simulation import Record

Array = NDArray[np.floating[Any]]
Row = dict[str, Any]

MOST_COEFFICIENTS = 2**28  # N of a recorded aggregate at most: 2 GiB in double precision
_AGGREGATE_BYTES = 8 * MOST_COEFFICIENTS + 2**16  # place and value of every coefficient, and headers

FILES = ("summary.json", "rounds.jsonl", "config.toml")


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A complete run with intact records; each of its files is read at most once.

    ``summary`` is what ``summary.json`` says, ``content`` the bytes of ``rounds.jsonl``.
    """

    folder: Path
    summary: Row
    content: bytes

    @cached_property
    def rows(self) -> list[Row]:
        """The records as dictionaries, whatever kind of run it was."""
        return [json.loads(line) for line in self.content.splitlines()]

    @cached_property
    def toml(self) -> str:
        """The text of ``config.toml``."""
        return files.read_text(self.folder / "config.toml")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What the run was started with, by dotted key; nothing of it is checked."""
        return mistakes.flatten(tomllib.loads(self.toml))

    @cached_property
    def seconds(self) -> dict[int, float]:
        """The seconds that each round took; empty where nobody noted them."""
        return read_seconds(self.folder)


def read_finished(path: Path) -> FinishedRun | None:
    """Return the run in ``path`` if it is complete and its records are intact."""
    try:
        summary = json.loads(files.read_text(path / "summary.json"))
        content = b"".join(files.read_lines(path / "rounds.jsonl"))
    except (OSError, ValueError):
        return None
    intact = isinstance(summary, dict) and summary.get("rounds_sha256") == hashlib.sha256(content).hexdigest()
    return FinishedRun(path, summary, content) if intact else None


def finished(path: Path) -> dict[str, Any] | None:
    """Return the summary of the run in ``path`` if it is complete and its records are intact."""
    run = read_finished(path)
    return None if run is None else run.summary


def read_rows(path: Path) -> list[Row]:
    """Return the lines of ``rounds.jsonl`` in ``path`` as dictionaries, whatever kind of run it was."""
    return [json.loads(line) for line in files.read_lines(path / "rounds.jsonl")]


def read_records(path: Path) -> list[Record]:
    """Return the records of the run in ``path``."""
    return [Record.from_json(line.decode()) for line in files.read_lines(path / "rounds.jsonl")]


def read_seconds(path: Path) -> dict[int, float]:
    """Return the seconds of each round of the run in ``path``; empty where they are missing or damaged."""
    try:
        rows = [json.loads(line) for line in files.read_lines(path / "timings.jsonl")]
        return {int(row["round"]): float(row["seconds"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def read_aggregate(path: Path, round: int) -> Array:
    """Return the true x of one round of the run in ``path``, recorded with ``run.record_aggregates``."""
    file = aggregate_file(path, round)
    archive = files.read_arrays(file, most=_AGGREGATE_BYTES)
    try:
        size, places = int(archive["size"]), archive["places"]
        if not 0 <= size <= MOST_COEFFICIENTS:
            raise files.refuse(file, f"promises {size} coefficients, more than {MOST_COEFFICIENTS}")
        aggregate = np.zeros(size)
        aggregate[places] = archive["values"]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise files.refuse(file, f"is not the aggregate of a round ({error})") from None
    return aggregate


def aggregate_file(path: Path, round: int) -> Path:
    """Return where the aggregate of a round is kept."""
    return path / "aggregates" / f"round-{round:06d}.npz"
