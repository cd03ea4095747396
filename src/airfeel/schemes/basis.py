"""Orthonormal bases in which an update has few large coefficients, tensor by tensor.

Neighbouring pixels have similar weights, and so have neighbouring taps of a kernel: a cosine transform
gathers their energy in few coefficients. Where the entries of a tensor have no order, it would only mix them.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np
from scipy import fft

from airfeel import _checks
from airfeel.schemes.base import Array, Shapes

BASES = ("auto", "dct", "identity")
SHORT = 32  # coefficients up to which a product with a matrix is faster than a fast transform


@dataclass(frozen=True, slots=True)
class Tensor:
    """A stretch of the flat vector: its shape, and which of its axes are transformed."""

    shape: tuple[int, ...]
    axes: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of its coefficients."""
        return prod(self.shape)


Layout = tuple[Tensor, ...]


def choose(shapes: Shapes, basis: str) -> Layout:
    """Return the tensors with their bases.

    ``"identity"`` transforms nothing, ``"dct"`` every kernel and every matrix. ``"auto"`` does so by role:
    kernels, and a dense layer that sees the samples themselves, whose inputs have an order. What comes out of
    a convolution or of another layer is in no order, and stays as it is.
    """
    _checks.choice("basis", basis, BASES)
    tensors, sees_samples = [], True
    for shape in shapes.values():
        kernel, matrix = len(shape) > 2, len(shape) == 2
        wanted = basis == "dct" or (basis == "auto" and (kernel or sees_samples))
        tensors.append(Tensor(tuple(shape), _ordered(shape) if wanted and (kernel or matrix) else ()))
        sees_samples &= not (kernel or matrix)
    return tuple(tensors)


def _ordered(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes to transform: the taps of a kernel; of a matrix its longer side, and a short one.

    The longer side of a layer that sees the samples is that of its inputs. A short one, such as ten classes,
    has no order either, but what all its entries have in common is worth a coefficient of its own.
    """
    longest = max(shape)
    axes = range(2, len(shape)) if len(shape) > 2 else range(2)
    return tuple(
        i for i in axes if shape[i] > 1 and (len(shape) > 2 or shape[i] in (longest, *range(SHORT + 1)))
    )


def forward(layout: Layout, rows: Array) -> Array:
    """Return the coefficients of every row (N,) of ``rows``, in a new array."""
    return _transform(layout, rows.copy(), inverse=False)


def backward(layout: Layout, rows: Array) -> Array:
    """Undo :func:`forward`, in place: return ``rows`` with what they stand for."""
    return _transform(layout, rows, inverse=True)


def write(layout: Layout) -> str:
    """Return a layout as a text that goes into a plan; ``c`` marks an axis of cosines.

    >>> write((Tensor((784, 10), (0, 1)), Tensor((10,))))
    '784cx10c 10'
    """
    sides = ((f"{n}{'c' * (i in t.axes)}" for i, n in enumerate(t.shape)) for t in layout)
    return " ".join("x".join(words) or "1" for words in sides)


def read(text: str) -> Layout:
    """Undo :func:`write`, but for the shape of a single number, which becomes (1,)."""
    words = (word.split("x") for word in text.split())
    return tuple(
        Tensor(
            tuple(int(n.rstrip("c")) for n in sides), tuple(i for i, n in enumerate(sides) if n[-1] == "c")
        )
        for sides in words
    )


def stretches(layout: Layout) -> list[slice]:
    """Return where each tensor lies in the flat vector."""
    ends = np.cumsum([0, *(tensor.size for tensor in layout)])
    return [slice(int(start), int(end)) for start, end in pairwise(ends)]


def _transform(layout: Layout, rows: Array, inverse: bool) -> Array:
    for tensor, part in zip(layout, stretches(layout), strict=True):
        if tensor.axes:
            _cosines(rows[:, part].reshape(len(rows), *tensor.shape), tensor.axes, inverse)
    return rows


def _cosines(stack: Array, axes: tuple[int, ...], inverse: bool) -> None:
    """Transform some axes of a view, which takes the result.

    Short axes at the end are transformed by a product with their matrix, others by a fast transform. Every
    row has products of its own, so that its bytes do not depend on how many rows there are.
    """
    sides = stack.shape[1:]
    first = len(sides)  # of the axes at the end that are short, all together
    while first - 1 in axes and prod(sides[first - 1 :]) <= SHORT:
        first -= 1
    if first < len(sides):
        matrix = _matrix(sides[first:], stack.dtype.str)
        flat = stack.reshape(len(stack), -1, len(matrix))
        flat[...] = flat @ (matrix if inverse else matrix.T)
    if rest := [axis + 1 for axis in axes if axis < first]:
        transform = fft.idctn if inverse else fft.dctn
        done = transform(stack, axes=rest, norm="ortho", overwrite_x=True)
        if not np.may_share_memory(done, stack):  # SciPy may write into what it was given, but need not
            stack[...] = done


@lru_cache(maxsize=32)
def _matrix(sides: tuple[int, ...], dtype: str) -> Array:
    """Return the transform of a small tensor, flattened, as a matrix."""
    unit = np.eye(prod(sides)).reshape(-1, *sides)
    columns = fft.dctn(unit, axes=list(range(1, unit.ndim)), norm="ortho").reshape(len(unit), -1)
    return np.ascontiguousarray(columns.T, dtype=dtype)
