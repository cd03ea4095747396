"""Operators against the dense matrix, entry by entry, and against their own promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

import airfeel as af
from airfeel.operators import GAUSSIAN_LIMIT
from airfeel.streams import stream
from oracles import dense, dense_partial_dct

OPTIONS = [
    {"signs": signs, "fast": fast, "block": block}
    for signs in (False, True)
    for fast in (False, True)
    for block in (None, 13)
]


@pytest.fixture(params=OPTIONS, ids=str)
def operator(request):
    return af.PartialDCT(47, 19, seed=5, **request.param)  # 47 is prime: fast and block have to pad


def test_partial_dct_is_its_dense_matrix(operator):
    matrix = dense_partial_dct(operator)[:, :47]
    assert operator.shape == matrix.shape == (19, 47)
    x, y = stream(1, "x").standard_normal(47), stream(1, "y").standard_normal(19)
    assert np.allclose(operator @ x, matrix @ x, atol=1e-13)
    assert np.allclose(operator.T @ y, matrix.T @ y, atol=1e-13)
    assert np.allclose(dense(operator), matrix, atol=1e-13)
    X, Y = stream(2, "x").standard_normal((47, 6)), stream(2, "y").standard_normal((19, 4))
    kept = X.copy(), Y.copy()
    assert np.allclose(operator @ np.asfortranarray(X), matrix @ X, atol=1e-13)
    assert np.allclose(operator.T @ Y, matrix.T @ Y, atol=1e-13)
    assert (kept[0] == X).all() and (kept[1] == Y).all()


def test_extended_form_has_orthonormal_rows(operator):
    extended = operator.extended
    assert extended.shape == (19, operator.extended_size)
    matrix = dense(extended)
    assert np.allclose(matrix @ matrix.T, np.eye(19), atol=1e-13)
    assert np.allclose(matrix, dense_partial_dct(operator), atol=1e-13)
    af.dot_test(extended)
    # The restriction to N columns loses A A^T = I exactly where zeros were appended.
    restricted = matrix[:, :47] @ matrix[:, :47].T
    assert np.allclose(restricted, np.eye(19), atol=1e-13) == (not operator.padded)


def test_padding_only_where_asked_for():
    assert not af.PartialDCT(7850, 785, seed=0).padded
    assert af.PartialDCT(7850, 785, seed=0, fast=True).extended_size == 8000
    blocks = af.PartialDCT(7850, 785, seed=0, block=1000)
    assert blocks.length <= 1024 and blocks.blocks * blocks.length >= 7850


def test_every_block_is_measured():
    operator = af.PartialDCT(1000, 130, seed=0, block=100)
    assert operator.block_rows.sum() == 130
    counted = np.bincount(operator.index // operator.length, minlength=operator.blocks)
    assert (counted == operator.block_rows).all() and counted.min() >= 1
    assert np.abs(operator.block_rows[:-1] - 130 * operator.length / 1000).max() <= 1.5


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 400),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
    signs=st.booleans(),
    fast=st.booleans(),
    block=st.none() | st.integers(2, 50),
)
def test_dot_test_for_any_shape(size, share, seed, signs, fast, block):
    blocks = 1 if block is None else -(-size // min(block, size))
    rows = max(blocks, round(share * size), 1)
    operator = af.PartialDCT(size, rows, seed=seed, signs=signs, fast=fast, block=block)
    af.dot_test(operator, seed=seed)
    af.dot_test(operator.extended, seed=seed)
    assert np.unique(operator.index).size == rows  # drawn without replacement
    y = stream(seed, "y").standard_normal(rows)
    assert np.allclose(operator.extended @ (operator.extended.T @ y), y, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_of_the_input_is_kept(operator, dtype):
    x = stream(3, "x").standard_normal(47).astype(dtype)
    y = stream(3, "y").standard_normal(19).astype(dtype)
    matrix = dense_partial_dct(operator)[:, :47]
    tolerance = 50 * np.finfo(dtype).eps
    for result, expected in ((operator @ x, matrix @ x), (operator.T @ y, matrix.T @ y)):
        assert result.dtype == dtype
        assert np.allclose(result, expected, atol=tolerance)
    assert (operator @ np.arange(47)).dtype == np.float64


FROZEN_ROWS = [7, 16, 31, 36, 57, 77, 87, 92]
FROZEN_SIGNS = [-1, 1, 1, -1, 1, 1, 1, 1, 1, -1, -1, 1]
FROZEN_BLOCK_ROWS = [0, 24, 42, 48, 52, 82, 106, 107]


def test_rows_are_the_same_on_every_platform():
    # Frozen: devices and server on different machines must draw the same rows from the shared seed.
    assert af.PartialDCT(100, 8, seed=3).index.tolist() == FROZEN_ROWS
    assert af.PartialDCT(100, 8, seed=3, signs=True).sign[0, :12].tolist() == FROZEN_SIGNS
    assert af.PartialDCT(101, 8, seed=3, fast=True, block=25).index.tolist() == FROZEN_BLOCK_ROWS


def test_rows_depend_on_size_rows_and_seed_only():
    first = af.PartialDCT(1000, 100, seed=4).index
    assert (first == af.PartialDCT(1000, 100, seed=4, signs=True).index).all()
    for other in (af.PartialDCT(1000, 100, seed=5), af.PartialDCT(1001, 100, seed=4)):
        assert not np.array_equal(first, other.index)
    assert np.array_equal(af.PartialDCT(50, 50, seed=0).index, np.arange(50))


def test_rows_are_spread_evenly():
    # Each row is chosen with probability s/N: over 2000 seeds a count is binomial; 5 sigma hold for all.
    counts = sum(np.bincount(af.PartialDCT(40, 10, seed=s).index, minlength=40) for s in range(2000))
    assert np.abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"size": 10, "rows": 11, "seed": 0}, "rows = 11: must be <= size = 10"),
        ({"size": 0, "rows": 1, "seed": 0}, "size = 0"),
        ({"size": 10, "rows": 0, "seed": 0}, "rows = 0"),
        ({"size": 10, "rows": 5, "seed": -1}, "seed = -1"),
        ({"size": 10.5, "rows": 5, "seed": 0}, "size = 10.5"),
        ({"size": True, "rows": 1, "seed": 0}, "size = True"),
        ({"size": "10", "rows": 5, "seed": 0}, "size = '10'"),
        ({"size": 100, "rows": 5, "seed": 0, "block": 10}, "rows = 5: must be >= 10"),
        ({"size": 100, "rows": 50, "seed": 0, "block": 1}, "block = 1"),
    ],
)
def test_partial_dct_refuses(arguments, named):
    with pytest.raises(ValueError, match="^" + named.replace("'", ".")):
        af.PartialDCT(**arguments)


def test_gaussian_matrix_has_unit_columns():
    operator = af.GaussianMatrix(300, 120, seed=2)
    norms = np.linalg.norm(operator.matrix.astype(np.float64), axis=0)
    assert np.allclose(norms, 1, atol=1e-6)
    assert operator.matrix.dtype == np.float32 and operator.dtype == np.float32
    entries = operator.matrix * np.sqrt(120)
    assert abs(entries.mean()) < 5 / np.sqrt(entries.size)  # five standard errors
    assert abs(np.mean(entries**4) - 3 * 120 / 122) < 5 * np.sqrt(96 / entries.size)
    af.dot_test(operator)


def test_gaussian_matrix_refuses_what_does_not_fit_in_memory():
    rows = GAUSSIAN_LIMIT // 4 // 100_000 + 1
    with pytest.raises(ValueError, match=r"rows \* size = .*use PartialDCT"):
        af.GaussianMatrix(100_000, rows, seed=0)
    af.GaussianMatrix(100_000, rows - 1, seed=0)  # allowed, and nothing is allocated before it is needed
    with pytest.raises(ValueError, match="rows = 4: must be <= size = 3"):
        af.GaussianMatrix(3, 4, seed=0)


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-9), (np.float32, 1e-3)])
@pytest.mark.parametrize("seed", range(5))
def test_dot_test_finds_a_wrong_adjoint(dtype, error, seed):
    """One column: then <A x, y> is |A x| |y| up to a cosine, and the error is ten times what is allowed."""
    matrix = stream(seed, "matrix").standard_normal((1, 1)).astype(dtype)
    af.dot_test(aslinearoperator(matrix), seed)
    wrong = aslinearoperator(matrix)
    wrong._rmatvec = lambda y: (1 + error) * matrix.T @ y
    with pytest.raises(ValueError, match="dot test failed"):
        af.dot_test(wrong, seed)
