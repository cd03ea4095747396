"""One round as a linear problem y = A x + n with A A^T = I, laid out in blocks.

Arrays of coefficients are (blocks, length), what belongs to a block is (blocks, 1); a plain operator is one
block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

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


class Residual(NamedTuple):
    """What m leaves of the observation: y - A m as the linear step weights it, its mean square, and the
    mean square that was to be expected."""

    weighted: Array
    power: Array
    expected: Array


@dataclass(frozen=True, eq=False)
class Problem:
    """y = A x + n with all measurements in one row, block after block, and the same noise in all.

    ``index`` are the rows of the blocks' DCTs, ``sign`` the signs of the columns; anybody's own operator has
    neither. ``edges`` tell where the measurements of a block begin, ``oversampling`` is N/s of every block.
    The first ``size`` coefficients are unknown, those appended to fill the last block are zero.
    """

    size: int
    shape: tuple[int, int]
    operator: LinearOperator
    index: Array | None
    sign: Array | None
    observation: Array
    noise_var: Array
    edges: Array
    oversampling: Array

    def forward(self, x: Array) -> Array:
        """Return A x: transform, and take what was measured."""
        if self.index is None:
            return np.asarray(self.operator.matvec(x[0])).astype(x.dtype, copy=False)
        spectrum = fft.dct(x if self.sign is None else x * self.sign, norm="ortho", axis=-1)
        return np.asarray(spectrum.reshape(-1).take(self.index))

    def adjoint(self, y: Array) -> Array:
        """Return A^T y: put the measurements into an empty spectrum, and transform back."""
        if self.index is None:
            return np.asarray(self.operator.rmatvec(y)).astype(y.dtype, copy=False)[None]
        spectrum = np.zeros(self.shape, y.dtype)
        spectrum.reshape(-1)[self.index] = y
        x = np.asarray(fft.idct(spectrum, norm="ortho", axis=-1, overwrite_x=True))
        return x if self.sign is None else np.multiply(x, self.sign, out=x)

    @cached_property
    def count(self) -> Array:
        """Number of measurements of every block."""
        return np.diff(self.edges).astype(self.oversampling.dtype)[:, None]

    @cached_property
    def _line(self) -> tuple[Array, Array]:
        return self.oversampling - 1, self.oversampling * self.noise_var

    def tau(self, v: Array) -> Array:
        """Return (N/s - 1) v + (N/s) sigma^2: the variance of z where that of m is v (23)(26)."""
        slope, offset = self._line
        return slope * v + offset

    def residual(self, gap: Array, v: Array) -> Residual:
        """Return what a gap y - A m means where m has the variance v."""
        power = self.added(gap * gap) / self.count
        return Residual(gap * self.spread(self.oversampling), power, v + self.noise_var)

    def added(self, values: Array) -> Array:
        """Add up over the measurements of each block."""
        return np.add.reduceat(values, self.edges[:-1])[:, None]

    def spread(self, values: Array) -> Array:
        """Give every measurement the value of its block."""
        return values[0] if len(values) == 1 else np.repeat(values[:, 0], np.diff(self.edges))

    def laid_out(self, x: Array) -> Array:
        """Lay N values out as (blocks, length), zeros appended."""
        missing = self.shape[0] * self.shape[1] - self.size
        x = np.concatenate([x, np.zeros(missing, x.dtype)]) if missing else x
        return x.reshape(self.shape)

    def in_line(self, x: Array) -> Array:
        """Undo :meth:`laid_out`; a value of each of several blocks goes to its coefficients."""
        if x.shape[1] == 1 and len(x) > 1:
            x = np.repeat(x, self.shape[1])
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
        rows = slice(int(self.edges[part.start]), int(self.edges[part.stop]))
        blocks, length = part.stop - part.start, self.shape[1]
        return replace(
            self,
            size=blocks * length,
            shape=(blocks, length),
            index=None if self.index is None else self.index[rows] - part.start * length,
            sign=None if self.sign is None else self.sign[part],
            observation=self.observation[rows],
            noise_var=self.noise_var if self.noise_var.size == 1 else self.noise_var[rows],
            edges=self.edges[part.start : part.stop + 1] - rows.start,
            oversampling=self.oversampling[part],
        )


class UnequalProblem(Problem):
    """The same with a noise variance of its own for every measurement: each counts u = 1 / (v + sigma^2)."""

    def tau(self, v: Array) -> Array:
        """Return N / sum(u) - v, written without cancellation."""
        u = 1 / (self.spread(v) + self.noise_var)
        return (self.shape[1] - self.count + self.added(u * self.noise_var)) / self.added(u)

    def residual(self, gap: Array, v: Array) -> Residual:
        """Return what a gap y - A m means: the linear step is z = m + N / sum(u) A^T [u (y - A m)]."""
        u = 1 / (self.spread(v) + self.noise_var)
        total, weighted = self.added(u), gap * u
        power = self.added(gap * weighted) / total
        return Residual(weighted * self.spread(self.shape[1] / total), power, self.count / total)


def pose(operator: LinearOperator, heard: Scaled) -> Problem:
    """Return the problem that a reception poses; refuse an operator without A A^T = I."""
    dtype, index, sign = heard.observation.dtype, None, None
    if isinstance(operator, PartialDCT):
        shape, rows, index = (operator.blocks, operator.length), operator.block_rows, operator.index
        sign = None if operator.sign is None else operator.sign.astype(dtype)
    else:
        require_orthonormal_rows(operator)
        shape, rows = (1, int(operator.shape[1])), np.array([operator.shape[0]])
    # Rounding is a noise, too: with it nothing is divided by zero, also for s = N without noise.
    noise_var = np.maximum(heard.noise_var, np.finfo(dtype).eps ** 2).astype(dtype).reshape(-1)
    edges = np.zeros(len(rows) + 1, np.intp)
    np.cumsum(rows, out=edges[1:])
    oversampling = (shape[1] / rows[:, None]).astype(dtype)
    kind = Problem if noise_var.size == 1 else UnequalProblem
    size = int(operator.shape[1])
    return kind(size, shape, operator, index, sign, heard.observation, noise_var, edges, oversampling)


def require_orthonormal_rows(operator: LinearOperator) -> None:
    """Refuse an operator without A A^T = I, which the linear step rests on; try it on a random vector."""
    probe = stream(0, "orthonormal rows").standard_normal(operator.shape[0])
    error = np.linalg.norm(operator.matvec(operator.rmatvec(probe)) - probe) / np.linalg.norm(probe)
    if not error < 1e-3:
        rule = f"rows must be orthonormal, A A^T = I (it is off by {error:.2g}); PartialDCT is"
        raise _checks.reject("operator", operator, rule)
