"""The folder of one run: it survives a kill at any moment and goes on where it was.

``rounds.jsonl`` grows by one line per round. A checkpoint remembers how long that file was and its hash; on a
new start the file is cut back to that point and the lost rounds are computed again, byte for byte the same.

What devices carry may lie in files beside the checkpoints: a new file for each round, never one written
twice. A file belongs to one state. It has a name nobody can guess until a checkpoint is written, which names
it; one that no checkpoint names loses even that when the next round has its own, and the system frees it when
the state is gone. So what the newest checkpoint names is whole, and so is what the one before it names.
"""

from __future__ import annotations  # imports for type checkers alone

import hashlib
import io
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

import airfeel
from airfeel import _files, storage
from airfeel.lab import store
from airfeel.lab.store import CONFIG, DERIVED, MANIFEST, ROUNDS, SUMMARY, TIMINGS, Array, Damage

if TYPE_CHECKING:
    from airfeel.simulation.loop import RunState

Memory = Mapping[str, NDArray[Any]]

_DIGEST_BYTES = 32
_KEPT = 2  # files of memories, as many as there are checkpoints
_NAME = re.compile(r"memory-(\d{6,15})\.bin")


class Described(Protocol):
    """A configuration, of training or of a study: what a folder and a table say of a run."""

    @property
    def rounds(self) -> int:
        """How many lines its ``rounds.jsonl`` will have."""

    @property
    def scheme(self) -> str:
        """What is tried out."""

    @property
    def seed(self) -> int:
        """Decides everything that is random."""

    def digest(self) -> str:
        """Return the hash of all that determines the result."""

    def label(self) -> str:
        """Return the name of the run's folder, which ends with the hash."""

    def to_toml(self) -> str:
        """Return the description as a file."""


