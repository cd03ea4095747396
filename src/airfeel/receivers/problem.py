"""One round as a linear problem y = A x + n with A A^T = I, laid out in blocks.

Arrays of coefficients are (blocks, length), with one variance per block; a plain operator is one block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.sparse.linalg import LinearOperator

from airfeel import _checks
from airfeel.operators import PartialDCT
from airfeel.receivers.scale import Scaled
from airfeel.streams import stream

Array = NDArray[Any]

TOGETHER = 1 << 16  # coefficients of the blocks decoded together; more of them leave the caches


class Rows(Protocol):
    """The matrix A: orthonormal rows."""

    def forward(self, x: Array) -> Array:
        """Return A x, (rows,), for x of (blocks, length)."""
        ...

    def adjoint(self, y: Array) -> Array:
        """Return A^T y, (blocks, length)."""
        ...

    def only(self, blocks: slice, rows: slice) -> "Rows":
        """Return the part that belongs to some blocks, whose rows these are."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DctRows:
    """Some rows of one DCT per block; ``index`` counts through all blocks."""

    shape: tuple[int, int]
    index: Array
    sign: Array | None

    def forward(self, x: Array) -> Array:
        """Transform, and take what was measured."""
        spectrum = fft.dct(x if self.sign is None else x * self.sign, norm="ortho", axis=-1)
        return np.asarray(spectrum.reshape(-1).take(self.index))

    def adjoint(self, y: Array) -> Array:
        """Put the measurements into an empty spectrum, and transform back."""
        spectrum = np.zeros(self.shape, y.dtype)
        spectrum.reshape(-1)[self.index] = y
        x = fft.idct(spectrum, norm="ortho", axis=-1, overwrite_x=True)
        if self.sign is not None:
            x *= self.sign
        return np.asarray(x)

    def only(self, blocks: slice, rows: slice) -> "DctRows":
        """Return some of the blocks."""
        length = self.shape[1]
        sign = None if self.sign is None else self.sign[blocks]
        return DctRows((blocks.stop - blocks.start, length), self.index[rows] - blocks.start * length, sign)


@dataclass(frozen=True, slots=True, eq=False)
class OwnRows:
    """Anybody's linear operator with orthonormal rows, as one block."""

    operator: LinearOperator

    def forward(self, x: Array) -> Array:
        """Apply the operator."""
        return np.asarray(self.operator.matvec(x[0])).astype(x.dtype, copy=False)

    def adjoint(self, y: Array) -> Array:
        """Apply its adjoint."""
        return np.asarray(self.operator.rmatvec(y)).astype(y.dtype, copy=False)[None]

    def only(self, blocks: slice, rows: slice) -> "OwnRows":
        """Return the only block."""
        return self


class Residual(NamedTuple):
    """What m leaves of the observation: y - A m with the weights of the linear step, and its mean square.

    ``expected`` is the mean square to be expected.
    """

    weighted: Array
    power: Array
    expected: Array


