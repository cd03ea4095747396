"""Low-rank aggregation with alternating factors (ACP-SGD), over the air.

Zhang, Zhang, Shi, Chu and Li, "Evaluation and optimization of gradient compression for distributed deep
learning", IEEE ICDCS 2023: one half of a step of PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019) in
each round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.ranges import Count
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes.common_k import coordinates
from airfeel.streams import derived, stream
from airfeel.units import count
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes, size_of

MatrixTable = NDArray[np.int64]  # one line for each matrix: its first coordinate, rows, columns, rank


@dataclass(frozen=True, slots=True, eq=False)
class LowRankState:
    """Where the matrices are, and the orthonormal factors that the devices need next, one after another.

    ``side`` says on which side of the matrices these factors stand; there are none before the first round.
    """

    symbols: int
    size: int
    layout: MatrixTable
    side: str
    factors: Array


@SCHEMES.register("low_rank", place=42)
@dataclass(frozen=True)
class LowRank(ErrorFeedback[LowRankState]):
    """All devices project their matrices on the same few directions, and the server reads the sum.

    Every tensor with two axes or more is a matrix M: the first axis by the rest. In odd rounds devices send
    P = M Q, and the server's estimate is P Q^T; in even rounds Q = M^T P, and P Q^T again. The factor that is
    not sent is the one heard last, made orthonormal, and the plan carries it: a power iteration, one half a
    round, that starts where it was (PowerSGD does both halves in a round). Both are linear, so they add up in
    the air, and the error memory keeps M - P Q^T of each device.

    All other coordinates (vectors, and matrices of one row or column) have a share s/N of the channel uses;
    the rank is the largest for which the longer factors fit in the rest. Channel uses that are left, many in
    the rounds of the shorter factors, go to the other coordinates first and then to entries of
    M - P Q^T; which ones is drawn anew in each round, for all devices alike.

    LASER (Makkuva et al., ICML 2024) sends both factors of PowerSGD in a round. The second depends on the sum
    of the first, so that takes two exchanges with the server in a round; here a round has one, and LASER is
    not offered.
    """

    rank: Count | None = option(None, "columns of a factor; unset: the largest rank that fits")

    exact = linear = common_support = symbols_are_coordinates = True

    def init(self, shapes: Shapes, setting: Setting) -> LowRankState:
        """Find the matrices, and the rank that fits."""
        matrices, size = find_matrices(shapes), size_of(shapes)
        if not len(matrices):
            rule = "low_rank needs a tensor with two axes, both longer than 1"
            raise _checks.reject("shapes", dict(shapes), rule)
        layout = choose_rank(matrices, size, setting.symbols, self.rank)
        return LowRankState(setting.symbols, size, layout, "right", np.zeros(0))

    def plan(self, state: LowRankState, seed: int, round: int) -> Plan:
        """Announce the factors that devices multiply by, and the seed of the coordinates sent as they are."""
        factors = state.factors
        if not factors.size:  # to start from: random directions
            random, sizes = stream(seed, "factors"), state.layout[:, 2:].tolist()  # columns, rank
            factors = _flat([_orthonormal(random.standard_normal(size)) for size in sizes])
        return {
            "layout": state.layout,
            "side": state.side,
            "factors": factors,
            "symbols": state.symbols,
            "seed": derived(seed, "coordinates", round),
        }

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send M Q of each matrix (or M^T P), then chosen coordinates of what these do not tell."""
        remainder = accumulated.copy()
        signals: list[Array] = []
        for matrix, factor, _ in _matrices(plan, remainder):
            factor = factor.astype(accumulated.dtype)
            product = matrix @ factor
            matrix -= product @ factor.T
            signals.append(product.reshape(len(product), -1))
        chosen = _chosen(plan, accumulated.shape[1])
        signals.append(remainder[:, chosen])
        remainder[:, chosen] = 0
        return Sent(np.concatenate(signals, axis=1), remainder)

    def remember(self, plan: Plan, accumulated: Array, sent: Sent, delivered: Array) -> Array:
        """Keep the entries of the products, and the coordinates, that were not delivered."""
        missed = ((1 - delivered) * sent.signal).astype(accumulated.dtype)
        return np.asarray(sent.remainder + _told(plan, missed, accumulated.shape[1]))

    def decode(self, state: LowRankState, plan: Plan, heard: Heard) -> tuple[Estimate, LowRankState]:
        """Multiply by the other factor, and keep what was heard, made orthonormal, for the next round."""
        if heard.silent:  # there are no new directions
            return Estimate(np.zeros(state.size)), state
        observation = heard.observation[None].astype(np.float64)
        factors = [
            _orthonormal(observation[0, where].reshape(-1, factor.shape[1]))
            for _, factor, where in _matrices(plan, np.zeros((1, state.size), np.float32))
        ]
        after = replace(state, side={"right": "left"}.get(plan["side"], "right"), factors=_flat(factors))
        return Estimate(_told(plan, observation, state.size)[0]), after


