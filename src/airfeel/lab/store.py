"""What the folder of a run tells, read without importing or building anything that its files name.

A finished run has a manifest: the SHA-256 of each of its files. It finds damage: a file that was edited, cut,
lost, or taken from another run. It does not find forgery: who edits a file can write its hash into the
manifest too. Nothing is believed that is not what the run wrote.
"""

import hashlib
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _files
from airfeel._checks import visible
from airfeel.config import mistakes
from airfeel.config.identity import recorded_digest
from airfeel.registry import SEAMS
from airfeel.simulation.records import IF_THERE, Record

Array = NDArray[np.floating[Any]]
Row = dict[str, Any]
Stamp = tuple[int, ...]

SUMMARY, ROUNDS, CONFIG, TIMINGS = "summary.json", "rounds.jsonl", "config.toml", "timings.jsonl"
MANIFEST = "manifest.json"
OTHERS = (ROUNDS, CONFIG, TIMINGS, MANIFEST)  # what a finished run has beside its summary
DERIVED = (SUMMARY, CONFIG, MANIFEST)  # written anew from configuration and records
MOST_COEFFICIENTS = 2**28  # N of a recorded aggregate at most: 2 GiB in double precision
MOST_BYTES = 8 * MOST_COEFFICIENTS + 2**16  # of an aggregate: place and value of every coefficient, headers
WITHOUT_RADIO = ("dense", "error_free")  # schemes that others are held against, the first that is there
_WORDS = ("airfeel", "kind", "scheme", "rounds_sha256", "status")  # what is text in summary or records

log = logging.getLogger("airfeel")


class RunError(Exception):
    """A run cannot go on for a reason the user can mend; the message is one clear sentence."""

    exit_code = 2


class Damage(Exception):
    """What is wrong with a finished run: a file of it, and in which way."""

    def __init__(self, file: str, rule: str) -> None:
        super().__init__(f"{file} {rule}")
        self.file, self.rule = file, rule


class RecordColumns:
    """The records of a run, kept in columns: a small part of the memory that dictionaries take.

    Every record is given back as it was: whole numbers and fractions are kept apart, and NaN, which no record
    can hold, stands for None among fractions.
    """

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        keys = dict.fromkeys(key for row in rows for key in row)
        self._length = len(rows)
        self._columns = {key: _packed([row.get(key) for row in rows]) for key in keys}

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Row]:
        values = zip(*map(_unpacked, self._columns.values()), strict=True)
        return (dict(zip(self._columns, of, strict=True)) for of in values)

    def __getitem__(self, place: int) -> Row:
        return {key: _unpacked(of[place : place + 1 or None])[0] for key, of in self._columns.items()}

    @property
    def keys(self) -> Iterable[str]:
        """The names of the columns."""
        return self._columns.keys()

    def values(self, key: str) -> list[Any]:
        """Return a column, None in it for what there is not."""
        return _unpacked(self._columns[key]) if key in self._columns else [None] * len(self)

    def numbers(self, key: str) -> NDArray[np.float64]:
        """Return a column of numbers, NaN in it for what there is not."""
        found = self._columns.get(key)
        return np.full(len(self), np.nan) if found is None else np.asarray(found, dtype=float)


def _packed(values: list[Any]) -> NDArray[Any]:
    kinds = set(map(type, values))
    if kinds == {int} and -(2**63) <= min(values) <= max(values) < 2**63:
        return np.array(values, dtype=np.int64)
    if kinds <= {float, NoneType}:
        return np.array(values, dtype=float)
    return np.array([sys.intern(value) if type(value) is str else value for value in values], dtype=object)


