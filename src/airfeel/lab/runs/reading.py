"""What the folder of a run tells, read without importing or building anything that its files name.

Nothing is believed that is not what the run wrote: see :mod:`airfeel.lab.runs.manifest`, and what
that can find.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel._checks import visible
from airfeel.config import mistakes
from airfeel.config.identity import recorded_digest
from airfeel.lab.runs import files, manifest
from airfeel.lab.runs.manifest import CONFIG, MOST_COEFFICIENTS, ROUNDS, SUMMARY, TIMINGS, Damage
from airfeel.simulation.records import UNITS, Record

Array = NDArray[np.floating[Any]]
Row = dict[str, Any]

OTHERS = (ROUNDS, CONFIG, TIMINGS, manifest.NAME)  # what a finished run has beside its summary
_WORDS = ("airfeel", "kind", "scheme", "rounds_sha256", "status")  # what is text in summary or records

_log = logging.getLogger("airfeel")


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A complete run with intact files, each of which is read once.

    ``rows`` are its records as dictionaries, whatever kind of run it was; ``settings`` what it was started
    with, by dotted key, and ``toml`` the file that says so; ``verified`` whether a manifest vouches for all
    of it.
    """

    folder: Path
    summary: Row
    rows: Sequence[Row] = ()
    toml: str = ""
    settings: Row = field(default_factory=dict)
    timings: bytes = b""
    verified: bool = True

    @cached_property
    def seconds(self) -> dict[int, float]:
        """The seconds that each round took; empty where nobody noted them."""
        try:
            rows = [files.parse_json(line) for line in self.timings.splitlines()]
            return {int(row["round"]): float(row["seconds"]) for row in rows}
        except (ValueError, KeyError, TypeError, OverflowError):
            return {}

    @cached_property
    def records(self) -> list[Record]:
        """The records of a training run."""
        return _records(self.folder, self.rows)


class _Refused(Exception):
    """Carries damage out of a reading function."""

    def __init__(self, file: str, rule: str) -> None:
        super().__init__(rule)
        self.damage = Damage(file, rule)


def examine(path: Path) -> FinishedRun | Damage | None:
    """Return the run in ``path``, what is wrong with it, or None where it is not finished."""
    if not _present(path / SUMMARY):
        return None
    try:
        return _examine(path)
    except _Refused as refused:
        return refused.damage


def _examine(path: Path) -> FinishedRun:
    read = {name: _content(path, name) for name in (SUMMARY, ROUNDS, CONFIG)}
    read |= {name: _content(path, name) for name in (TIMINGS, manifest.NAME) if _present(path / name)}
    listed = read.pop(manifest.NAME, None)
    if listed is not None:
        digests = manifest.parse(listed)
        damage = digests if isinstance(digests, Damage) else manifest.compare(path, digests, read)
        if damage is not None:
            raise _Refused(damage.file, damage.rule)
    summary = _summary(read[SUMMARY])
    if summary.get("rounds_sha256") != manifest.sha256(read[ROUNDS]):
        raise _Refused(ROUNDS, f"is not what the run wrote, by its hash in {SUMMARY}")
    settings = _settings(path, read[CONFIG])
    rows = list(_rows(read[ROUNDS].splitlines()))
    if not rows:
        raise _Refused(ROUNDS, "holds no record")
    timings = read.get(TIMINGS, b"")
    return FinishedRun(path, summary, rows, read[CONFIG].decode(), settings, timings, listed is not None)


def finished(path: Path) -> dict[str, Any] | None:
    """Return the summary of the run in ``path`` if it is complete and its files are intact."""
    run = examine(path)
    return run.summary if isinstance(run, FinishedRun) else None


def not_verified(labels: Sequence[str]) -> list[str]:
    """Return one sentence about runs that no manifest vouches for, none where there are none."""
    if not labels:
        return []
    names = ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")
    return [visible(f"not verified, as there is no {manifest.NAME}: {names}")]


def left_out(label: str, damage: Damage | str) -> str:
    """Return the sentence about a finished run that is damaged."""
    return visible(f"{label}: {damage}; left out until airfeel run computes it again")


def read_rows(path: Path) -> list[Row]:
    """Return the lines of ``rounds.jsonl`` in ``path`` as dictionaries, whatever kind of run it was."""
    try:
        return list(_rows(line for line in files.read_lines(path / ROUNDS) if line.endswith(b"\n")))
    except _Refused as refused:
        raise files.RunError(f"{path / ROUNDS} {refused}") from None
    except OSError as error:
        raise files.RunError(f"{path / ROUNDS} {error.strerror}") from None


