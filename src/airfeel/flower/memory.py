"""What a client carries, which follows what the server really heard.

When a client sends, it does not know yet whether it will be heard. So it keeps both outcomes, and what
was before in case the server has to begin the round again; the next request says which one counts.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context
from numpy.typing import NDArray

from airfeel import storage
from airfeel.flower import wire
from airfeel.uplink.scheme import Memory

Named = dict[str, NDArray[Any]]  # the rows of this client

PLACE = "airfeel-memory"  # record in the client's state; key of the node's configuration that names a file
WORDS = ("client", "training", "session", "round")
WHEN = ("before", "heard", "unheard")
LOG = logging.getLogger("flwr")


@dataclass(frozen=True, slots=True, eq=False)
class ClientMemory:
    """The memory of a client around its last signal.

    ``before`` is what it was when ``round`` began, ``heard`` what it is if the signal of that round was
    heard, ``unheard`` what it is if not. ``client`` is a number by which the server knows this client again
    when it comes back as another node.
    """

    client: int
    training: str
    session: str
    round: int
    before: Named
    heard: Named
    unheard: Named

    def at(self, announced: wire.Announcement, heard: int) -> Named:
        """Return what is carried when another round begins, given the last round of this node that was heard.

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


def recall(context: Context, announced: wire.Announcement, fresh: Memory) -> ClientMemory | None:
    """Return what this client remembers of a training, or None: from its state, else from its file.

    ``fresh`` is what the scheme begins with, whose names, shapes and types it must have.
    """
    found = _from_state(context)
    if found is None and (path := context.node_config.get(PLACE)) is not None:
        found = _from_file(Path(str(path)))
    if found is None or found.training != announced.training:
        return None
    return found if all(_like(named, fresh) for named in (found.before, found.heard, found.unheard)) else None


def keep(context: Context, outcomes: ClientMemory) -> None:
    """Keep the memory in the client's state, and in a file where the node's configuration names one."""
    rows = {f"{when}.{name}": row for when in WHEN for name, row in getattr(outcomes, when).items()}
    words = {name: getattr(outcomes, name) for name in WORDS}
    context.state[PLACE] = wire.to_record(rows)
    context.state[f"{PLACE}-of"] = ConfigRecord(words)
    if (path := context.node_config.get(PLACE)) is not None:
        storage.save_state(str(path), outcomes)


def _from_state(context: Context) -> ClientMemory | None:
    if PLACE not in context.state:
        return None
    words: Any = context.state[f"{PLACE}-of"]
    rows = wire.from_record(context.state[PLACE])
    named = ({k.partition(".")[2]: row for k, row in rows.items() if k.startswith(f"{w}.")} for w in WHEN)
    return ClientMemory(*(words[name] for name in WORDS), *named)


def _from_file(path: Path) -> ClientMemory | None:
    if not path.exists():
        return None
    try:
        found = storage.load_state(path)
    except (OSError, ValueError) as error:
        LOG.warning("airfeel: the memory of this client starts empty: %s", error)
        return None
    return found if isinstance(found, ClientMemory) else None


def _like(named: Any, fresh: Memory) -> bool:
    """Whether rows have the names, shapes and types of others."""
    forms = [sorted((k, row.shape, row.dtype.str) for k, row in rows.items()) for rows in (named, fresh)]
    return forms[0] == forms[1]
