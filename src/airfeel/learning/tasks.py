"""What is learned: the Task protocol, and softmax regression in NumPy.

A task is the only place where a learning framework enters. It turns images and labels into :class:`Samples`
once, and then answers two questions about a parameter vector theta of length ``size``: the gradient of the
mean loss over some samples, and the score on some samples. Everything else (local steps, sparsification,
radio, server) works on plain vectors.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks

Array = NDArray[np.floating[Any]]


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
        ...

    @property
    def classes(self) -> int | None:
        """The number of classes; None for a regression."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the inputs' numbers."""
        ...

    @property
    def label_shape(self) -> tuple[int, ...]:
        """The shape of one sample's label: () for one class or one target."""
        ...


class Task(Protocol):
    """What a user writes to train something else; about 30 lines, see ``examples/own_task.py``."""

    @property
    def size(self) -> int:
        """N, the length of the parameter vector."""
        ...

    def init(self, seed: int) -> Array:
        """Return the parameters before the first round, as a new float64 vector."""
        ...

    def prepare(self, inputs: NDArray[Any], labels: NDArray[Any]) -> Samples:
        """Turn raw data, such as uint8 images (n, 28, 28) with labels (n,), into samples; called once."""
        ...

    def gradient(self, theta: Array, samples: Samples) -> Array:
        """Return the gradient of the mean loss over ``samples`` at ``theta``; called from several threads."""
        ...

    def evaluate(self, theta: Array, samples: Samples) -> Score:
        """Return mean loss and accuracy over ``samples`` at ``theta``; called from several threads."""
        ...


@dataclass(frozen=True, slots=True)
class SoftmaxRegression:
    """The single-layer network of Section VII: pixels / 255, one bias per class, cross-entropy, theta = 0.

    theta holds the weights pixel by pixel (``features`` x ``classes``), then the biases; read as a matrix of
    ``features + 1`` rows the biases are the weights of a pixel that is always 1, which is how it is
    computed. Gradients are computed and returned in ``dtype``: single precision is twice as fast, and its
    rounding error is far below the noise of any channel.

    Parameters
    ----------
    features, classes
        784 pixels and 10 digits give N = 7850.
    l2
        Adds l2/2 ||theta||^2 to the loss, which makes it strongly convex.
    dtype
        ``"float32"`` or ``"float64"``.

    >>> SoftmaxRegression().size
    7850
    """

    features: int = 784
    classes: int = 10
    l2: float = 0.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        _checks.integer("features", self.features, at_least=1)
        _checks.integer("classes", self.classes, at_least=2)
        _checks.real("l2", self.l2, at_least=0)
        _checks.choice("dtype", self.dtype, ("float32", "float64"))

    @property
    def size(self) -> int:
        """N = (features + 1) classes."""
        return (self.features + 1) * self.classes

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights as a matrix, then the biases."""
        return {"weights": (self.features, self.classes), "biases": (self.classes,)}

    def init(self, seed: int) -> Array:
        """Return zeros, whatever the seed."""
        return np.zeros(self.size)

    def prepare(self, inputs: NDArray[Any], labels: NDArray[Any]) -> Samples:
        """Lay the samples out as (n, features), the layout BLAS is fastest on, with a last column of ones.

        Pixels that are dark in all of these images are left out (a quarter of MNIST's on a device with 1000
        of them); ``layout`` holds the rows of theta that are left.
        """
        count, classes = len(inputs), np.asarray(labels)
        if count == 0 or classes.shape != (count,):
            raise ValueError(
                f"labels has shape {classes.shape}: must be one label for each of {count} images"
            )
        if not (
            np.issubdtype(classes.dtype, np.integer) and 0 <= classes.min() <= classes.max() < self.classes
        ):
            raise ValueError(
                f"labels reach from {classes.min()} to {classes.max()}: must be 0..{self.classes - 1}"
            )
        pixels = inputs.reshape(count, -1)
        if pixels.shape[1] != self.features:
            raise ValueError(
                f"images have {pixels.shape[1]} pixels: must be {self.features}, as many as features"
            )
        lit = np.flatnonzero(pixels.any(axis=0))
        rows = np.ones((count, len(lit) + 1), dtype=self.dtype)
        # A table of the 256 levels converts uint8 pixels with one rounding, and without a float64 copy.
        levels = (np.arange(256) / 255).astype(self.dtype)
        rows[:, :-1] = levels[pixels[:, lit]] if pixels.dtype == np.uint8 else pixels[:, lit]
        return Samples(rows, classes.astype(np.intp), layout=np.append(lit, self.features))

    def gradient(self, theta: Array, samples: Samples) -> Array:
        """Return the gradient of the mean cross-entropy (plus L2 term)."""
        weights = self._matrix(theta)
        residual = _softmax(_logits(weights, samples))
        residual.reshape(-1)[_entries(samples.labels)] -= 1
        residual *= 1 / len(samples)
        gradient = np.zeros_like(weights)
        gradient[samples.layout] = samples.inputs.T @ residual.T
        if self.l2:
            gradient += self.l2 * weights
        return gradient.reshape(-1)

    def evaluate(self, theta: Array, samples: Samples) -> Score:
        """Return mean cross-entropy (plus L2 term) and accuracy."""
        logits, labels = _logits(self._matrix(theta), samples), samples.labels
        logits -= logits.max(axis=0)
        right = logits.reshape(-1)[_entries(labels)]
        accuracy = np.mean(_wins(logits, labels, right))
        loss = np.mean(np.log(np.exp(logits, out=logits).sum(axis=0)) - right, dtype=np.float64)
        return Score(float(loss) + self.l2 / 2 * float(theta @ theta), float(accuracy))

    def _matrix(self, theta: Array) -> Array:
        return theta.astype(self.dtype, copy=False).reshape(self.features + 1, self.classes)


def _logits(weights: Array, samples: Samples) -> Array:
    """Return the outputs of all classes as (classes, n): sums over classes then run along whole rows."""
    used = weights.take(samples.layout, axis=0)
    return np.ascontiguousarray((samples.inputs @ used).T)


def _entries(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where the labels' outputs stand in flattened (classes, n); one index is faster than two."""
    return labels * len(labels) + np.arange(len(labels))


def _wins(logits: Array, labels: NDArray[np.intp], right: Array) -> NDArray[np.bool_]:
    """Return which samples have the right class on top, given outputs whose largest is 0 in every column.

    Among equal outputs the lower class wins, as in argmax, which is slow down the columns.
    """
    tied = np.count_nonzero(logits == 0) > len(labels)
    return np.asarray(logits.argmax(axis=0) == labels if tied else right == 0)


def _softmax(logits: Array) -> Array:
    """Return class probabilities down the columns, in place."""
    logits -= logits.max(axis=0)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=0)
    return logits
