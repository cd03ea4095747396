"""Compression operators (11): s measurements of N coefficients, as SciPy linear operators.

Both are pseudo-random: devices and server build the same matrix from a shared seed.
"""

import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.sparse.linalg import LinearOperator

from airfeel import _checks
from airfeel.arrays import Array
from airfeel.streams import bits, stream

GAUSSIAN_LIMIT = 2**31  # bytes of one dense matrix; beyond this a fast transform is the only sane choice


class PartialDCT(LinearOperator):
    """``rows`` rows of an orthonormal DCT-II, drawn without replacement from ``seed``.

    Parameters
    ----------
    size, rows
        N and s: the operator has shape (rows, size).
    seed
        Shared by devices and server. The choice of rows depends only on (size, rows, seed) and the options
        below, not on platform or NumPy version.
    signs
        Multiply every column by a random sign first. Spreads the energy of a signal that is smooth along its
        index over all rows; A A^T = I stays.
    fast
        Use the next transform length with small prime factors (7850 -> 8000) by appending known zeros.
    block
        Cut the coefficients into blocks of at most this length (rounded to a fast length), each with its
        own transform and share of the rows: for very large N, where one long transform leaves the caches.
        Receivers decode blocks independently, each with a variance of its own.

    Notes
    -----
    Forward: pad x with zeros to (blocks, length), transform each block, keep the chosen rows. Adjoint: put
    the measurements back, fill with zeros, transform back, cut the padding off. Single precision input is
    transformed in single precision.

    Without padding A A^T = I. With padding only :attr:`extended`, the same operator on ``extended_size``
    coefficients, has orthonormal rows; receivers work there and know the appended coefficients to be zero.
    """

    def __init__(
        self,
        size: int,
        rows: int,
        seed: int,
        *,
        signs: bool = False,
        fast: bool = False,
        block: int | None = None,
    ) -> None:
        self.size, self.rows, self.seed = _sizes(size, rows, seed)
        self.signs, self.fast, self.block = bool(signs), bool(fast), block
        self.blocks, self.length = 1, self.size
        if block is not None:
            self.blocks = -(-self.size // min(_checks.integer("block", block, at_least=2), self.size))
            self.length = -(-self.size // self.blocks)
        if self.fast or block is not None:
            self.length = int(fft.next_fast_len(self.length, real=True))
        if self.rows < self.blocks:
            rule = f"must be >= {self.blocks}, one row for each block of length {self.length}"
            raise _checks.reject("rows", self.rows, rule)
        super().__init__(dtype=np.float64, shape=(self.rows, self.size))  # type: ignore[call-arg]

    @property
    def extended_size(self) -> int:
        """N', the number of coefficients including the appended zeros."""
        return self.blocks * self.length

    @property
    def padded(self) -> bool:
        """Whether zeros are appended, so that only :attr:`extended` has orthonormal rows."""
        return self.extended_size != self.size

    @cached_property
    def block_rows(self) -> NDArray[np.intp]:
        """Number of rows in each block, proportional to the coefficients it holds."""
        held = np.minimum(np.arange(1, self.blocks + 1) * self.length, self.size)
        # Every block gets one row; the others are shared by rounding the cumulated share.
        shared = (self.rows - self.blocks) * held // self.size
        return 1 + np.diff(shared, prepend=0)

    def covered_by(self, kept: NDArray[np.bool_]) -> bool:
        """Whether every block has a row among those that are kept."""
        return bool(self._kept_rows(kept).all())

    def _kept_rows(self, kept: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return how many rows of each block are kept."""
        return np.add.reduceat(kept.astype(np.intp), np.cumsum(self.block_rows) - self.block_rows)

    def only(self, kept: NDArray[np.bool_]) -> "PartialDCT":
        """Return the operator with some of its rows, at least one of every block.

        >>> whole = PartialDCT(size=100, rows=4, seed=1)
        >>> part = whole.only(np.array([True, False, True, True]))
        >>> part.shape, bool(np.allclose(part @ np.ones(100), (whole @ np.ones(100))[[0, 2, 3]]))
        ((3, 100), True)
        """
        if kept.shape != (self.rows,) or not self.covered_by(kept):
            raise _checks.reject("kept", kept, f"must be {self.rows} truth values, one of every block true")
        return self._with(block_rows=self._kept_rows(kept), index=self.index[kept], rows=int(kept.sum()))

    @property
    def extended(self) -> "PartialDCT":
        """The operator on all ``extended_size`` coefficients: its rows are orthonormal."""
        facts = {"block_rows": self.block_rows, "index": self.index, "sign": self.sign}
        return self._with(size=self.extended_size, **facts) if self.padded else self

    def _with(self, **facts: Any) -> "PartialDCT":
        part = copy.copy(self)
        part.__dict__.update(facts)
        LinearOperator.__init__(part, dtype=np.float64, shape=(part.rows, part.size))  # type: ignore[call-arg]
        return part

    @cached_property
    def index(self) -> NDArray[np.intp]:
        """Chosen transform coefficients in the flattened (blocks, length) layout, ascending."""
        keys = bits(self.seed, f"rows/{self.size}/{self.rows}").random_raw(self.extended_size)
        parts = zip(keys.reshape(self.blocks, self.length), self.block_rows, strict=True)
        chosen = [np.sort(np.argpartition(part, count - 1)[:count]) for part, count in parts]
        return np.concatenate([rows + block * self.length for block, rows in enumerate(chosen)])

    @cached_property
    def sign(self) -> NDArray[np.int8] | None:
        """The sign of every coefficient in the (blocks, length) layout, or None."""
        if not self.signs:
            return None
        raw = bits(self.seed, f"signs/{self.size}").random_raw(self.extended_size)
        return (1 - 2 * (raw >> np.uint64(63)).astype(np.int8)).reshape(self.blocks, self.length)

    def measure(self, x: Array) -> Array:
        """Apply the operator to rows of coefficients, (..., size)."""
        x = _floating(x)
        if self.padded:
            padded = np.zeros((*x.shape[:-1], self.extended_size), dtype=x.dtype)
            padded[..., : self.size] = x
            x = padded
        x = x.reshape(*x.shape[:-1], self.blocks, self.length)
        spectrum = fft.dct(x if self.sign is None else x * self.sign, norm="ortho", axis=-1)
        # take() lays the result out row by row, [..., index] column by column.
        return spectrum.reshape(*x.shape[:-2], self.extended_size).take(self.index, axis=-1)

    def backproject(self, y: Array) -> Array:
        """Apply the adjoint to rows of measurements, (..., rows)."""
        y = _floating(y)
        spectrum = np.zeros((*y.shape[:-1], self.extended_size), dtype=y.dtype)
        spectrum[..., self.index] = y
        spectrum = spectrum.reshape(*y.shape[:-1], self.blocks, self.length)
        x = fft.idct(spectrum, norm="ortho", axis=-1, overwrite_x=True)
        x = x if self.sign is None else x * self.sign
        return x.reshape(*y.shape[:-1], self.extended_size)[..., : self.size]

    def _matvec(self, x: Array) -> Array:
        return self.measure(x.reshape(-1))

    def _rmatvec(self, y: Array) -> Array:
        return self.backproject(y.reshape(-1))

    def _matmat(self, X: Array) -> Array:
        return self.measure(np.ascontiguousarray(X.T)).T

    def _rmatmat(self, Y: Array) -> Array:
        return self.backproject(np.ascontiguousarray(Y.T)).T


class GaussianMatrix(LinearOperator):
    """IID Gaussian matrix with columns scaled to unit norm, as A-DSGD compresses.

    Stored densely in single precision: 4 * rows * size bytes, refused above 2 GiB. Products are computed and
    returned in single precision.
    """

    def __init__(self, size: int, rows: int, seed: int) -> None:
        self.size, self.rows, self.seed = _sizes(size, rows, seed)
        if 4 * self.rows * self.size > GAUSSIAN_LIMIT:
            rule = f"4 * rows * size must be <= {GAUSSIAN_LIMIT} bytes; use PartialDCT for such sizes"
            raise _checks.reject("rows * size", self.rows * self.size, rule)
        super().__init__(dtype=np.float32, shape=(self.rows, self.size))  # type: ignore[call-arg]

    @cached_property
    def matrix(self) -> NDArray[np.float32]:
        """The dense matrix, made when first needed."""
        # Drawing is most of an A-DSGD round, and SFC64 draws normal numbers in two thirds of the usual time.
        entropy = bits(self.seed, f"gaussian/{self.size}/{self.rows}").random_raw(4)
        rng = np.random.Generator(np.random.SFC64(entropy.tolist()))
        matrix = rng.standard_normal((self.rows, self.size), dtype=np.float32)
        matrix /= np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
        return matrix

    def _matvec(self, x: Array) -> Array:
        return self.matrix @ x.astype(np.complex64 if np.iscomplexobj(x) else np.float32, copy=False)

    def _rmatvec(self, y: Array) -> Array:
        return self.matrix.T @ y.astype(np.complex64 if np.iscomplexobj(y) else np.float32, copy=False)

    _matmat = _matvec
    _rmatmat = _rmatvec


def dot_test(operator: LinearOperator, seed: int = 0, tolerance: float | None = None) -> None:
    """Check that ``operator`` and its adjoint belong together: <A x, y> = <x, A^T y> for random x and y.

    Raises
    ------
    ValueError
        With both inner products, where they differ by more than ``tolerance`` times ``|A x| |y|``
        (default: 1e-10, or 1e-4 for a single-precision operator).
    """
    if tolerance is None:
        tolerance = 1e-4 if operator.dtype == np.float32 else 1e-10
    rng = stream(seed, "dot test")
    x = rng.standard_normal(operator.shape[1])
    y = rng.standard_normal(operator.shape[0])
    forward = np.asarray(operator @ x, dtype=np.float64)
    left = float(forward @ y)
    right = float(x @ np.asarray(operator.T @ y, dtype=np.float64))
    if abs(left - right) > tolerance * float(np.linalg.norm(forward) * np.linalg.norm(y)):
        raise ValueError(f"dot test failed: <A x, y> = {left!r}, <x, A^T y> = {right!r}")


def _sizes(size: int, rows: int, seed: int) -> tuple[int, int, int]:
    size = _checks.integer("size", size, at_least=1)
    rows = _checks.integer("rows", rows, at_least=1)
    if rows > size:
        raise _checks.reject("rows", rows, f"must be <= size = {size}")
    return size, rows, _checks.integer("seed", seed, at_least=0)


def _floating(x: Array) -> Array:
    """Return numbers that a transform keeps the precision of; complex ones stay complex."""
    return x if x.dtype in (np.float32, np.float64, np.complex64, np.complex128) else x.astype(np.float64)
