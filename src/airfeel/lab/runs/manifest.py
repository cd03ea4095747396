"""The manifest of a finished run: the SHA-256 of each of its files.

It finds damage: a file that was edited, cut, lost, or taken from another run. It does not find forgery: who
edits a file can write its hash into the manifest too.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airfeel.lab.runs import files

NAME = "manifest.json"
SUMMARY, ROUNDS, CONFIG, TIMINGS = "summary.json", "rounds.jsonl", "config.toml", "timings.jsonl"
DERIVED = (SUMMARY, CONFIG, NAME)  # written anew from configuration and records
MOST_COEFFICIENTS = 2**28  # N of a recorded aggregate at most: 2 GiB in double precision
MOST_BYTES = 8 * MOST_COEFFICIENTS + 2**16  # of an aggregate: place and value of every coefficient, headers
_FORMAT = 1
_NO_HASHES = "does not hold the hashes of a run's files"


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a finished run: a file of it, and in which way."""

    file: str
    rule: str

    def __str__(self) -> str:
        return f"{self.file} {self.rule}"


def compose(path: Path, summary: bytes) -> bytes:
    """Return the manifest of the run in ``path``, whose ``summary.json`` will have the given content."""
    digests = {SUMMARY: sha256(summary), CONFIG: files.digest(path / CONFIG, files.SETTINGS)}
    digests |= {name: files.digest_lines(path / name) for name in (ROUNDS, TIMINGS) if (path / name).exists()}
    digests |= {name: files.digest(path / name, MOST_BYTES) for name in aggregates(path)}
    return _text(digests)


def parse(content: bytes) -> dict[str, str] | Damage:
    """Return the hashes by file, each of them below the run's folder."""
    try:
        tree = files.parse_json(content)
    except ValueError as error:
        return Damage(NAME, str(error))
    match tree:
        case {"format": int(version)} if version > _FORMAT:
            return Damage(NAME, f"has format {version}: this version of airfeel reads {_FORMAT}")
        case {"format": 1, "sha256": dict(digests)} if all(
            isinstance(digest, str) and _is_ours(name) for name, digest in digests.items()
        ):
            # To the byte: a blank too many, or true for 1, changes no hash, but no run wrote it.
            return digests if content == _text(digests) else Damage(NAME, "is not as a run writes it")
    return Damage(NAME, _NO_HASHES)


def compare(path: Path, digests: Mapping[str, str], read: Mapping[str, bytes]) -> Damage | None:
    """Return the first difference between a run's files and their hashes.

    ``read`` is what is known already; aggregates are read here, as nobody keeps them all in memory.
    """
    present = {*read, *aggregates(path)}
    # What costs most to mend comes first: it must not hide behind a file that is merely written anew.
    for name in sorted(present | digests.keys(), key=lambda name: (name in DERIVED, name)):
        if name not in present:
            return Damage(name, f"is listed in {NAME} and missing")
        if name not in digests:
            return Damage(name, f"is not listed in {NAME}")
        try:
            found = sha256(read[name]) if name in read else files.digest(path / name, MOST_BYTES)
        except OSError as error:
            return Damage(name, error.strerror or str(error))
        if found != digests[name]:
            return Damage(name, f"is not what the run wrote, by its hash in {NAME}")
    return None


def aggregates(path: Path) -> list[str]:
    """Return the recorded aggregates of a run by their names below its folder."""
    return sorted(f"aggregates/{file.name}" for file in (path / "aggregates").glob("round-*.npz"))


def _text(digests: Mapping[str, str]) -> bytes:
    text = json.dumps({"format": _FORMAT, "sha256": digests}, indent=1)
    return f"{text}\n".encode()


def sha256(content: bytes) -> str:
    """Return the hash as the manifest has it."""
    return hashlib.sha256(content).hexdigest()


def _is_ours(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return name in (SUMMARY, ROUNDS, CONFIG, TIMINGS) or (folder == "aggregates" and file.endswith(".npz"))
