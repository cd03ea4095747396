"""Whole numbers in a code: short, and nothing but what was written is read."""

import numpy as np
import pytest

from airfeel.uplink import rice


@pytest.mark.parametrize("share", [0.0, 0.001, 0.04, 0.3, 0.5, 0.9, 1.0])
def test_places_come_back_and_are_no_longer_than_a_bitmap(share):
    size = 20_000
    places = np.flatnonzero(np.random.default_rng(3).random(size) < share)
    coded = rice.write(rice.gaps(places))
    assert np.array_equal(rice.places_of(rice.read(coded, most=size)), places)
    assert len(coded) <= rice.HEAD + size // 8 + 1
    if 0 < share < 0.05:  # as short as chance allows, but for half a bit each
        entropy = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
        assert 8 * (len(coded) - rice.HEAD) < size * entropy + 0.5 * len(places) + 8


@pytest.mark.parametrize("numbers", [[0], [2**31 - 1], [0, 0, 2**31 - 1, 5], list(range(100))])
def test_numbers_of_any_size_come_back(numbers):
    assert rice.read(rice.write(np.array(numbers)), most=len(numbers)).tolist() == numbers


@pytest.mark.parametrize(
    ("coded", "reason"),
    [
        (np.zeros(3, np.uint8), "coded numbers are uint8"),
        (np.zeros(9), "coded numbers are float64"),
        (np.array([40, 1, 0, 0, 0, 255], np.uint8), "coded numbers"),
        (np.array([1, 255, 255, 255, 255, 1], np.uint8), "4294967295 coded numbers: must be at most 10"),
        (np.array([0, 3, 0, 0, 0, 0b11000000], np.uint8), "has 2 places: must have 3"),
        (np.array([0, 1, 0, 0, 0, 128, 0, 0], np.uint8), "has 1 places: must have 1"),
    ],
)
def test_other_bytes_are_refused(coded, reason):
    with pytest.raises(ValueError, match=reason):
        rice.read(coded, most=10)
