"""What the server knows of its nodes: their number as devices, last weight, and when each was heard last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from airfeel.flower.replies import Reply
from airfeel.radio.power import Ledger


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its row as a device, the weight it announced last, the last round it was heard in."""

    device: int
    weight: float
    heard: int = 0


Nodes = Mapping[int, Node]


def welcome(nodes: Nodes, replies: Iterable[Reply]) -> dict[int, Node]:
    """Return the nodes after some replies: newcomers have the next numbers, all have their new weights.

    Node ids are drawn by chance, so newcomers stand in the order of the numbers they have by themselves, and
    equal trainings have equal sums.
    """
    known = dict(nodes)
    for reply in sorted(replies, key=lambda reply: (reply.device < 0, reply.device, reply.node)):
        old = known.get(reply.node, Node(len(known), 0.0))
        known[reply.node] = replace(old, weight=reply.weight)
    return known


def heard(nodes: Nodes, ids: Iterable[int], round: int) -> dict[int, Node]:
    """Return the nodes after a round in which some were heard."""
    return {**nodes, **{node: replace(nodes[node], heard=round) for node in ids}}


def extended(ledger: Ledger, devices: int, power: float) -> Ledger:
    """Return the ledger with accounts for newcomers, who have saved nothing in the rounds before them."""
    new = devices - len(ledger.spent)
    return Ledger(np.append(ledger.spent, np.full(new, ledger.rounds * power)), ledger.rounds)
