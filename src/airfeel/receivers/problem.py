"""One round as a linear problem y = A x + n with A A^T = I, laid out in blocks.

Any other matrix is brought into this form by its singular values.

Arrays of coefficients are (blocks, length), what belongs to a block is (blocks, 1), or a number where there
is one block, as with a plain operator.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.fftpack import dct, idct  # those of scipy.fft, called at half the cost
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from airfeel import _checks
from airfeel.arrays import Indices
from airfeel.operators import GAUSSIAN_LIMIT, PartialDCT
from airfeel.receivers.base import Reception
from airfeel.receivers.scale import Array, Scaled
from airfeel.streams import stream

LARGEST = 4000  # rows or columns, whichever are fewer, of a matrix whose singular values are found
PACE, LONGER = 0.5, 6  # with such a matrix: of an iteration's way, and times as many iterations
TOGETHER = 1 << 16  # coefficients of the blocks decoded together; more of them leave the caches


class Residual(NamedTuple):
    """What m leaves of the observation: y - A m as the linear step weights it, its mean square, and the
    mean square that was to be expected."""

    weighted: Array
    power: Array
    expected: Array


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """y = A x + n with all measurements in one row, block after block, and the same noise in all.

    ``index`` are the rows of the blocks' DCTs, ``sign`` the signs of the columns; anybody's own operator has
    neither. ``edges`` tell where the measurements of a block begin, ``count`` how many it has, and
    ``oversampling`` is its N/s. The first ``size`` coefficients are unknown, those appended to fill the last
    block are zero.
    """

    size: int
    shape: tuple[int, int]
    operator: LinearOperator
    index: Indices | None
    sign: Array | None
    observation: Array
    noise_var: Array
    edges: Indices
    count: Array
    oversampling: Array

    def linear_step(self, m: Array, v: Array) -> tuple[Array, Array, Residual]:
        """Return z, its variance tau, and the residual: (22)(23)(25)(26) reduced by A A^T = I.

        z = m + (N/s) A^T (y - A m), tau = (N/s - 1) v + (N/s) sigma^2 where all measurements have the same
        noise.
        """
        if self.index is None:
            residual = self.residual(self.observation - self.operator.matvec(m[0]).astype(m.dtype), v)
            z = m + self.operator.rmatvec(residual.weighted).astype(m.dtype)
            return z, self.tau(v), residual
        spectrum = dct(m if self.sign is None else m * self.sign, norm="ortho")
        seen = spectrum.reshape(-1).take(self.index)
        residual = self.residual(self.observation - seen, v)
        seen += residual.weighted
        spectrum.reshape(-1)[self.index] = seen  # one transform leads back m and what is added to it
        z = np.asarray(idct(spectrum, norm="ortho", overwrite_x=True))
        return z if self.sign is None else np.multiply(z, self.sign, out=z), self.tau(v), residual

    def tau(self, v: Array) -> Array:
        """Return (N/s - 1) v + (N/s) sigma^2: the variance of z where that of m is v (23)(26)."""
        return np.asarray((self.oversampling - 1) * v + self.oversampling * self.noise_var)[()]

    def residual(self, gap: Array, v: Array) -> Residual:
        """Return what a gap y - A m means where m has the variance v."""
        power = self.added(gap * gap) / self.count
        return Residual(gap * self.spread(self.oversampling), power, v + self.noise_var)

    def added(self, values: Array) -> Array:
        """Add up over the measurements of each block."""
        if len(self.edges) == 2:
            return np.asarray(np.add.reduce(values))[()]
        return np.add.reduceat(values, self.edges[:-1])[:, None]

    def spread(self, values: Array) -> Array:
        """Give every measurement the value of its block."""
        return np.repeat(values[:, 0], np.diff(self.edges)) if np.ndim(values) else values

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
        of_each = part if blocks > 1 else (part.start, 0)
        return replace(
            self,
            size=blocks * length,
            shape=(blocks, length),
            index=None if self.index is None else self.index[rows] - part.start * length,
            sign=None if self.sign is None else self.sign[part],
            observation=self.observation[rows],
            noise_var=self.noise_var[rows] if np.ndim(self.noise_var) else self.noise_var,
            edges=self.edges[part.start : part.stop + 1] - rows.start,
            count=self.count[of_each],
            oversampling=self.oversampling[of_each],
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
    """Return the problem that a reception with A A^T = I poses."""
    dtype, index, sign = heard.observation.dtype, None, None
    if isinstance(operator, PartialDCT):
        shape, rows, index = (operator.blocks, operator.length), operator.block_rows, operator.index
        sign = None if operator.sign is None else operator.sign.astype(dtype)
    else:
        shape, rows = (1, int(operator.shape[1])), np.array([operator.shape[0]])
    # Rounding is a noise, too: with it nothing is divided by zero, also for s = N without noise.
    noise_var = np.maximum(heard.noise_var, np.finfo(dtype).eps ** 2).astype(dtype).reshape(-1)
    edges = np.zeros(len(rows) + 1, np.intp)
    np.cumsum(rows, out=edges[1:])
    count: Any = rows.astype(dtype)[:, None] if len(rows) > 1 else dtype.type(rows[0])
    kind = Problem if noise_var.size == 1 else UnequalProblem
    noise_var = noise_var if noise_var.size > 1 else noise_var[0]
    heard_so = heard.observation, noise_var, edges, count, shape[1] / count
    return kind(int(operator.shape[1]), shape, operator, index, sign, *heard_so)


def orthonormal(reception: Reception) -> tuple[Reception, float, int]:
    """Return the reception as one with A A^T = I and the same posterior; and the pace, and how much longer.

    With noise of variance one, y = U D V^T x + n says of x what D^-1 U^T y = V^T x + D^-1 n says: orthonormal
    rows, and a noise of its own in every measurement. The linear step for those is the one of OAMP and vector
    AMP for A: LMMSE, with its extrinsic part. What is known of random rows does not hold for those of any
    matrix: with correlated columns the iteration often comes to rest only at a slower pace.
    """
    operator = reception.operator
    rows, size = operator.shape
    if isinstance(operator, PartialDCT):
        return reception, 1.0, 1
    probe = stream(0, "orthonormal rows").standard_normal(rows)
    back = _product(operator, operator.rmatvec, probe)
    seen = _product(operator, operator.matvec, back)
    # <A A^T p, p> is |A^T p|^2, if it is the transpose.
    if abs(seen @ probe - back @ back) > 1e-3 * np.linalg.norm(seen) * np.linalg.norm(probe):
        raise _checks.reject("operator", operator, "rmatvec must multiply by the (conjugate) transpose")
    if np.linalg.norm(seen - probe) < 1e-3 * np.linalg.norm(probe):
        return reception, 1.0, 1
    if min(rows, size) > LARGEST or 8 * rows * size > GAUSSIAN_LIMIT:
        rule = f"rows must be orthonormal, A A^T = I, or rows or columns at most {LARGEST}"
        held = f"and 8 * rows * columns at most {GAUSSIAN_LIMIT} bytes; PartialDCT is"
        raise _checks.reject("operator", operator, f"its shape is {operator.shape}: {rule}, {held}")
    y, noise_var = reception.observation, np.broadcast_to(reception.noise_var, rows)
    # Rounding is a noise, too: no measurement is worth infinitely more than another.
    power = np.maximum(
        noise_var, max(float(noise_var.max()), float(np.mean(np.square(y, dtype=float)))) * 1e-20
    )
    if not power.all():  # nothing but zeros was heard
        power = np.ones(rows)
    width = np.sqrt(power / power.max())
    left, values, right = _decomposed(operator, width, back)
    noise = power.max() / np.square(values)
    heard = left.T @ (y / width) / values
    return Reception(heard.astype(y.dtype), aslinearoperator(right), noise), PACE, LONGER


def _product(operator: LinearOperator, multiply: Callable[[Array], Array], x: Array) -> Array:
    """Return what somebody's operator makes of x."""
    try:
        found = multiply(x)
    except NotImplementedError as error:
        raise _checks.reject("operator", operator, f"must have matvec and rmatvec: {error}") from None
    if not np.isfinite(found).all():
        raise _checks.reject("operator", operator, "all entries of the matrix must be finite")
    return found


_known: dict[bytes, tuple[Array, Array, Array]] = {}  # the last matrix: rounds come one after another


def _decomposed(operator: LinearOperator, width: Array, probed: Array) -> tuple[Array, Array, Array]:
    """Return the singular values that are not zero of a matrix with its rows divided by ``width``.

    Matrices that make the same (``probed``) of a random vector are the same.
    """
    name = probed.tobytes() + width.tobytes()
    if name not in _known:
        rows, size = operator.shape
        dense = operator.matmat(np.eye(size)) if size < rows else operator.rmatmat(np.eye(rows)).T
        matrix = np.ascontiguousarray(dense, dtype=np.float64) / width[:, None]
        left, values, right = linalg.svd(matrix, full_matrices=False, overwrite_a=True, check_finite=False)
        kept = values > values.max(initial=0) * max(matrix.shape) * np.finfo(float).eps
        if not kept.any():
            raise _checks.reject("operator", operator, "the matrix must not be zero")
        _known.clear()
        _known[name] = left[:, kept], values[kept], right[kept]
    return _known[name]