class RunFolder:
    """Everything one run keeps on disk. Use it through :func:`open_run`, which holds the lock.

    ``rounds`` are the records, one line of JSON per round, without wall times: equal runs are equal files;
    ``timings`` the seconds per round, ``checkpoint`` the newest complete state, ``notes`` sentences for the
    user.
    """

    def __init__(self, path: Path, config: Described, notes: list[str]) -> None:
        self.path, self.config, self.notes = path, config, notes
        self.rounds, self.timings = path / ROUNDS, path / TIMINGS
        self.checkpoint = path / "checkpoint.npz"

    def reopen(self, forget: bool, damage: Damage | None = None) -> None:
        """Prepare for computing: remove an untrue summary, and with ``forget`` all results.

        ``damage`` is what was found in a run that had been finished. A checkpoint vouches for the records
        only: where other results are damaged, or nobody can tell, the run starts from nothing.
        """
        aggregates = store.aggregates(self.path)
        if damage is not None:
            self.notes.append(f"{self.path / damage.file} {damage.rule}: the run is computed again")
            untold = damage.file == MANIFEST and bool(aggregates)
            forget = forget or untold or damage.file not in (*DERIVED, ROUNDS)
        leftovers = [SUMMARY, MANIFEST]  # the summary first: without it, no run is finished
        if forget:
            leftovers += ["checkpoint.npz", "checkpoint.npz.previous", ROUNDS, TIMINGS]
            leftovers += aggregates
        with store.explained(self.path):
            for name in leftovers:
                (self.path / name).unlink(missing_ok=True)
            _files.write_atomically(self.path / CONFIG, self.config.to_toml().encode())

    def restore(
        self,
        trusted: Sequence[str] = (),
        revived: Callable[[Any], Any | None] = lambda state: state,
        aggregates: bool = False,
    ) -> Any | None:
        """Return the newest trustworthy state, files cut back to its round; None: start at round 1.

        The state may hold dataclasses of modules in ``trusted``. ``revived`` returns the state of this run,
        given what a checkpoint holds, or None where that cannot be it. With ``aggregates``, those of all
        rounds must be whole.
        """
        with store.explained(self.path):
            for path in (self.checkpoint, previous(self.checkpoint)):
                if path.exists():
                    try:
                        facts, state = self._intact(path, trusted, revived, aggregates)
                    except Damaged as error:
                        self.notes.append(f"{error}: {path.name} not used")
                    else:
                        self._cut(facts["length"], facts["round"])
                        self.notes.append(f"continuing after round {facts['round']}")
                        return state
                # Gone for good: a bad file must never take the place of the previous good one.
                path.unlink(missing_ok=True)
            if self.rounds.exists() and self.rounds.stat().st_size:
                self.notes.append("no usable checkpoint: starting again at round 1")
            self._cut(0, 0)
        return None

    def append(self, line: str, round: int, seconds: float) -> None:
        """Add the record of one round and its duration."""
        with store.explained(self.path):
            _files.append_line(self.rounds, line)
            _files.append_line(self.timings, json.dumps({"round": round, "seconds": seconds}))

    def keep_aggregate(self, round: int, aggregate: Array) -> None:
        """Keep the true x of a round, nonzero entries only, in single precision."""
        content = io.BytesIO()
        places = np.flatnonzero(aggregate).astype(np.uint32)
        values = aggregate[places].astype(np.float32)
        np.savez_compressed(content, size=np.array(aggregate.size), places=places, values=values)
        with store.explained(self.path):
            _files.below(self.path, "aggregates").mkdir(exist_ok=True)
            _files.write_atomically(store.aggregate_file(self.path, round), content.getvalue())

    def save(self, round: int, state: Any) -> None:
        """Write a checkpoint; what it refers to in ``rounds.jsonl`` is made durable first."""
        with store.explained(self.path):
            length = _files.sync(self.rounds)
            facts = {
                "version": airfeel.__version__,
                "digest": self.config.digest(),
                "round": round,
                "length": length,
                "sha256": _files.digest_start(self.rounds, length),
            }
            save_checkpoint(self.checkpoint, state, facts)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write ``manifest.json`` and, as the last thing a run does, ``summary.json``."""
        with store.explained(self.path):
            previous(self.checkpoint).unlink(missing_ok=True)  # before there is a finished run to have it
            digest = _files.digest(self.rounds)
            text = (json.dumps(summary | {"rounds_sha256": digest}, indent=2) + "\n").encode()
            # In this order a run that has its summary, and so is finished, has its manifest too.
            _files.write_atomically(self.path / MANIFEST, store.compose_manifest(self.path, text))
            _files.write_atomically(self.path / SUMMARY, text)

    def _intact(
        self, path: Path, trusted: Sequence[str], revived: Callable[[Any], Any | None], aggregates: bool
    ) -> tuple[dict[str, Any], Any]:
        """Return facts and state of a checkpoint if it is one of this run and what it refers to is intact."""
        state, facts = load_checkpoint(path, trusted)
        if (facts["version"], facts["digest"]) != (airfeel.__version__, self.config.digest()):
            raise Damaged(f"{path} was written by airfeel {facts['version']}")
        state = revived(state)
        if state is None:
            raise Damaged(f"{path} does not hold the state of this run")
        round, length = facts["round"], facts["length"]
        if not self.rounds.exists() or _files.digest_start(self.rounds, length) != facts["sha256"]:
            raise Damaged(f"{self.rounds} is damaged before round {round}")
        for each in range(1, round + 1) if aggregates else ():
            try:
                store.read_aggregate(self.path, each)
            except OSError as error:
                raise Damaged(f"{error.filename} is damaged ({error.strerror})") from None
        return facts, state

    def _cut(self, length: int, round: int) -> None:
        """Shorten the records to ``length`` bytes and the timings to ``round`` rounds."""
        if self.rounds.exists():
            _files.cut(self.rounds, length)
        try:
            kept = b"".join(islice(_files.read_lines(self.timings), round))
        except (FileNotFoundError, _files.Unreadable):  # no result depends on them
            kept = b""
        _files.write_atomically(self.timings, kept)


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
        with store.explained(path):
            _files.below(out, "runs", path.name).mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(_files.locked(path / ".lock", wait=False))
            except BlockingIOError:
                raise store.RunError(f"{path} is in use by another process: wait for it or stop it") from None
            for place in (path, _files.below(path, "aggregates")):
                for leftover in (*place.glob("*.tmp"), *place.glob("*.new")):  # of a killed process
                    leftover.unlink()
            toml = config.to_toml()
            notes, files = store.changed_since(path / CONFIG, toml)
            if files and not force:
                rule = "put the old file back, or compute the run anew with --force"
                raise store.RunError(f"{files[0]}: its content has changed since {path} was begun; {rule}")
            if not (path / SUMMARY).exists():  # of a finished run, no file is touched
                _files.write_atomically(path / CONFIG, toml.encode())
        yield RunFolder(path, config, notes)


class Damaged(Exception):
    """A checkpoint that is not what was written."""


def save_checkpoint(path: Path, state: Any, facts: dict[str, Any]) -> None:
    """Write ``state`` and ``facts`` (numbers and text by name) atomically.

    The checkpoint before this one stays beside it as ``<name>.previous``.
    """
    content = storage.to_bytes({"state": state, "facts": facts})
    fresh = path.with_name(path.name + ".new")
    _files.write_atomically(fresh, content, hashlib.sha256(content).digest())
    if path.exists():
        path.replace(previous(path))
    fresh.replace(path)
    _files.sync_folder(path.parent)


def load_checkpoint(path: Path, trusted: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:
    """Return state and facts; raise :class:`Damaged` if any byte is not the one written.

    ``trusted`` names the modules beside airfeel whose dataclasses the state may hold.
    """
    try:
        data = _files.read_bytes(path)
    except _files.Unread:  # which may be mended
        raise
    except _files.Unreadable as error:
        raise Damaged(f"{path} is damaged: it {error.strerror}") from None
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise Damaged(f"{path} is damaged: its checksum does not match")
    try:
        whole = storage.from_bytes(content, trusted)
    except ValueError as error:
        raise Damaged(f"{path}: {error}") from None
    return whole["state"], whole["facts"]


def previous(path: Path) -> Path:
    """Return where the checkpoint before the newest one is kept."""
    return path.with_name(path.name + ".previous")


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """A state whose memories lie in a file: their shapes and types by name, and the file's checksum."""

    state: RunState
    forms: dict[str, tuple[tuple[int, ...], str]]
    crc32: int


