"""Random numbers by address: the same everywhere, independent of one another, no hidden state."""

import numpy as np
import pytest

from airfeel.streams import bits, stream


def test_an_address_always_gives_the_same_numbers():
    first = stream(7, "noise", round=3, device=2).standard_normal(5)
    stream(7, "noise", round=3, device=2).standard_normal(100)
    assert np.array_equal(first, stream(7, "noise", round=3, device=2).standard_normal(5))
    assert np.array_equal(first, stream(np.int64(7), "noise", np.int32(3), np.uint8(2)).standard_normal(5))


def test_raw_bits_are_frozen():
    assert bits(7, "noise", 3, 2).random_raw(3).tolist() == [
        14439592194257981779,
        11657559443466871052,
        10240626935795576002,
    ]


def test_all_addresses_differ():
    addresses = [
        (seed, purpose, round, device)
        for seed in (0, 1, 11)
        for purpose in ("noise", "rows", "1/noise")
        for round in (0, 1, 11)
        for device in (0, 1, 11)
    ]
    draws = {int(bits(*address).random_raw()) for address in addresses}
    assert len(draws) == len(addresses)


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    stream(0, "noise").standard_normal(10)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    "address", [(-1, "a"), (0, "a", -1), (0, "a", 0, -1), (1.5, "a"), ("x", "a"), (True, "a")]
)
def test_bad_addresses_are_refused(address):
    with pytest.raises(ValueError, match="must be a whole number >= 0"):
        stream(*address)
