"""A client's error memory, which follows what the server really heard.

When a client sends, it does not know yet whether it will be heard. So it keeps both outcomes, and the memory
from before in case the server has to begin the round again; the next request says which one counts.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context
from numpy.typing import NDArray

from airfeel import storage
from airfeel.flower import wire

Vector = NDArray[np.float32]

PLACE = "airfeel-memory"  # record in the client's state; key of the node's configuration that names a file
WORDS = ("client", "training", "session", "round")
LOG = logging.getLogger("flwr")


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The error memory around the last signal of a client.

    ``before`` is what it was when ``round`` began, ``heard`` what it is if the signal of that round was
    heard, ``unheard`` what it is if not. ``client`` is a number by which the server knows this client again
    when it comes back as another node.
    """

    client: int
    training: str
    session: str
    round: int
    before: Vector
    heard: Vector
    unheard: Vector

    def at(self, announced: wire.Announcement, heard: int) -> Vector:
        """Return Delta when another round begins, given the last round of this node that was heard.

        Another session of the same training has gone back to its last checkpoint, and may ask again for a
        round that was answered, or for an earlier one: then what was sent since counts for nothing.

        Raises
        ------
        ValueError
            For a round of the same session that was answered already: it would be counted twice.
        """
        if self.round < announced.round:
            return self.heard if heard == self.round else self.unheard
        if self.session == announced.session:
            raise ValueError(f"round {announced.round} is asked again: round {self.round} was answered")
        return self.before


def recall(context: Context, announced: wire.Announcement, size: int) -> Memory | None:
    """Return what this client remembers of a training, or None: from its state, else from its file."""
    memory = _from_state(context)
    if memory is None and (path := context.node_config.get(PLACE)) is not None:
        memory = _from_file(Path(str(path)))
    fits = memory is not None and memory.training == announced.training and len(memory.before) == size
    return memory if fits else None


def keep(context: Context, memory: Memory) -> None:
    """Keep the memory in the client's state, and in a file where the node's configuration names one."""
    vectors = np.stack([memory.before, memory.heard, memory.unheard])
    words = {name: getattr(memory, name) for name in WORDS}
    context.state[PLACE] = wire.to_record({"vectors": vectors})
    context.state[f"{PLACE}-of"] = ConfigRecord(words)
    if (path := context.node_config.get(PLACE)) is not None:
        storage.save_state(str(path), memory)


def _from_state(context: Context) -> Memory | None:
    if PLACE not in context.state:
        return None
    words: Any = context.state[f"{PLACE}-of"]
    vectors = wire.from_record(context.state[PLACE])["vectors"]
    return Memory(*(words[name] for name in WORDS), *vectors)


def _from_file(path: Path) -> Memory | None:
    if not path.exists():
        return None
    try:
        found = storage.load_state(path)
    except (OSError, ValueError) as error:
        LOG.warning("airfeel: the error memory starts empty: %s", error)
        return None
    return found if isinstance(found, Memory) else None
