"""The folder of one run: it survives a kill at any moment and goes on where it was.

``rounds.jsonl`` grows by one line per round. A checkpoint remembers how long that file was and its hash; on a
new start the file is cut back to that point and the lost rounds are computed again, byte for byte the same.
"""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import airfeel
from airfeel.experiments.runs import checkpoint, files
from airfeel.simulation import Record

Array = NDArray[np.floating[Any]]
MOST_COEFFICIENTS = 2**28  # N of a recorded aggregate at most: 2 GiB in double precision
_AGGREGATE_BYTES = 8 * MOST_COEFFICIENTS + 2**16  # place and value of every coefficient, and headers


class Work(Protocol):
    """A unit of work: a frozen description with a folder of its own, done at most once."""

    @property
    def rounds(self) -> int:
        """How many lines its ``rounds.jsonl`` will have."""
        ...

    @property
    def scheme(self) -> str:
        """What is tried out."""
        ...

    def digest(self) -> str:
        """Return the hash of all that determines the result."""
        ...

    def label(self) -> str:
        """Return the name of its folder, which ends with the hash."""
        ...

    def to_toml(self) -> str:
        """Return the description as a file."""
        ...


@dataclass(slots=True)
class RunFolder:
    """Everything one run keeps on disk. Use it through :func:`open_run`, which holds the lock."""

    path: Path
    config: Work
    notes: list[str] = field(default_factory=list)

    @property
    def rounds(self) -> Path:
        """The records, one line of JSON per round, without wall times: equal runs are equal files."""
        return self.path / "rounds.jsonl"

    @property
    def timings(self) -> Path:
        """Seconds per round, one line of JSON each."""
        return self.path / "timings.jsonl"

    @property
    def checkpoint(self) -> Path:
        """The newest complete state."""
        return self.path / "checkpoint.npz"

    def reopen(self, forget: bool) -> None:
        """Prepare for computing: remove an untrue summary, and with ``forget`` all results."""
        leftovers = ["summary.json"]
        if forget:
            leftovers += ["checkpoint.npz", "checkpoint.npz.previous", "rounds.jsonl", "timings.jsonl"]
        with files.explained(self.path):
            for name in leftovers:
                (self.path / name).unlink(missing_ok=True)

    def restore(self) -> Any | None:
        """Return the newest trustworthy state, files cut back to its round; None: start at round 1."""
        with files.explained(self.path):
            for path in (self.checkpoint, checkpoint.previous(self.checkpoint)):
                state, round = self._trusted(path)
                if state is not None:
                    self.notes.append(f"continuing after round {round}")
                    return state
                # Gone for good: a bad file must never take the place of the previous good one.
                path.unlink(missing_ok=True)
            if self.rounds.exists() and self.rounds.stat().st_size:
                self.notes.append("no usable checkpoint: starting again at round 1")
            self._cut(0, 0)
        return None

    def append(self, line: str, round: int, seconds: float) -> None:
        """Add the record of one round and its duration."""
        with files.explained(self.path):
            files.append_line(self.rounds, line)
            files.append_line(self.timings, json.dumps({"round": round, "seconds": seconds}))

    def keep_aggregate(self, round: int, aggregate: Array) -> None:
        """Keep the true x of a round, nonzero entries only, in single precision."""
        content = io.BytesIO()
        places = np.flatnonzero(aggregate).astype(np.uint32)
        values = aggregate[places].astype(np.float32)
        np.savez_compressed(content, size=np.array(aggregate.size), places=places, values=values)
        with files.explained(self.path):
            (self.path / "aggregates").mkdir(exist_ok=True)
            files.write_atomically(aggregate_file(self.path, round), content.getvalue())

    def save(self, round: int, state: Any) -> None:
        """Write a checkpoint; what it refers to in ``rounds.jsonl`` is made durable first."""
        with files.explained(self.path):
            length = files.sync(self.rounds)
            facts = {
                "version": airfeel.__version__,
                "digest": self.config.digest(),
                "round": round,
                "length": length,
                "sha256": files.digest_start(self.rounds, length),
            }
            checkpoint.save(self.checkpoint, state, facts)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write ``summary.json``, the last thing a run does."""
        with files.explained(self.path):
            digest = files.digest_lines(self.rounds)
            text = json.dumps(summary | {"rounds_sha256": digest}, indent=2) + "\n"
            files.write_atomically(self.path / "summary.json", text.encode())
            checkpoint.previous(self.checkpoint).unlink(missing_ok=True)

    def _trusted(self, path: Path) -> tuple[Any, int]:
        """Return state and round of one checkpoint if it and the records before it are intact."""
        if not path.exists():
            return None, 0
        try:
            state, facts = checkpoint.load(path)
        except checkpoint.Damaged as error:
            self.notes.append(str(error))
            return None, 0
        if (facts["version"], facts["digest"]) != (airfeel.__version__, self.config.digest()):
            self.notes.append(f"{path} was written by airfeel {facts['version']}: not used")
            return None, 0
        if not self.rounds.exists() or files.digest_start(self.rounds, facts["length"]) != facts["sha256"]:
            self.notes.append(f"{self.rounds} is damaged before round {facts['round']}: {path.name} not used")
            return None, 0
        self._cut(facts["length"], facts["round"])
        return state, facts["round"]

    def _cut(self, length: int, round: int) -> None:
        """Shorten the records to ``length`` bytes and the timings to ``round`` rounds."""
        if self.rounds.exists():
            files.cut(self.rounds, length)
        if self.timings.exists():
            kept = islice(files.read_lines(self.timings), round)
            files.write_atomically(self.timings, b"".join(kept))


def run_path(config: Work, out: Path) -> Path:
    """Return the folder of a run, ``out/runs/<name>-<hash>``."""
    return out / "runs" / config.label()


@contextmanager
def open_run(config: Work, out: Path) -> Iterator[RunFolder]:
    """Open the folder of a run for this process alone."""
    path = run_path(config, out)
    with ExitStack() as stack:
        with files.explained(path):
            path.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(files.locked(path / ".lock", wait=False))
            except BlockingIOError:
                raise files.RunError(f"{path} is in use by another process: wait for it or stop it") from None
            for place in (path, path / "aggregates"):
                files.remove_leftovers(place)
            files.write_atomically(path / "config.toml", config.to_toml().encode())
        yield RunFolder(path, config)


def finished(path: Path) -> dict[str, Any] | None:
    """Return the summary of the run in ``path`` if it is complete and its records are intact."""
    try:
        summary = json.loads(files.read_text(path / "summary.json"))
        digest = files.digest_lines(path / "rounds.jsonl")
    except (OSError, ValueError):
        return None
    return summary if isinstance(summary, dict) and summary.get("rounds_sha256") == digest else None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the lines of ``rounds.jsonl`` in ``path`` as dictionaries, whatever kind of run it was."""
    return [json.loads(line) for line in files.read_lines(path / "rounds.jsonl")]


def read_records(path: Path) -> list[Record]:
    """Return the records of the run in ``path``."""
    return [Record.from_json(line.decode()) for line in files.read_lines(path / "rounds.jsonl")]


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