@dataclass(frozen=True, eq=False)
class Problem:
    """y = A x + n with all measurements in one row, block after block, and the same noise in all.

    ``edges`` tell where the measurements of a block begin; ``gain`` is N/s of every block, (blocks, 1). The
    first ``size`` coefficients are unknown, those appended to fill the blocks are zero.
    """

    size: int
    shape: tuple[int, int]
    matrix: Rows
    observation: Array
    noise_var: Array
    edges: Array
    gain: Array

    @cached_property
    def count(self) -> Array:
        """Number of measurements of every block."""
        return np.diff(self.edges).astype(self.gain.dtype)[:, None]

    @cached_property
    def _line(self) -> tuple[Array, Array]:
        return self.gain - 1, self.gain * self.noise_var

    def tau(self, v: Array) -> Array:
        """Return (N/s - 1) v + (N/s) sigma^2: the variance of z where that of m is v (23)(26)."""
        slope, offset = self._line
        return slope * v + offset

    def residual(self, gap: Array, v: Array) -> Residual:
        """Return what a gap y - A m means where m has the variance v."""
        power = self.added(gap * gap) / self.count
        return Residual(gap * self.spread(self.gain), power, v + self.noise_var)

    def added(self, values: Array) -> Array:
        """Add up over the measurements of each block."""
        return np.add.reduceat(values, self.edges[:-1])[:, None]

    def spread(self, values: Array) -> Array:
        """Give every measurement the value of its block."""
        return values[0] if len(values) == 1 else np.repeat(values[:, 0], np.diff(self.edges))

    def laid_out(self, x: Array) -> Array:
        """Lay N values out as (blocks, length), zeros appended."""
        missing = self.shape[0] * self.shape[1] - self.size
        if missing:
            x = np.concatenate([x, np.zeros(missing, x.dtype)])
        return x.reshape(self.shape)

    def in_line(self, x: Array) -> Array:
        """Undo :meth:`laid_out`; a value of each block goes to its coefficients, that of a single one stays."""
        if x.shape[1] == 1 < self.shape[1]:
            x = x if len(x) == 1 else np.repeat(x, self.shape[1])
        return x.reshape(-1)[: self.size]

    def parts(self) -> Iterator[tuple[slice, "Problem"]]:
        """Yield a few blocks at a time, so that the whole iteration stays in the second-level cache."""
        blocks, length = self.shape
        height = max(1, TOGETHER // length)
        for top in range(0, blocks, height):
            part = slice(top, min(top + height, blocks))
            yield part, self if height >= blocks else self.only(part)

    def only(self, part: slice) -> "Problem":
        """Return the problem of some of the blocks."""
        first, last = int(self.edges[part.start]), int(self.edges[part.stop])
        blocks, length = part.stop - part.start, self.shape[1]
        return replace(
            self,
            size=blocks * length,
            shape=(blocks, length),
            matrix=self.matrix.only(part, slice(first, last)),
            observation=self.observation[first:last],
            noise_var=self.noise_var if self.noise_var.size == 1 else self.noise_var[first:last],
            edges=self.edges[part.start : part.stop + 1] - first,
            gain=self.gain[part],
        )


class UnequalProblem(Problem):
    """The same with a noise variance of its own for every measurement: each counts u = 1 / (v + sigma^2)."""

    def tau(self, v: Array) -> Array:
        """Return N / sum(u) - v, written without cancellation."""
        u = 1 / (self.spread(v) + self.noise_var)
        return (self.shape[1] - self.count + self.added(u * self.noise_var)) / self.added(u)

    def residual(self, gap: Array, v: Array) -> Residual:
        """Return what a gap y - A m means where m has the variance v."""
        u = 1 / (self.spread(v) + self.noise_var)
        total, weighted = self.added(u), gap * u
        power = self.added(gap * weighted) / total
        return Residual(weighted * self.spread(self.shape[1] / total), power, self.count / total)


def pose(operator: LinearOperator, heard: Scaled) -> Problem:
    """Return the problem that a reception poses.

    Raises
    ------
    ValueError
        If the operator does not satisfy A A^T = I, which the linear step (22)(23) rests on.
    """
    dtype = heard.observation.dtype
    if isinstance(operator, PartialDCT):
        shape, rows = (operator.blocks, operator.length), operator.block_rows
        sign = None if operator.sign is None else operator.sign.astype(dtype)
        matrix: Rows = DctRows(shape, operator.index, sign)
    else:
        require_orthonormal_rows(operator)
        shape, rows = (1, int(operator.shape[1])), np.array([operator.shape[0]])
        matrix = OwnRows(operator)
    # Rounding is a noise, too: with it nothing below is divided by zero, also for s = N without noise.
    noise_var = np.maximum(heard.noise_var, np.finfo(dtype).eps ** 2).astype(dtype).reshape(-1)
    edges = np.zeros(len(rows) + 1, np.intp)
    np.cumsum(rows, out=edges[1:])
    kind = Problem if noise_var.size == 1 else UnequalProblem
    return kind(
        size=int(operator.shape[1]),
        shape=shape,
        matrix=matrix,
        observation=heard.observation,
        noise_var=noise_var,
        edges=edges,
        gain=(shape[1] / rows[:, None]).astype(dtype),
    )


def require_orthonormal_rows(operator: LinearOperator) -> None:
    """Refuse an operator without A A^T = I, found by trying it on a random vector."""
    probe = stream(0, "orthonormal rows").standard_normal(operator.shape[0])
    error = np.linalg.norm(operator.matvec(operator.rmatvec(probe)) - probe) / np.linalg.norm(probe)
    if not error < 1e-3:
        rule = f"rows must be orthonormal, A A^T = I (it is off by {error:.2g}); PartialDCT is"
        raise _checks.reject("operator", operator, rule)
