"""What the server knows of its nodes: their number as devices, last weight, and when each was heard last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from airfeel.radio.power import Ledger


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its row as a device, its client's number, its last weight, the last round it was heard in."""

    device: int
    client: int
    weight: float = 0.0
    heard: int = 0


Nodes = Mapping[int, Node]


class Reply(Protocol):
    """What is needed of a reply here."""

    @property
    def node(self) -> int:
        """The node it came from."""
        ...

    @property
    def client(self) -> int:
        """The number that its client keeps."""
        ...

    @property
    def device(self) -> int:
        """The number that its node has by itself, -1 for none."""
        ...

    @property
    def weight(self) -> float:
        """Its weight in the mean."""
        ...


def welcome(nodes: Nodes, replies: Iterable[Reply]) -> dict[int, Node]:
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


def heard(nodes: Nodes, ids: Iterable[int], round: int) -> dict[int, Node]:
    """Return the nodes after a round in which some were heard."""
    return {**nodes, **{node: replace(nodes[node], heard=round) for node in ids}}


def extended(ledger: Ledger, devices: int, power: float) -> Ledger:
    """Return the ledger with accounts for newcomers, who have saved nothing in the rounds before them."""
    new = devices - len(ledger.spent)
    return Ledger(np.append(ledger.spent, np.full(new, ledger.rounds * power)), ledger.rounds)