def read_records(path: Path) -> list[Record]:
    """Return the records of the run in ``path``, finished or not; half a line at the end is no record."""
    return _records(path, read_rows(path))


def checked_records(path: Path) -> list[Record]:
    """Return the same if the files of the run are intact, with a word where nobody can tell."""
    run = examine(path)
    if isinstance(run, Damage):
        raise files.RunError(f"{path / run.file} {run.rule}: airfeel run computes this run again")
    if run is None:
        _log.warning(f"{path} is not finished: what it holds so far is not verified")
        return read_records(path)
    for note in not_verified([] if run.verified else [path.name]):
        _log.warning(note)
    return run.records


def read_aggregate(path: Path, round: int) -> Array:
    """Return the true x of one round of the run in ``path``, recorded with ``run.record_aggregates``."""
    file = aggregate_file(path, round)
    archive = files.read_arrays(file, most=manifest.MOST_BYTES)
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


# --- one file each -----------------------------------------------------------------------------------------


def _present(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _content(path: Path, name: str) -> bytes:
    """Return the bytes of one file, of which there can be so many."""
    try:
        if name in (ROUNDS, TIMINGS):
            return b"".join(files.read_lines(path / name))
        return files.read_bytes(path / name, files.LIST if name == manifest.NAME else files.SETTINGS)
    except FileNotFoundError:
        raise _Refused(name, "is missing") from None
    except OSError as error:
        raise _Refused(name, error.strerror or str(error)) from None


def _summary(content: bytes) -> Row:
    """Return a few numbers by name; a study may say inf."""
    try:
        summary = files.parse_json(content)
    except ValueError as error:
        raise _Refused(SUMMARY, str(error)) from None
    if not isinstance(summary, dict):
        raise _Refused(SUMMARY, "is not a table of numbers")
    for key, value in summary.items():
        if not isinstance(value, str if key in _WORDS else bool | int | float | None):
            raise _Refused(SUMMARY, f"has no number as {key}")
    return summary


def _settings(path: Path, content: bytes) -> Row:
    """Return the settings by dotted key; the folder's name ends with their hash."""
    try:
        settings = mistakes.flatten(files.parse_toml(content))
        digest = recorded_digest(settings)
    except (ValueError, TypeError) as error:
        raise _Refused(CONFIG, str(error)) from None
    if not isinstance(settings.get("scheme"), str):
        raise _Refused(CONFIG, "names no scheme")
    if digest is None:
        raise _Refused(CONFIG, "does not say which keys were hashed: the table [identity] has no keys")
    if not path.resolve().name.endswith(f"-{digest}"):
        raise _Refused(CONFIG, f"has the hash {digest}, and the folder's name does not end with it")
    return settings


def _rows(lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield one dictionary per round: numbers by the same names in every line."""
    keys = None
    for place, line in enumerate(lines, start=1):
        try:
            row = files.parse_json(line)
        except ValueError as error:
            raise _Refused(ROUNDS, f"is damaged in line {place}: it {error}") from None
        keys = keys or (row.keys() if isinstance(row, dict) else None)
        if not isinstance(row, dict) or row.keys() != keys or type(row.get("round")) is not int:
            raise _Refused(ROUNDS, f"is damaged in line {place}: it is no record like the others")
        wrong = _not_numbers(row)
        if wrong:
            raise _Refused(ROUNDS, f"is damaged in line {place}: {wrong} is no number")
        yield row


def _not_numbers(row: Row) -> str:
    """Return the keys of a record that should have a number or None, and have something else."""
    numbers = {key: value for key, value in row.items() if value is not None and key != "status"}
    try:
        if all(map(math.isfinite, numbers.values())):  # the usual case, and the time that reading takes
            return "" if isinstance(row.get("status"), str | None) else "status"
    except (TypeError, OverflowError):
        pass
    return ", ".join(key for key, value in numbers.items() if not _finite(value))


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def _records(path: Path, rows: Sequence[Row]) -> list[Record]:
    known = [entry.name for entry in fields(Record)]
    lost = [name for name in known if rows and name not in rows[0] and name not in UNITS]
    if lost:
        raise files.RunError(
            f"{path / ROUNDS} has no {', '.join(lost)}: these are not the records of training"
        )
    return [Record(**{name: row[name] for name in known if name in row}) for row in rows]
