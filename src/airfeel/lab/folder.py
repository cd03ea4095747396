"""A results folder: its runs and the experiments that were begun in it, each file read once per command.

Nothing is built or imported that a file in the folder names: which runs belong to an experiment was written
down when it was begun.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from airfeel import _files
from airfeel._checks import visible
from airfeel.lab import store
from airfeel.lab.plan import Experiment, read_experiment
from airfeel.lab.runner import Work
from airfeel.lab.store import OTHERS, SUMMARY, Damage, FinishedRun, examine

Read = TypeVar("Read")

_UNLISTED = "the list of its runs is missing or damaged; the command that computed it writes it again"


class Member(NamedTuple):
    """A run of an experiment by its folder's name: which curve, which circumstances, which seed."""

    curve: str
    variant: str
    seed: int
    label: str


@dataclass(frozen=True, slots=True)
class Begun:
    """An experiment that was begun in a results folder, and its runs, finished or not."""

    experiment: Experiment
    members: Sequence[Member]


class ResultsFolder:
    """Reads what is asked for, and reads it again only if it has changed on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, tuple[store.Stamp, object]] = {}

    def labels(self) -> list[str]:
        """Return the names of all runs' folders, sorted, whether or not the runs are finished."""
        return [path.name for path in sorted((self.path / "runs").glob("*")) if path.is_dir()]

    def stamp(self, label: str) -> store.Stamp | None:
        """Return what changes whenever a run's files do; None where the run cannot be finished."""
        path = self.path / "runs" / label
        return store.stamp(path / SUMMARY, others=[path / name for name in OTHERS])

    def run(self, label: str) -> FinishedRun | None:
        """Return a run if it is finished and intact."""
        found = self._examined(label)
        return found if isinstance(found, FinishedRun) else None

    def damage(self, label: str) -> Damage | None:
        """Return what is wrong with a finished run."""
        found = self._examined(label)
        return found if isinstance(found, Damage) else None

    def _examined(self, label: str) -> FinishedRun | Damage | None:
        return self._once(f"run {label}", self.stamp(label), lambda: examine(self.path / "runs" / label))

    def experiments(self) -> tuple[list[Begun], list[str]]:
        """Return the experiments that were begun here, by name, and a sentence about each one left out."""
        begun, left_out = [], []
        for path in sorted((self.path / "experiments").glob("*.toml")):
            stamp = store.stamp(path, path.with_suffix(".json"))
            try:
                found = self._once(f"experiment {path.name}", stamp, partial(_read_begun, path))
                if found is None:
                    raise ValueError(_UNLISTED)
                begun.append(found)
            except ValueError as error:
                reason = "; ".join(str(error).splitlines())
                left_out.append(visible(f"experiment {path.stem} is left out: {reason}"))
        return begun, left_out

    def _once(self, key: str, stamp: store.Stamp | None, read: Callable[[], Read]) -> Read | None:
        """Return what was read under this stamp, or read it now."""
        if stamp is None:
            return None
        before, found = self._read.get(key, (None, None))
        if before != stamp:
            found = read()
            self._read[key] = stamp, found
        return found  # type: ignore[return-value]


def remember_experiment(experiment: Experiment, out: Path, runs: Sequence[Work]) -> Begun:
    """Keep the experiment and the names of its runs in ``out/experiments``, for tables and pages."""
    begun = Begun(experiment, [Member(run.curve, run.variant, run.seed, run.label) for run in runs])
    path = out / "experiments" / f"{experiment.name}.toml"
    with store.explained(out):
        _files.below(out, "experiments").mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(member._asdict(), ensure_ascii=False) for member in begun.members)
        _files.write_atomically(path.with_suffix(".json"), f"[\n{lines}\n]\n".encode())
        _files.write_atomically(path, experiment.to_toml().encode())
    return begun


def _read_begun(path: Path) -> Begun | None:
    """Return an experiment with its runs; None where the list of them is not what was written."""
    try:
        rows = _files.parse_json(_files.read_text(path.with_suffix(".json"), _files.LIST))
        members = [Member(**row) for row in rows]
    except (OSError, ValueError, TypeError):
        return None
    kinds = [tuple(map(type, member)) for member in members]
    if any(kind != (str, str, int, str) for kind in kinds) or any("/" in member.label for member in members):
        return None
    return Begun(read_experiment(path), members)
