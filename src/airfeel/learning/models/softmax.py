"""The paper's model: softmax regression in NumPy."""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.learning.tasks import Array, DataShape, Samples, Score, Task
from airfeel.ranges import Checked, Count, NonNegative, Several
from airfeel.registry import MODELS, option


@MODELS.register("softmax", place=0)
@dataclass(frozen=True)
class Softmax:
    """Softmax regression in NumPy: one layer, as in the paper."""

    l2: NonNegative = option(0.0, "weight of ||theta||^2 / 2 in the loss")

    def __call__(self, data: DataShape) -> Task:
        """Return the task for samples of this shape."""
        if data.classes is None:
            raise _checks.reject("model.kind", "softmax", "needs classes, and these data have none")
        if data.label_shape:
            rule = f"needs one label for each sample, and these have labels of shape {data.label_shape}"
            raise _checks.reject("model.kind", "softmax", rule)
        return SoftmaxRegression(prod(data.shape), data.classes, l2=self.l2)


@dataclass(frozen=True, slots=True)
class SoftmaxRegression(Checked):
    """The single-layer network of Section VII: pixels / 255, one bias per class, cross-entropy, theta = 0.

    theta holds the weights pixel by pixel (``features`` x ``classes``), then the biases; read as a matrix of
    ``features + 1`` rows the biases are the weights of a pixel that is always 1, which is how it is
    computed. Gradients are computed and returned in ``dtype``: single precision is twice as fast, and its
    rounding error is far below the noise of any channel.
    ``l2`` adds l2/2 ||theta||^2 to the loss, which makes it strongly convex.

    >>> SoftmaxRegression().size
    7850
    """

    features: Count = 784
    classes: Several = 10
    l2: NonNegative = 0.0
    dtype: Literal["float32", "float64"] = "float32"

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
            rule = f"must be one label for each of {count} images"
            raise ValueError(f"labels has shape {classes.shape}: {rule}")
        least, most = classes.min(), classes.max()
        if classes.dtype.kind not in "iu" or least < 0 or most >= self.classes:
            raise ValueError(f"labels reach from {least} to {most}: must be 0..{self.classes - 1}")
        pixels = inputs.reshape(count, -1)
        if pixels.shape[1] != self.features:
            rule = f"must be {self.features}, as many as features"
            raise ValueError(f"images have {pixels.shape[1]} pixels: {rule}")
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
