"""What devices carry, in files beside the checkpoints: a new file for each round, never one written twice.

A file belongs to one state. It has a name nobody can guess until a checkpoint is written, which names it; one
that no checkpoint names loses even that when the next round has its own, and the system frees it when the
state is gone. So a process can be killed at any moment: what the newest checkpoint names is whole, and so is
what the one before it names.
"""

from __future__ import annotations  # imports for type checkers alone

import re
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from airfeel import _maps
from airfeel.lab.runs import files
from airfeel.lab.runs.checkpoint import Damaged

if TYPE_CHECKING:
    from airfeel.simulation.loop import RunState

Memory = Mapping[str, NDArray[Any]]

_KEPT = 2  # as many as there are checkpoints
_NAME = re.compile(r"memory-(\d{6,15})\.bin")


@dataclass(frozen=True, slots=True)
class Generation:
    """The memories after one round: their file in the run's folder, their types by name, its checksum."""

    file: str
    dtypes: dict[str, str]
    crc32: int


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """A state whose memories lie in a file; None after the last round, when nobody needs them."""

    state: RunState
    memory: Generation | None


class Generations(AbstractContextManager["Generations"]):
    """The memories of a run's rounds, as room for :class:`airfeel.uplink.round.Uplink`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._newest: tuple[Path, Memory] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    def __call__(self, forms: _maps.Forms) -> dict[str, NDArray[Any]]:
        """Return room for the memories after one more round."""
        self._drop()
        path = self.folder / f"memory.{secrets.token_hex(8)}.tmp"
        with files.explained(self.folder):
            arrays = _maps.create(path, forms)
        self._newest = path, arrays
        return arrays

    def apart(self, state: RunState, last: bool) -> RunState | Apart:
        """Return what a checkpoint shall hold, with the memories, if they are in a file, under their name."""
        if self._newest is None or self._newest[1] is not state.uplink.memory:
            return state
        bare = replace(state, uplink=replace(state.uplink, memory={}))
        if last:
            return Apart(bare, None)
        path, memory = self._newest
        named = self.folder / f"memory-{state.round:06d}.bin"
        with files.explained(self.folder):
            crc32 = _maps.settle(memory)
            path.replace(named)
            files.sync_folder(self.folder)
        self._newest = None
        dtypes = {name: part.dtype.str for name, part in memory.items()}
        return Apart(bare, Generation(named.name, dtypes, crc32))

    def together(self, saved: Apart, like: Memory) -> RunState | None:
        """Undo :meth:`apart`; None where that cannot be memories of these names and shapes after that round.

        Raises
        ------
        Damaged
            Where the file is not what was written, or not there.
        """
        state, kept = saved.state, saved.memory
        if kept is None:
            return state
        types = {name: _number(word) for name, word in kept.dtypes.items()}
        fits = types.keys() == like.keys() and None not in types.values()
        if not fits or kept.file != f"memory-{state.round:06d}.bin":
            return None
        path = self.folder / kept.file
        forms = {name: (like[name].shape, dtype) for name, dtype in types.items() if dtype is not None}
        try:
            memory = _maps.checked(path, forms, kept.crc32)
        except FileNotFoundError:
            raise Damaged(f"{path} is missing") from None
        except OSError as error:
            raise Damaged(f"{path} {error.strerror}") from None
        return replace(state, uplink=replace(state.uplink, memory=memory))

    def tidy(self, round: int) -> None:
        """Remove the files of all rounds but the newest ones up to ``round``, 0 for all."""
        found = {int(name[1]): path for path in self.folder.iterdir() if (name := _NAME.fullmatch(path.name))}
        wanted = sorted(number for number in found if number <= round)[-_KEPT:]
        with files.explained(self.folder):
            for number in found.keys() - set(wanted):
                found[number].unlink()

    def _drop(self) -> None:
        """Take the name from the newest memories; whoever has the array can still use it."""
        if self._newest is not None:
            self._newest[0].unlink(missing_ok=True)
            self._newest = None


def _number(word: Any) -> np.dtype[Any] | None:
    """Return the type of numbers that a file names, None where it is none."""
    try:
        found = np.dtype(word)
    except TypeError:
        return None
    return found if found.kind in "biufc" else None
