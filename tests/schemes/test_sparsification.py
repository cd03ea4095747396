import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from airfeel.schemes.sparsification import top_k

ROWS = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.floats(-4, 4, width=32).map(lambda v: np.float32(np.round(v))),  # rounding makes many ties
)


@given(ROWS, st.integers(0, 12))
def test_top_k_splits_exactly_and_keeps_the_largest(rows, keep):
    keep = min(keep, rows.shape[1])
    kept, remainder = top_k(rows, keep)
    assert (kept + remainder).tobytes() == (rows + 0).tobytes()  # + 0 turns -0. into 0., as the sum does
    for before, chosen in zip(rows, kept, strict=True):
        order = np.argsort(-np.abs(before), kind="stable")[:keep]  # lower index first among equals
        oracle = np.zeros_like(before)
        oracle[order] = before[order]
        np.testing.assert_array_equal(chosen, oracle)


@pytest.mark.parametrize("keep", [-1, 11, 2.5])
def test_top_k_refuses_a_count_that_does_not_fit(keep):
    with pytest.raises(ValueError, match="keep = "):
        top_k(np.zeros((2, 10)), keep)
