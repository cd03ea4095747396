"""What a training carries from round to round at the server; a checkpoint is exactly this."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import storage
from airfeel.flower.nodes import Node
from airfeel.flower.tensors import Layout
from airfeel.learning.optimizers import ServerState
from airfeel.radio.power import Ledger

Array = NDArray[np.floating[Any]]


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
