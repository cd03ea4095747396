"""The folder of one run: it survives a kill at any moment and goes on where it was.

``rounds.jsonl`` grows by one line per round. A checkpoint remembers how long that file was and its hash; on a
new start the file is cut back to that point and the lost rounds are computed again, byte for byte the same.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import airfeel
from airfeel.lab.runs import checkpoint, files, manifest
from airfeel.lab.runs.manifest import Damage
from airfeel.lab.runs.reading import aggregate_file, read_aggregate
from airfeel.lab.runs.sources import edited_since, refilled_since
from airfeel.lab.runs.work import Described

Array = NDArray[np.floating[Any]]

_FACTS = {"version": str, "digest": str, "round": int, "length": int, "sha256": str}  # of a checkpoint


@dataclass(slots=True)
class RunFolder:
    """Everything one run keeps on disk. Use it through :func:`open_run`, which holds the lock."""

    path: Path
    config: Described
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

    def reopen(self, forget: bool, damage: Damage | None = None) -> None:
        """Prepare for computing: remove an untrue summary, and with ``forget`` all results.

        ``damage`` is what was found in a run that had been finished. A checkpoint vouches for the records
        only: where other results are damaged, or nobody can tell, the run starts from nothing.
        """
        aggregates = manifest.aggregates(self.path)
        if damage is not None:
            self.notes.append(f"{self.path / damage.file} {damage.rule}: the run is computed again")
            untold = damage.file == manifest.NAME and bool(aggregates)
            forget = forget or untold or damage.file not in (*manifest.DERIVED, manifest.ROUNDS)
        leftovers = [manifest.SUMMARY, manifest.NAME]  # the summary first: without it, no run is finished
        if forget:
            leftovers += ["checkpoint.npz", "checkpoint.npz.previous", manifest.ROUNDS, manifest.TIMINGS]
            leftovers += aggregates
        with files.explained(self.path):
            for name in leftovers:
                files.discard(self.path / name)
            files.write_atomically(self.path / manifest.CONFIG, self.config.to_toml().encode())

    def restore(
        self,
        trusted: Sequence[str] = (),
        revived: Callable[[Any, int], Any | None] = lambda state, round: state,
        aggregates: bool = False,
    ) -> Any | None:
        """Return the newest trustworthy state, files cut back to its round; None: start at round 1.

        Parameters
        ----------
        trusted
            The modules beside airfeel whose dataclasses the state may hold.
        revived
            Given what a checkpoint holds and its round, returns the state of this run, or None where that
            cannot be it; raises :class:`checkpoint.Damaged` where something that belongs to it is damaged.
        aggregates
            Whether the run keeps those of all rounds, so that they must be whole.
        """
        with files.explained(self.path):
            for path in (self.checkpoint, checkpoint.previous(self.checkpoint)):
                state, round = self._intact(path, trusted, revived)
                if state is not None and aggregates and (lost := self._lost(round)):
                    self.notes.append(f"{lost}: {path.name} not used")
                    state = None
                if state is not None:
                    self.notes.append(f"continuing after round {round}")
                    return state
                # Gone for good: a bad file must never take the place of the previous good one.
                files.discard(path)
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
            files.below(self.path, "aggregates").mkdir(exist_ok=True)
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
        """Write ``manifest.json`` and, as the last thing a run does, ``summary.json``."""
        with files.explained(self.path):
            files.discard(checkpoint.previous(self.checkpoint))  # before there is a finished run to have it
            digest = files.digest_lines(self.rounds)
            text = (json.dumps(summary | {"rounds_sha256": digest}, indent=2) + "\n").encode()
            # In this order a run that has its summary, and so is finished, has its manifest too.
            files.write_atomically(self.path / manifest.NAME, manifest.compose(self.path, text))
            files.write_atomically(self.path / manifest.SUMMARY, text)

    def _intact(
        self, path: Path, trusted: Sequence[str], revived: Callable[[Any, int], Any | None]
    ) -> tuple[Any, int]:
        """Return state and round of one checkpoint if it and the records before it are intact."""
        if not path.exists():
            return None, 0
        try:
            state, facts = checkpoint.load(path, trusted)
        except checkpoint.Damaged as error:
            self.notes.append(str(error))
            return None, 0
        if {name: type(fact) for name, fact in facts.items()} != _FACTS:
            self.notes.append(f"{path} is no checkpoint of this version: not used")
            return None, 0
        if (facts["version"], facts["digest"]) != (airfeel.__version__, self.config.digest()):
            self.notes.append(f"{path} was written by airfeel {facts['version']}: not used")
            return None, 0
        possible = 0 < facts["round"] <= self.config.rounds
        try:
            state = revived(state, facts["round"]) if possible else None
        except checkpoint.Damaged as error:
            self.notes.append(f"{error}: {path.name} not used")
            return None, 0
        if state is None:
            self.notes.append(f"{path} does not hold the state of this run: not used")
            return None, 0
        if not self._holds(facts["length"], facts["sha256"]):
            self.notes.append(f"{self.rounds} is damaged before round {facts['round']}: {path.name} not used")
            return None, 0
        self._cut(facts["length"], facts["round"])
        return state, facts["round"]

    def _holds(self, length: int, digest: str) -> bool:
        """Whether the records begin with ``length`` bytes that have this hash."""
        there = self.rounds.exists() and 0 < length <= self.rounds.stat().st_size
        return there and files.digest_start(self.rounds, length) == digest

    def _lost(self, rounds: int) -> str:
        """Say which of the aggregates up to a round is not whole; empty where all are."""
        for round in range(1, rounds + 1):
            try:
                read_aggregate(self.path, round)
            except OSError as error:
                return f"{aggregate_file(self.path, round)} is damaged ({error.strerror})"
        return ""

    def _cut(self, length: int, round: int) -> None:
        """Shorten the records to ``length`` bytes and the timings to ``round`` rounds."""
        if self.rounds.exists():
            files.cut(self.rounds, length)
        if self.timings.exists():
            try:
                kept = b"".join(islice(files.read_lines(self.timings), round))
            except files.Unreadable:  # no result depends on them
                kept = b""
            files.write_atomically(self.timings, kept)


def run_path(config: Described, out: Path) -> Path:
    """Return the folder of a run, ``out/runs/<name>-<hash>``."""
    return out / "runs" / config.label()


@contextmanager
def open_run(config: Described, out: Path, force: bool = False) -> Iterator[RunFolder]:
    """Open the folder of a run for this process alone.

    Refuses to go on with a run that began with another content of a file it names, unless ``force`` is given,
    with which the caller forgets what was computed.
    """
    path = run_path(config, out)
    with ExitStack() as stack:
        with files.explained(path):
            files.below(out, "runs", path.name).mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(files.locked(path / ".lock", wait=False))
            except BlockingIOError:
                raise files.RunError(f"{path} is in use by another process: wait for it or stop it") from None
            for place in (path, files.below(path, "aggregates")):
                files.remove_leftovers(place)
            toml = config.to_toml()
            for file in [] if force else refilled_since(path / manifest.CONFIG, toml):
                rule = "put the old file back, or compute the run anew with --force"
                raise files.RunError(f"{file}: its content has changed since {path} was begun; {rule}")
            notes = edited_since(path / manifest.CONFIG, toml)
            folder = RunFolder(path, config, notes)
            if (path / manifest.SUMMARY).exists():  # of a finished run, no file is touched
                files.discard(checkpoint.previous(folder.checkpoint))  # but one that it should not have
            else:
                files.write_atomically(path / manifest.CONFIG, toml.encode())
        yield folder
