"""Conversions: inverse to one another, alike for numbers and arrays, and safe at zero."""

import numpy as np
import pytest

from airfeel.units import count, decibel, from_decibel

RATIOS = [1e-300, 1e-40, 1e-9, 0.5, 1.0, 2.0, 1e30]


def test_decibel_of_known_ratios():
    assert [decibel(ratio) for ratio in (1.0, 10.0, 0.01)] == [0.0, 10.0, -20.0]
    assert decibel(0.0) == decibel(1e-300) == -400.0
    assert np.isnan(decibel(float("nan")))


def test_numbers_and_arrays_are_alike():
    levels = decibel(np.array(RATIOS))
    np.testing.assert_allclose(levels, [decibel(ratio) for ratio in RATIOS], rtol=1e-15)
    np.testing.assert_allclose(from_decibel(levels), [from_decibel(float(level)) for level in levels])
    np.testing.assert_allclose(from_decibel(levels), np.maximum(RATIOS, 1e-40))
    np.testing.assert_array_equal(decibel(np.zeros(2)), [-400.0, -400.0])


@pytest.mark.parametrize(
    ("share", "size", "expected"), [(0.1, 7850, 785), (1e-9, 10, 1), (1.0, 3, 3), (0.26, 10, 3)]
)
def test_a_share_is_a_whole_number_and_never_nothing(share, size, expected):
    assert count(share, size) == expected and isinstance(count(share, size), int)
