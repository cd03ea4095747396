"""Orthonormal bases in which an update has few large coefficients, tensor by tensor.

Neighbouring pixels have similar weights, and so have neighbouring taps of a kernel: a cosine transform
gathers their energy in few coefficients, those of low frequency. Where the entries of a tensor have no order,
it would only mix them.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from airfeel import _checks
from airfeel.uplink.scheme import Array, Shapes

BASES = ("auto", "dct", "identity")
JOINED = 32  # coefficients of axes at the end that are transformed together, by one matrix
AT_A_TIME = 2**21  # coefficients of whole rows that are transformed together: what the cache holds
SHORT = 64  # length of an axis up to which a product with a matrix is faster than a fast transform


@dataclass(frozen=True, slots=True)
class Tensor:
    """A stretch of the flat vector: its shape, and which of its axes are transformed."""

    shape: tuple[int, ...]
    axes: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of its coefficients."""
        return prod(self.shape)

    @property
    def smooth(self) -> bool:
        """Whether it is expected to be: images and kernels are, inputs in a row may be anything."""
        return len(self.axes) > 1

    @property
    def matrix(self) -> tuple[int, int]:
        """Its rows and columns, read as a matrix: what is transformed stays together."""
        first = bool(self.axes) and self.axes[-1] < len(self.shape) - 1 and self.shape[-1] > 1
        rows = prod(self.shape[:-1] if first else self.shape[:1]) if len(self.shape) > 1 else 1
        return rows, self.size // rows


Tensors = tuple[Tensor, ...]


def choose(shapes: Shapes, basis: str) -> Tensors:
    """Return the tensors with their bases.

    ``"identity"`` transforms nothing, ``"dct"`` every kernel and every matrix. ``"auto"`` does so by role:
    kernels, and a dense layer that sees the samples themselves, whose inputs have an order. What comes out of
    a convolution or of another layer is in no order, and stays as it is.
    """
    _checks.choice("basis", basis, BASES)
    tensors, sees_samples = [], True
    for shape in map(tuple, shapes.values()):
        kernel, matrix = len(shape) > 2, len(shape) == 2
        wanted = basis == "dct" or (basis == "auto" and (kernel or sees_samples))
        tensors.append(_ordered(shape) if wanted and (kernel or matrix) else Tensor(shape))
        sees_samples &= not (kernel or matrix)
    return tuple(tensors)


def _ordered(shape: tuple[int, ...]) -> Tensor:
    """Return a tensor in which the taps of a kernel are transformed, or the inputs of a matrix.

    These are its longer side. As many as a square image has, of one or three colours, are taken for one.
    """
    if len(shape) > 2:
        return Tensor(shape, tuple(i for i in range(2, len(shape)) if shape[i] > 1))
    inputs_last = shape[1] >= shape[0]
    image, ordered = _image(max(shape))
    before = (shape[0],) if inputs_last else ()
    after = () if inputs_last else (shape[1],)
    return Tensor((*before, *image, *after), tuple(len(before) + axis for axis in ordered))


