"""Receptions arranged as lanes: equally long, independent problems y = A x + n with A A^T = I.

A block of a block-diagonal operator is one lane, a plain operator is one lane, and a batch of receptions is
simply more lanes. The turbo decoder sees nothing else, so it tracks one variance per lane for free.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.sparse.linalg import LinearOperator

from airfeel import _checks
from airfeel.operators import PartialDCT
from airfeel.streams import stream

Array = NDArray[Any]


class Lanes(Protocol):
    """The linear half of the problem, for all lanes at once."""

    @property
    def rows(self) -> Array:
        """Number of measurements of each lane, shape (lanes,)."""
        ...

    @property
    def ratio(self) -> Array:
        """N/s of each lane, shape (lanes, 1)."""
        ...

    def backproject(self, x: Array) -> tuple[Array, Array]:
        """Return A^T (y - A x), shape (lanes, length), and |y - A x|^2 / rows, shape (lanes,)."""
        ...

    def select(self, keep: Array | slice) -> "Lanes":
        """Return the lanes chosen by a boolean mask or a slice."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DctLanes:
    """Lanes of partial DCTs, kept in the transform domain where choosing rows is a mask."""

    rows: Array
    ratio: Array
    spectrum: Array
    mask: Array
    sign: Array | None

    @staticmethod
    def build(operators: Sequence[PartialDCT], observations: Sequence[Array]) -> "DctLanes":
        """Lay out observations of operators that share one (blocks, length) layout."""
        dtype = observations[0].dtype
        spectrum = np.concatenate([a.scatter(y) for a, y in zip(operators, observations, strict=True)])
        mask = np.concatenate([a.scatter(np.ones(a.rows, dtype)) for a in operators])
        rows = np.concatenate([a.block_rows for a in operators])
        sign = None
        if any(a.signs for a in operators):
            shape = (operators[0].blocks, operators[0].length)
            plain = np.ones(shape, dtype)
            sign = np.concatenate([plain if a.sign is None else a.sign.astype(dtype) for a in operators])
        ratio = (operators[0].length / rows).astype(dtype)[:, None]
        return DctLanes(rows, ratio, spectrum, mask, sign)

    def backproject(self, x: Array) -> tuple[Array, Array]:
        """Transform, compare where something was measured, transform back."""
        gap = fft.dct(x if self.sign is None else x * self.sign, norm="ortho", axis=-1)
        np.subtract(self.spectrum, gap, out=gap)
        gap *= self.mask
        power = np.einsum("ij,ij->i", gap, gap) / self.rows
        back = fft.idct(gap, norm="ortho", axis=-1, overwrite_x=True)
        if self.sign is not None:
            back *= self.sign
        return back, power

    def select(self, keep: Array | slice) -> "DctLanes":
        """Return the chosen lanes."""
        sign = None if self.sign is None else self.sign[keep]
        return DctLanes(self.rows[keep], self.ratio[keep], self.spectrum[keep], self.mask[keep], sign)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorLanes:
    """Lanes of anybody's linear operators with orthonormal rows, one product at a time."""

    operators: tuple[LinearOperator, ...]
    observations: tuple[Array, ...]

    @property
    def rows(self) -> Array:
        """Number of measurements of each lane."""
        return np.array([y.size for y in self.observations])

    @property
    def ratio(self) -> Array:
        """N/s of each lane."""
        return (self.operators[0].shape[1] / self.rows).astype(self.observations[0].dtype)[:, None]

    def backproject(self, x: Array) -> tuple[Array, Array]:
        """Apply every operator to its lane."""
        back, power = np.empty_like(x), np.empty(len(x))
        for i, (operator, y) in enumerate(zip(self.operators, self.observations, strict=True)):
            gap = y - operator.matvec(x[i]).astype(x.dtype, copy=False)
            back[i] = operator.rmatvec(gap)
            power[i] = gap @ gap / gap.size
        return back, power

    def select(self, keep: Array | slice) -> "OperatorLanes":
        """Return the chosen lanes."""
        chosen = np.arange(len(self.operators))[keep]
        return OperatorLanes(
            tuple(self.operators[i] for i in chosen), tuple(self.observations[i] for i in chosen)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How the coefficients of one reception fill its lanes."""

    size: int
    blocks: int
    length: int

    def spread(self, values: Sequence[Array], fill: float = 0.0) -> Array:
        """Stack one vector per reception into (lanes, length), appending ``fill``."""
        if self.blocks * self.length == self.size:
            stacked = values[0] if len(values) == 1 else np.stack(values)
        else:
            stacked = np.full((len(values), self.blocks * self.length), fill, dtype=values[0].dtype)
            for row, value in zip(stacked, values, strict=True):
                row[: self.size] = value
        return stacked.reshape(-1, self.length)

    def repeat(self, values: Array) -> Array:
        """Give every coefficient of a reception the value of its block; one number is left as it is."""
        return values if self.blocks == 1 else np.repeat(values, self.length)[: self.size]

    def gather(self, lanes: Array) -> Array:
        """Undo :meth:`spread`: one row of ``size`` coefficients per reception."""
        return lanes.reshape(-1, self.blocks * self.length)[:, : self.size]


def arrange(operators: Sequence[LinearOperator], observations: Sequence[Array]) -> tuple[Layout, Lanes]:
    """Arrange receptions as lanes.

    Raises
    ------
    ValueError
        If an operator does not satisfy A A^T = I, which the linear step (22)(23) rests on.
    """
    first = operators[0]
    if isinstance(first, PartialDCT):
        layout = Layout(first.size, first.blocks, first.length)
        if all(isinstance(a, PartialDCT) and Layout(a.size, a.blocks, a.length) == layout for a in operators):
            return layout, DctLanes.build(operators, observations)  # type: ignore[arg-type]
        raise ValueError("operator: all operators of a batch must be of one kind and layout")
    for operator in operators:
        require_orthonormal_rows(operator)
    layout = Layout(int(first.shape[1]), 1, int(first.shape[1]))
    return layout, OperatorLanes(tuple(operators), tuple(observations))


def require_orthonormal_rows(operator: LinearOperator) -> None:
    """Refuse an operator without A A^T = I, found by trying it on a random vector."""
    probe = stream(0, "orthonormal rows").standard_normal(operator.shape[0])
    error = np.linalg.norm(operator.matvec(operator.rmatvec(probe)) - probe) / np.linalg.norm(probe)
    if not error < 1e-3:
        rule = f"rows must be orthonormal, A A^T = I (it is off by {error:.2g}); PartialDCT is"
        raise _checks.reject("operator", operator, rule)