def find_matrices(shapes: Shapes) -> MatrixTable:
    """Return first coordinate, rows and columns of every tensor that is a matrix."""
    found, start = [], 0
    for shape in shapes.values():
        rows, columns = (shape[0], prod(shape[1:])) if len(shape) > 1 else (prod(shape), 1)
        if min(rows, columns) > 1:
            found.append((start, rows, columns))
        start += prod(shape)
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def choose_rank(matrices: MatrixTable, size: int, symbols: int, rank: int | None = None) -> MatrixTable:
    """Add to each matrix the rank that is given, or the largest that fits; a matrix has no more than its own.

    >>> choose_rank(np.array([[0, 784, 10]]), size=7850, symbols=1600)
    array([[  0, 784,  10,   2]])
    """
    rows, columns = matrices[:, 1], matrices[:, 2]
    others = size - int((rows * columns).sum())
    share = count(symbols / size, others) if others else 0

    def needed(rank: int) -> int:
        own = np.minimum(rank, np.minimum(rows, columns))
        return share + int(max(own @ rows, own @ columns))

    if rank is not None and needed(rank) > symbols:
        rule = f"needs {needed(rank)} channel uses in a round, and there are {symbols}"
        raise _checks.reject("rank", rank, rule)
    if needed(1) > symbols:
        rule = f"low_rank needs at least {needed(1)} channel uses in a round for rank 1"
        raise _checks.reject("symbols", symbols, rule)
    largest = int(np.minimum(rows, columns).max())
    chosen = rank or max(r for r in range(1, largest + 1) if needed(r) <= symbols)
    return np.column_stack([matrices, np.minimum(chosen, np.minimum(rows, columns))])


def _matrices(plan: Plan, rows: Array) -> Iterator[tuple[Array, Array, slice]]:
    """Yield each matrix of all rows, a view with the known factor on its right, and that factor.

    And where in a signal their product stands.
    """
    begin = told = 0
    for start, height, width, rank in plan["layout"].tolist():
        matrix = rows[:, start : start + height * width].reshape(-1, height, width)
        if plan["side"] == "left":
            matrix = matrix.swapaxes(1, 2)
        end, until = begin + matrix.shape[2] * rank, told + matrix.shape[1] * rank
        yield matrix, plan["factors"][begin:end].reshape(-1, rank), slice(told, until)
        begin, told = end, until


def _told(plan: Plan, signals: Array, size: int) -> Array:
    """Return what signals (rows, s) tell of the parameters (rows, N)."""
    told, end = np.zeros((len(signals), size), signals.dtype), 0
    for matrix, factor, where in _matrices(plan, told):
        product = signals[:, where].reshape(-1, matrix.shape[1], factor.shape[1])
        matrix[:] = product @ factor.astype(signals.dtype).T
        end = where.stop
    told[:, _chosen(plan, size)] += signals[:, end:]
    return told


def _chosen(plan: Plan, size: int) -> NDArray[np.intp]:
    """Return the coordinates sent as they are: those of no matrix first, then others."""
    layout, seed = plan["layout"], plan["seed"]
    inside = np.zeros(size, dtype=np.bool_)
    for start, height, width, _ in layout.tolist():
        inside[start : start + height * width] = True
    others, entries = np.flatnonzero(~inside), np.flatnonzero(inside)
    sent = layout[:, 1] if plan["side"] == "right" else layout[:, 2]
    left = plan["symbols"] - int(sent @ layout[:, 3])
    if left <= len(others):
        return others[coordinates(len(others), left, seed, 0)]
    return np.append(others, entries[coordinates(len(entries), left - len(others), seed, 0)])


def _orthonormal(matrix: Array) -> Array:
    """Return an orthonormal basis of (at least) the space of the columns."""
    return np.asarray(np.linalg.qr(matrix / (np.abs(matrix).max() or 1.0))[0])


def _flat(factors: Sequence[Any]) -> Array:
    return np.concatenate([factor.reshape(-1) for factor in factors])