def _image(inputs: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sides of an image with so many numbers, and which of them have an order."""
    for colours, ordered in (((), (0, 1)), ((3,), (1, 2))):
        width = isqrt(inputs // prod(colours))
        if width > 1 and prod(colours) * width * width == inputs:
            return (*colours, width, width), ordered
    return (inputs,), (0,) if inputs > 1 else ()


def forward(layout: Tensors, rows: Array) -> Array:
    """Return the coefficients of every row (N,) of ``rows``, in a new array."""
    return _transform(layout, rows.copy(), inverse=False)


def forward_at(layout: Tensors, rows: Array, places: NDArray[np.integer]) -> Array:
    """Return some coefficients of every row (N,) of ``rows``: a few rows at a time, never all of all."""
    found = np.empty((len(rows), len(places)), rows.dtype)
    step = max(1, AT_A_TIME // max(1, rows.shape[1]))
    for first in range(0, len(rows), step):
        found[first : first + step] = forward(layout, rows[first : first + step])[:, places]
    return found


def backward(layout: Tensors, rows: Array) -> Array:
    """Undo :func:`forward`, in place: return ``rows`` with what they stand for."""
    return _transform(layout, rows, inverse=True)


def write(layout: Tensors) -> str:
    """Return a layout as a text that goes into a plan; ``c`` marks an axis of cosines.

    >>> write((Tensor((784, 10), (0, 1)), Tensor((10,))))
    '784cx10c 10'
    """
    sides = ((f"{n}{'c' * (i in t.axes)}" for i, n in enumerate(t.shape)) for t in layout)
    return " ".join("x".join(words) or "1" for words in sides)


def read(text: str) -> Tensors:
    """Undo :func:`write`, but for the shape of a single number, which becomes (1,)."""
    words = (word.split("x") for word in text.split())
    return tuple(
        Tensor(
            tuple(int(n.rstrip("c")) for n in sides), tuple(i for i, n in enumerate(sides) if n[-1] == "c")
        )
        for sides in words
    )


def stretches(layout: Tensors) -> list[slice]:
    """Return where each tensor lies in the flat vector."""
    ends = np.cumsum([0, *(tensor.size for tensor in layout)])
    return [slice(int(start), int(end)) for start, end in pairwise(ends)]


@lru_cache(maxsize=2)
def profile(layout: Tensors) -> Array:
    """Return what is expected of the energies before anything was heard, with a mean of 1 in every tensor.

    Images and kernels are smooth: along both axes energy falls as the square of the frequency. Inputs in a
    row may be anything, and get no such expectation.
    """
    parts = []
    for tensor in layout:
        energy = np.ones(tensor.shape)
        for axis in tensor.axes if tensor.smooth else ():
            falling = (1.0 + np.arange(tensor.shape[axis])) ** -2
            energy *= np.expand_dims(falling, [i for i in range(energy.ndim) if i != axis])
        parts.append(np.reshape(energy / energy.mean(), -1))
    found = np.concatenate(parts)
    found.flags.writeable = False  # everybody gets the same array
    return found


def _transform(layout: Tensors, rows: Array, inverse: bool) -> Array:
    for tensor, part in zip(layout, stretches(layout), strict=True):
        if tensor.axes:
            _cosines(rows[:, part].reshape(len(rows), *tensor.shape), tensor.axes, inverse)
    return rows


def _cosines(stack: Array, axes: tuple[int, ...], inverse: bool) -> None:
    """Transform some axes of a view, which takes the result: long ones by a fast transform."""
    for axis in (axis for axis in axes if stack.shape[axis + 1] > SHORT):
        transform = fft.idct if inverse else fft.dct
        done = transform(stack, axis=axis + 1, norm="ortho", overwrite_x=True)
        if not np.may_share_memory(done, stack):  # SciPy may write into what it was given, but need not
            stack[...] = done
    short = tuple(axis for axis in axes if stack.shape[axis + 1] <= SHORT)
    if short:
        for row in stack:  # one by one: a row's bytes do not depend on the others, and it fits into the cache
            row[...] = _products(row, short, inverse)


def _products(row: Array, axes: tuple[int, ...], inverse: bool) -> Array:
    """Transform short axes by products with matrices, those at the end together."""
    sides = row.shape
    first = len(sides)  # of the axes that are transformed together
    while first - 1 in axes and prod(sides[first - 1 :]) <= JOINED:
        first -= 1
    if first < len(sides):
        matrix = _matrix(sides[first:], row.dtype.str)
        row = row.reshape(-1, len(matrix)) @ (matrix if inverse else matrix.T)
    for axis in (axis for axis in axes if axis < first):
        matrix = _matrix((sides[axis],), row.dtype.str)
        block = row.reshape(prod(sides[:axis]), sides[axis], -1)
        row = (matrix.T if inverse else matrix) @ block
    return row.reshape(sides)


@lru_cache(maxsize=32)
def _matrix(sides: tuple[int, ...], dtype: str) -> Array:
    """Return the transform of a small tensor, flattened, as a matrix."""
    unit = np.eye(prod(sides)).reshape(-1, *sides)
    columns = fft.dctn(unit, axes=list(range(1, unit.ndim)), norm="ortho").reshape(len(unit), -1)
    return np.ascontiguousarray(columns.T, dtype=dtype)
