"""What is learned: the Task protocol.

A task is the only place where a learning framework enters. It turns images and labels into :class:`Samples`
once, and then answers two questions about a parameter vector theta of length ``size``: the gradient of the
mean loss over some samples, and the score on some samples. Everything else (local steps, sparsification,
radio, server) works on plain vectors.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel.arrays import Array as Array


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Prepared data in whatever layout its task computes fastest.

    ``inputs`` and ``labels`` are NumPy arrays or tensors; ``axis`` is the axis of ``inputs`` that counts
    samples; ``layout`` is whatever else the task wants to remember about them.
    """

    inputs: Any
    labels: Any
    axis: int = 0
    layout: Any = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.labels)

    def take(self, indices: NDArray[np.intp]) -> "Samples":
        """Return a copy with only these samples, for mini-batches."""
        inputs = self.inputs[indices] if self.axis == 0 else np.take(self.inputs, indices, axis=self.axis)
        return Samples(inputs, self.labels[indices], self.axis, self.layout)


@dataclass(frozen=True, slots=True)
class Score:
    """Mean loss and share of right answers over some samples (nan where a task has no such notion)."""

    loss: float
    accuracy: float


class DataShape(Protocol):
    """What a model must know of the data before it can be built; a :class:`Dataset` has it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample, exactly as it is stored."""

    @property
    def classes(self) -> int | None:
        """The number of classes; None for a regression."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the inputs' numbers."""

    @property
    def label_shape(self) -> tuple[int, ...]:
        """The shape of one sample's label: () for one class or one target."""


class Task(Protocol):
    """What a user writes to train something else; about 30 lines, see ``examples/own_task.py``."""

    @property
    def size(self) -> int:
        """N, the length of the parameter vector."""

    def init(self, seed: int) -> Array:
        """Return the parameters before the first round, as a new float64 vector."""

    def prepare(self, inputs: NDArray[Any], labels: NDArray[Any]) -> Samples:
        """Turn raw data, such as uint8 images (n, 28, 28) with labels (n,), into samples; called once."""

    def gradient(self, theta: Array, samples: Samples) -> Array:
        """Return the gradient of the mean loss over ``samples`` at ``theta``; called from several threads."""

    def evaluate(self, theta: Array, samples: Samples) -> Score:
        """Return mean loss and accuracy over ``samples`` at ``theta``; called from several threads."""
