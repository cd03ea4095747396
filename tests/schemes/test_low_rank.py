"""Alternating low-rank factors: half a PowerSGD step a round, linear, in exactly s channel uses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airfeel.schemes.low_rank import LowRank
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Heard, Setting, size_of
from rounds import QUIET

MATRIX = {"weights": (30, 12)}
SHAPES = {"weights": (30, 12), "biases": (12,), "kernel": (6, 2, 3, 3), "row": (1, 9)}
SIZE = size_of(SHAPES)


def exchange(scheme, state, rows, weights, round):
    """Carry the rows to the server without noise or memory; return estimate and state."""
    plan = scheme.plan(state, 5, round)
    heard = Heard(weights @ scheme.compress(plan, rows).signal, 0.0)
    estimate, after = scheme.decode(state, plan, heard)
    return estimate.mean, after, plan


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_two_rounds_on_a_fixed_matrix_are_one_iteration_of_powersgd(rank, seed):
    matrices = np.random.default_rng(seed).standard_normal((4, 30, 12))
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    rows = matrices.reshape(4, -1)
    scheme = LowRank(rank)
    state = scheme.init(MATRIX, Setting(4, 30 * rank))  # nothing is left for single entries in odd rounds
    first, state, plan = exchange(scheme, state, rows, weights, round=1)
    start = plan["factors"].reshape(12, rank)
    mean = np.einsum("m,mij->ij", weights, matrices)
    np.testing.assert_allclose(first.reshape(30, 12), mean @ start @ start.T, atol=1e-12)

    # PowerSGD, Algorithm 1: P = M Q, orthonormalised, Q = M^T P, estimate P Q^T.
    p, _ = np.linalg.qr(mean @ start)
    q = mean.T @ p
    second, state, plan = exchange(scheme, state, rows, weights, round=2)
    sent = weights @ scheme.compress(plan, rows).signal
    np.testing.assert_allclose(sent[: 12 * rank].reshape(12, rank), q, atol=1e-12)
    residual = mean - p @ q.T
    own = second.reshape(30, 12) - p @ q.T  # what is left of the channel uses tells entries of the residual
    told = np.abs(own) > 1e-9
    assert told.sum() == 30 * rank - 12 * rank
    np.testing.assert_allclose(own[told], residual[told], atol=1e-12)
    np.testing.assert_allclose(state.factors.reshape(12, rank), np.linalg.qr(q)[0], atol=1e-10)


@given(st.integers(50, SIZE), st.integers(0, 1000))
def test_exactly_s_symbols_are_sent_and_what_they_say_is_estimated_or_kept(symbols, seed):
    scheme, rng = LowRank(), np.random.default_rng(seed)
    state = scheme.init(SHAPES, Setting(3, symbols))
    weights, memory = np.array([0.5, 0.3, 0.2]), np.zeros((3, SIZE))
    for t in range(1, 5):
        plan = scheme.plan(state, seed, t)
        accumulated = memory + rng.standard_normal((3, SIZE))
        sent = scheme.compress(plan, accumulated)
        assert sent.signal.shape == (3, symbols)
        estimate, state = scheme.decode(state, plan, Heard(weights @ sent.signal, 0.0))
        memory = sent.remainder
        np.testing.assert_allclose(estimate.mean + weights @ memory, weights @ accumulated, atol=1e-10)


@pytest.mark.parametrize("symbols", [60, 90, 130, 200])
def test_the_rank_is_the_largest_that_fits_and_every_coordinate_has_its_turn(symbols):
    scheme = LowRank()
    state = scheme.init(SHAPES, Setting(1, symbols))
    others = 12 + 9
    share = max(1, round(symbols / SIZE * others))
    rank = max(r for r in range(1, 13) if r * 30 + min(r, 6) * 6 + share <= symbols)
    assert state.layout.tolist() == [[0, 30, 12, rank], [372, 6, 18, min(rank, 6)]]
    heard = np.zeros(SIZE, bool)
    for t in range(1, 60):
        mean, state, _ = exchange(scheme, state, np.ones((1, SIZE)), np.ones(1), round=t)
        heard |= mean != 0
    assert heard.all()


def test_a_round_in_which_nobody_is_heard_keeps_the_side():
    scheme = LowRank()
    state = begin(scheme, SHAPES, Setting(2, 90))
    g = np.random.default_rng(0).standard_normal((2, SIZE))
    nobody = np.zeros(2, bool)
    _, silent = carry(scheme, QUIET, state, g, np.full(2, 0.5), seed=4, round=1, sending=nobody)
    _, heard = carry(scheme, QUIET, silent, g, np.full(2, 0.5), seed=4, round=2)
    assert (silent.scheme.side, heard.scheme.side) == ("right", "left")


def test_updates_of_zero_leave_usable_factors():
    scheme = LowRank()
    state = scheme.init(SHAPES, Setting(1, 90))
    for t in (1, 2, 3):
        mean, state, plan = exchange(scheme, state, np.zeros((1, SIZE)), np.ones(1), round=t)
        assert not mean.any()
        factor = plan["factors"][: [30, 12][t % 2] * 2].reshape(-1, 2)
        np.testing.assert_allclose(factor.T @ factor, np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    ("scheme", "shapes", "symbols", "sentence"),
    [
        (LowRank(), MATRIX, 29, "symbols = 29: low_rank needs at least 30 channel uses in a round"),
        (LowRank(3), MATRIX, 89, "rank = 3: needs 90 channel uses in a round, and there are 89"),
        (LowRank(), {"theta": (50,)}, 20, "shapes = {'theta': (50,)}: low_rank needs a tensor with two"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(scheme, shapes, symbols, sentence):
    with pytest.raises(ValueError) as caught:
        scheme.init(shapes, Setting(2, symbols))
    assert str(caught.value).startswith(sentence)