class Generations:
    """The memories of a run's rounds, as room for :class:`airfeel.uplink.round.Uplink`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._newest: tuple[Path, Memory] | None = None

    def __call__(self, forms: storage.Forms) -> dict[str, NDArray[Any]]:
        """Return room for the memories after one more round."""
        self.close()
        path = self.folder / f"memory.{secrets.token_hex(8)}.tmp"
        with store.explained(self.folder):
            arrays = storage.create_map(path, forms)
        self._newest = path, arrays
        return arrays

    def apart(self, state: RunState, last: bool) -> RunState | Apart:
        """Return what a checkpoint shall hold: memories in a file, which gets its name, stay there."""
        if self._newest is None or self._newest[1] is not state.uplink.memory:
            return state
        bare = replace(state, uplink=replace(state.uplink, memory={}))
        if last:  # then nobody needs memories any more
            return bare
        path, memory = self._newest
        with store.explained(self.folder):
            crc32 = storage.settle_map(memory)
            path.replace(self._file(state.round))
            _files.sync_folder(self.folder)
        self._newest = None
        return Apart(bare, {name: (part.shape, part.dtype.str) for name, part in memory.items()}, crc32)

    def together(self, saved: Apart) -> RunState:
        """Undo :meth:`apart`; raise :class:`Damaged` where the file is not what was written, or not there."""
        state, path = saved.state, self._file(saved.state.round)
        forms = {name: (shape, np.dtype(word)) for name, (shape, word) in saved.forms.items()}
        try:
            memory = storage.checked_map(path, forms, saved.crc32)
        except FileNotFoundError:
            raise Damaged(f"{path} is missing") from None
        except OSError as error:
            raise Damaged(f"{path} {error.strerror}") from None
        return replace(state, uplink=replace(state.uplink, memory=memory))

    def _file(self, round: int) -> Path:
        return self.folder / f"memory-{round:06d}.bin"

    def tidy(self, round: int) -> None:
        """Remove the files of all rounds but the newest ones up to ``round``, 0 for all."""
        found = {int(name[1]): path for path in self.folder.iterdir() if (name := _NAME.fullmatch(path.name))}
        wanted = sorted(number for number in found if number <= round)[-_KEPT:]
        with store.explained(self.folder):
            for number in found.keys() - set(wanted):
                found[number].unlink()

    def close(self) -> None:
        """Take the name from the newest memories; whoever has the array can still use it."""
        if self._newest is not None:
            self._newest[0].unlink(missing_ok=True)
            self._newest = None
