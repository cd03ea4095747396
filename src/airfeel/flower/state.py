"""What a training carries from round to round at the server, with its nodes; a checkpoint is exactly this."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfeel import storage
from airfeel.flower.tensors import Layout
from airfeel.learning.server import ServerState
from airfeel.radio.power import Ledger

if TYPE_CHECKING:
    from airfeel.flower.replies import Reply

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its row as a device, its client's number, its last weight, the last round it was heard in."""

    device: int
    client: int
    weight: float = 0.0
    heard: int = 0


Nodes = Mapping[int, Node]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All of it: ``round`` is the last one completed, ``identity`` names scheme and settings in one line.

    ``theta`` holds the parameters in double precision, whatever the model's own types: updates that are too
    small for these are not lost.
    """

    training: str
    identity: str
    round: int
    layout: Layout
    theta: Array
    exact: dict[str, NDArray[Any]]
    scheme: Any
    server: ServerState
    ledger: Ledger
    nodes: dict[int, Node]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, whole or not at all, without pickle."""
        named: Any = {str(node): facts for node, facts in self.nodes.items()}  # in a file, keys are texts
        storage.save_state(path, replace(self, nodes=named))

    @classmethod
    def load(cls, path: str | os.PathLike[str], identity: str, trusted: Sequence[str]) -> "State":
        """Read the state of a training with the same scheme and settings."""
        state = storage.load_state(path, trusted=trusted)
        if not isinstance(state, cls):
            raise ValueError(f"{os.fspath(path)}: is no checkpoint of AirAvg")
        if state.identity != identity:
            raise ValueError(
                f"{os.fspath(path)}: is of another training ({state.identity}); this one is {identity}: "
                "name another file, or remove this one to begin anew"
            )
        return replace(state, nodes={int(k): node for k, node in state.nodes.items()})


def welcome(nodes: Nodes, replies: "Iterable[Reply]") -> dict[int, Node]:
    """Return the nodes after some replies: newcomers have the next numbers, all have their new weights.

    Node ids are drawn by chance, so newcomers stand in the order of the numbers they have by themselves, and
    equal trainings have equal sums. A client that was restarted may come back as another node: it keeps its
    number, and with it the account of its energy.
    """
    known, here = dict(nodes), list(replies)
    gone = {node.client: key for key, node in nodes.items() if key not in {reply.node for reply in here}}
    for reply in sorted(here, key=lambda reply: (reply.device < 0, reply.device, reply.node)):
        if reply.node in known:
            old = known[reply.node]
        elif reply.client in gone:
            old = known.pop(gone.pop(reply.client))
        else:
            old = Node(len(known), reply.client)
        known[reply.node] = replace(old, weight=reply.weight, client=reply.client)
    return known


def mark_heard(nodes: Nodes, ids: Iterable[int], round: int) -> dict[int, Node]:
    """Return the nodes after a round in which some were heard."""
    return {**nodes, **{node: replace(nodes[node], heard=round) for node in ids}}


def extend_ledger(ledger: Ledger, devices: int, power: float) -> Ledger:
    """Return the ledger with accounts for newcomers, who have saved nothing in the rounds before them."""
    new = devices - len(ledger.spent)
    return Ledger(np.append(ledger.spent, np.full(new, ledger.rounds * power)), ledger.rounds)