def _unpacked(column: NDArray[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    return [None if value != value else value for value in values] if column.dtype == float else values


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A complete run with intact files, each of which is read once.

    ``rows`` are its records, whatever kind of run it was; ``settings`` what it was started with, by dotted
    key.
    """

    folder: Path
    summary: Row
    rows: RecordColumns = field(default_factory=RecordColumns)
    settings: Row = field(default_factory=dict)
    timings: bytes = b""

    @cached_property
    def seconds(self) -> dict[int, float]:
        """The seconds that each round took; empty where nobody noted them."""
        try:
            rows = [_files.parse_json(line) for line in self.timings.splitlines()]
            return {int(row["round"]): float(row["seconds"]) for row in rows}
        except (ValueError, KeyError, TypeError, OverflowError):
            return {}

    def is_like(self, ideal: "FinishedRun") -> bool:
        """Whether it has every setting that decided on a run without radio, but for the scheme."""
        keys = set(ideal.settings["identity.keys"]) - {"scheme", "run.record_aggregates"}
        return all(ideal.settings.get(key) == self.settings.get(key) for key in keys)

    @cached_property
    def records(self) -> list[Record]:
        """The records of a training run."""
        return _records(self.folder, list(self.rows))


# --- a whole run -------------------------------------------------------------------------------------------


def examine(path: Path) -> FinishedRun | Damage | None:
    """Return the run in ``path``, what is wrong with it, or None where it is not finished."""
    if not os.path.lexists(path / SUMMARY):
        return None
    try:
        read = {name: _content(path, name) for name in (SUMMARY, *OTHERS)}
        _compare(path, read.pop(MANIFEST), read)
        summary = _summary(read[SUMMARY])
        settings = _settings(path, read[CONFIG])
        rows = RecordColumns(list(_rows(read[ROUNDS].splitlines())))
    except Damage as damage:
        return damage
    if not rows:
        return Damage(ROUNDS, "holds no record")
    return FinishedRun(path, summary, rows, settings, read[TIMINGS])


def finished(path: Path) -> dict[str, Any] | None:
    """Return the summary of the run in ``path`` if it is complete and its files are intact."""
    run = examine(path)
    return run.summary if isinstance(run, FinishedRun) else None


def left_out(label: str, damage: Damage | str) -> str:
    """Return the sentence about a finished run that is damaged."""
    return visible(f"{label}: {damage}; left out until airfeel run computes it again")


def read_rows(path: Path) -> list[Row]:
    """Return the lines of ``rounds.jsonl`` in ``path`` as dictionaries, whatever kind of run it was."""
    try:
        return list(_rows(line for line in _files.read_lines(path / ROUNDS) if line.endswith(b"\n")))
    except Damage as damage:
        raise RunError(f"{path / ROUNDS} {damage.rule}") from None
    except OSError as error:
        raise RunError(f"{path / ROUNDS} {error.strerror}") from None


def read_records(path: Path) -> list[Record]:
    """Return the records of the run in ``path``, finished or not; half a line at the end is no record."""
    return _records(path, read_rows(path))


def count_records(path: Path) -> int:
    """Return how many whole lines ``rounds.jsonl`` in ``path`` has; 0 where it cannot be read."""
    try:
        return sum(line.endswith(b"\n") for line in _files.read_lines(path / ROUNDS))
    except OSError:
        return 0


def checked_records(path: Path) -> list[Record]:
    """Return the same if the files of the run are intact, with a word where nobody can tell."""
    run = examine(path)
    if isinstance(run, Damage):
        raise RunError(f"{path / run.file} {run.rule}: airfeel run computes this run again")
    if run is None:
        log.warning(f"{path} is not finished: what it holds so far is not verified")
        return read_records(path)
    return run.records


def stamp(*paths: Path, others: Sequence[Path] = ()) -> Stamp | None:
    """Return what changes whenever a file is written anew; None where one is missing that is in ``paths``."""
    found: list[int] = []
    for path in (*paths, *others):
        try:
            found += _files.version(path)
        except OSError:
            if path in paths:
                return None
            found += (0, 0, 0)
    return tuple(found)


# --- one file each -----------------------------------------------------------------------------------------


def compose_manifest(path: Path, summary: bytes) -> bytes:
    """Return the manifest of the run in ``path``, whose ``summary.json`` will have the given content."""
    names = [CONFIG, ROUNDS, TIMINGS, *aggregates(path)]
    digests = {SUMMARY: hashlib.sha256(summary).hexdigest()}
    return _manifest(digests | {name: _files.digest(path / name) for name in names})


def _manifest(digests: Mapping[str, str]) -> bytes:
    return (json.dumps({"format": 1, "sha256": digests}, indent=1) + "\n").encode()


def _compare(path: Path, manifest: bytes, read: Mapping[str, bytes]) -> None:
    """Refuse the first difference between a run's files and their hashes.

    ``read`` is what is known already; aggregates are read here, as nobody keeps them all in memory.
    """
    try:
        digests = dict(_files.parse_json(manifest)["sha256"])
    except (ValueError, KeyError, TypeError):
        raise Damage(MANIFEST, "does not hold the hashes of a run's files") from None
    if manifest != _manifest(digests):  # a blank too many changes no hash, but no run wrote it
        raise Damage(MANIFEST, "is not as this version of airfeel writes it")
    present = {*read, *aggregates(path)}
    # What costs most to mend comes first: it must not hide behind a file that is merely written anew.
    for name in sorted(present | digests.keys(), key=lambda name: (name in DERIVED, name)):
        if name not in present:
            raise Damage(name, f"is listed in {MANIFEST} and missing")
        if name not in digests:
            raise Damage(name, f"is not listed in {MANIFEST}")
        try:
            if name in read:
                found = hashlib.sha256(read[name]).hexdigest()
            else:
                found = _files.digest(path / name, MOST_BYTES)
        except OSError as error:
            raise Damage(name, error.strerror or str(error)) from None
        if found != digests[name]:
            raise Damage(name, f"is not what the run wrote, by its hash in {MANIFEST}")


def aggregates(path: Path) -> list[str]:
    """Return the recorded aggregates of a run by their names below its folder."""
    return sorted(f"aggregates/{file.name}" for file in (path / "aggregates").glob("round-*.npz"))


def aggregate_file(path: Path, round: int) -> Path:
    """Return where the aggregate of a round is kept."""
    return path / "aggregates" / f"round-{round:06d}.npz"


def read_aggregate(path: Path, round: int) -> Array:
    """Return the true x of one round of the run in ``path``, recorded with ``run.record_aggregates``."""
    file = aggregate_file(path, round)
    archive = _files.read_arrays(file, most=MOST_BYTES)
    try:
        size, places = int(archive["size"]), archive["places"]
        if not 0 <= size <= MOST_COEFFICIENTS:
            raise _files.refuse(file, f"promises {size} coefficients, more than {MOST_COEFFICIENTS}")
        aggregate = np.zeros(size)
        aggregate[places] = archive["values"]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise _files.refuse(file, f"is not the aggregate of a round ({error})") from None
    return aggregate


def _content(path: Path, name: str) -> bytes:
    """Return the bytes of one file, of which there can be so many."""
    try:
        if name in (ROUNDS, TIMINGS):
            return b"".join(_files.read_lines(path / name))
        return _files.read_bytes(path / name, _files.LIST if name == MANIFEST else _files.SETTINGS)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise Damage(name, "is missing" if missing else error.strerror or str(error)) from None


def _summary(content: bytes) -> Row:
    """Return a few numbers by name; a study may say inf."""
    try:
        summary = _files.parse_json(content)
    except ValueError as error:
        raise Damage(SUMMARY, str(error)) from None
    if not isinstance(summary, dict):
        raise Damage(SUMMARY, "is not a table of numbers")
    for key, value in summary.items():
        if not isinstance(value, str if key in _WORDS else bool | int | float | None):
            raise Damage(SUMMARY, f"has no number as {key}")
    return summary


def _settings(path: Path, content: bytes) -> Row:
    """Return the settings by dotted key; the folder's name ends with their hash."""
    try:
        settings = mistakes.flatten(_files.parse_toml(content))
        digest = recorded_digest(settings)
    except (ValueError, TypeError) as error:
        raise Damage(CONFIG, str(error)) from None
    if not isinstance(settings.get("scheme"), str):
        raise Damage(CONFIG, "names no scheme")
    if digest is None:
        raise Damage(CONFIG, "does not say which keys were hashed: the table [identity] has no keys")
    if not path.resolve().name.endswith(f"-{digest}"):
        raise Damage(CONFIG, f"has the hash {digest}, and the folder's name does not end with it")
    return settings


def _rows(lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield one dictionary per round: finite numbers by the same names in every line."""

    def fits(key: str, value: Any) -> bool:
        if value is None or key == "status":
            return isinstance(value, str | None)
        return type(value) in (bool, int, float) and abs(value) <= sys.float_info.max

    keys = None
    for place, line in enumerate(lines, start=1):
        try:
            row = _files.parse_json(line)
        except ValueError as error:
            raise Damage(ROUNDS, f"is damaged in line {place}: it {error}") from None
        keys = keys or (row.keys() if isinstance(row, dict) else None)
        if not isinstance(row, dict) or row.keys() != keys or type(row.get("round")) is not int:
            raise Damage(ROUNDS, f"is damaged in line {place}: it is no record like the others")
        if wrong := [key for key, value in row.items() if not fits(key, value)]:
            raise Damage(ROUNDS, f"is damaged in line {place}: {', '.join(wrong)} is no number")
        yield row


def _records(path: Path, rows: Sequence[Row]) -> list[Record]:
    known = [entry.name for entry in fields(Record)]
    lost = [name for name in known if rows and name not in rows[0] and name not in IF_THERE]
    if lost:
        raise RunError(f"{path / ROUNDS} has no {', '.join(lost)}: these are not the records of training")
    return [Record(**{name: row[name] for name in known if name in row}) for row in rows]


# --- trouble with files, and what has changed --------------------------------------------------------------


@contextmanager
def explained(
    folder: Path,
    what: str = "write to",
    kept: str = "what was saved before is kept, and the same command continues from there",
) -> Iterator[None]:
    """Turn a full disk, a read-only folder, a file that cannot be read and their like into one sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, _files.Unreadable) and not isinstance(error, _files.Unwritable):
            raise RunError(str(error)) from error
        reason = error.strerror or str(error)
        place = error.filename2 or error.filename or folder  # the second is what a rename was to make
        raise RunError(f"cannot {what} {place}: {reason}; {kept}") from error


def changed_since(path: Path, toml: str) -> tuple[list[str], list[str]]:
    """Return what has another digest now than in ``path`` (``config.toml``), none where that cannot be read.

    These are sentences about parts whose source was edited, and keys with the files that they name.
    """
    try:
        before = _versions(mistakes.flatten(_files.parse_toml(_files.read_text(path))))
    except (OSError, ValueError):
        return [], []
    after = _versions(mistakes.flatten(_files.parse_toml(toml)))
    changed = [place for place, digest in after.items() if before.get(place, digest) != digest]
    rule = "was edited since this run was begun: raise its revision if results change"
    edited = [f"the source of {part} {rule}" for kind, part in changed if kind == "source"]
    return edited, [file for kind, file in changed if kind == "content"]


def edited_between(every: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence about each part or file that runs with these settings do not share in one version."""
    versions: dict[tuple[str, str], set[str]] = {}
    for settings in every:
        for place, digest in _versions(settings).items():
            versions.setdefault(place, set()).add(digest)
    verbs = {"source": "edited", "content": "changed"}
    return [
        f"the {kind} of {name} was {verbs[kind]} between runs that are shown together ({len(found)} versions)"
        for (kind, name), found in versions.items()
        if len(found) > 1
    ]


def _versions(settings: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return the digests in the table [identity]: of own parts' sources, and of files that options name."""
    keys = {f"identity.source.{name}": ("source", registry.key) for name, registry in SEAMS.items()}
    start = "identity.content."
    keys |= {key: ("content", key.removeprefix(start)) for key in settings if key.startswith(start)}
    return {
        (kind, f"{key} = {settings.get(key)!r}"): str(settings[place])
        for place, (kind, key) in keys.items()
        if place in settings
    }


def count_endings(statuses: Iterable[str | None]) -> tuple[int, int, int]:
    """Return how many rounds diverged, hit the iteration limit, and had a receiver's report at all.

    What the records call silent is a round in which nothing was heard.

    >>> count_endings(["converged", "diverged", "iteration limit", "silent", "diverged"])
    (2, 1, 4)
    """
    found = [status for status in statuses if status not in (None, "silent")]
    return found.count("diverged"), found.count("iteration limit"), len(found)


def ending_facts(statuses: Iterable[str | None]) -> dict[str, int | None]:
    """Return the counts as ``summary.json`` has them: None for a scheme without a receiver."""
    diverged, limited, rounds = count_endings(statuses)
    counted = {"rounds_diverged": diverged, "rounds_at_limit": limited}
    return {key: count if rounds else None for key, count in counted.items()}
