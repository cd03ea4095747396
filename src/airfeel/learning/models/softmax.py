"""The paper's model: softmax regression."""

from dataclasses import dataclass
from math import prod

from airfeel import _checks
from airfeel.learning.tasks import DataShape, SoftmaxRegression, Task
from airfeel.ranges import NonNegative
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
        return SoftmaxRegression(prod(data.shape), data.classes, l2=self.l2)
