"""A model's named arrays as one flat vector, and those beside it that must stay exact."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.uplink.scheme import Shapes

Array = NDArray[np.floating[Any]]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ModelArray:
    """One array of a model: its name, shape and type; ``exact`` if it travels whole."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    exact: bool

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays of a model in their order.

    >>> layout = Layout.of({"w": np.zeros((2, 3)), "steps": np.array(7)}, exact=["*running_*"])
    >>> layout.size, [tensor.name for tensor in layout.tensors if tensor.exact]
    (6, ['steps'])
    """

    tensors: tuple[ModelArray, ...]

    @classmethod
    def of(cls, arrays: Arrays, exact: Sequence[str]) -> "Layout":
        """Return the layout of a model; arrays that are not floating, or match a pattern, stay exact."""

        def stays(name: str, array: NDArray[Any]) -> bool:
            return array.dtype.kind != "f" or any(fnmatchcase(name, pattern) for pattern in exact)

        return cls(tuple(ModelArray(k, a.shape, str(a.dtype), stays(k, a)) for k, a in arrays.items()))

    @property
    def size(self) -> int:
        """N, the length of the flat vector."""
        return sum(tensor.size for tensor in self.tensors if not tensor.exact)

    @property
    def shapes(self) -> Shapes:
        """What a scheme is told: the tensors of the flat vector, a single number as one of length 1."""
        return {tensor.name: tensor.shape or (1,) for tensor in self.tensors if not tensor.exact}

    def require(self, arrays: Arrays) -> None:
        """Refuse arrays that are not those of the model, by name or by shape."""
        missing = [tensor.name for tensor in self.tensors if tensor.name not in arrays]
        known = {tensor.name for tensor in self.tensors}
        strange = [name for name in arrays if name not in known]
        for names, what in ((missing, "is missing"), (strange, "is not in the model")):
            if names:
                raise ValueError(f"array {names[0]!r} {what}: a reply must hold the arrays of the model")
        for tensor in self.tensors:
            if (shape := arrays[tensor.name].shape) != tensor.shape:
                raise ValueError(f"array {tensor.name!r} has shape {shape}: must be {tensor.shape}")

    def flat(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return the vector of all arrays that are not exact, in double precision."""
        parts = [arrays[t.name].astype(np.float64).reshape(-1) for t in self.tensors if not t.exact]
        return np.concatenate(parts) if parts else np.zeros(0)

    def exact(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Return the arrays that travel whole."""
        return {tensor.name: arrays[tensor.name] for tensor in self.tensors if tensor.exact}

    def arrays(self, theta: Array, exact: Arrays) -> dict[str, NDArray[Any]]:
        """Undo :meth:`flat` and :meth:`exact`: every array in its place, shape and type."""
        found, start = {}, 0
        for tensor in self.tensors:
            if tensor.exact:
                found[tensor.name] = _typed(exact[tensor.name], tensor.dtype)
                continue
            part = theta[start : start + tensor.size].reshape(tensor.shape)
            found[tensor.name] = part.astype(tensor.dtype)
            start += tensor.size
        return found


def _typed(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return a mean in the type of the model: the nearest whole number where that holds only such."""
    wanted = np.dtype(dtype)
    return (np.rint(values) if wanted.kind in "iub" and values.dtype.kind == "f" else values).astype(wanted)
