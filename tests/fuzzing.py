"""Random cases by number, and damage: the seed is fixed, printed, and chosen by the variable SEED."""

import os

import numpy as np
import pytest
from hypothesis import strategies as st

SEED = int(os.environ.get("SEED", "20"))


def cases(check, count, record_property, what, each=1):
    """Call ``check(rng)`` for ``count`` cases, each with a generator of its own; say which one fails.

    ``each`` is how many trials one case has.
    """
    for number in range(count):
        try:
            check(np.random.default_rng([SEED, number]))
        except Exception as error:
            pytest.fail(f"SEED={SEED}, case {number} of {what}: {type(error).__name__}: {error}")
    count_cases(record_property, count * each, what)


def count_cases(record_property, count, what):
    """Take note of what was tried: conftest.py prints the sums over all tests at the end of the session."""
    record_property("counted", [count, f"{what}, SEED={SEED}"])


def spoil(content, data):
    """Return bytes with one of them changed, or cut off at some place, as hypothesis draws it."""
    spoiled = bytearray(content)
    place = data.draw(st.integers(0, len(spoiled) - 1))
    if data.draw(st.booleans()):
        spoiled[place] ^= data.draw(st.integers(1, 255))
    else:
        del spoiled[place:]
    return bytes(spoiled)


def magnitude(rng, low=-320.0, high=308.0):
    """Return a positive number of any size, often an ordinary one, sometimes an end of the range."""
    kind = rng.integers(4)
    if kind == 0:
        return float(10.0 ** rng.uniform(-3, 3))
    if kind == 1:
        ends = [np.finfo(float).max, np.finfo(float).tiny, 5e-324, 1e154, 1e155, 1e-155, 1e-162, 1e38, 1e-38]
        return float(rng.choice(ends))
    return max(float(10.0 ** rng.uniform(low, high)), 5e-324)


def share(rng):
    """Return a probability inside (0, 1), near one of its ends as often as not."""
    kind = rng.integers(3)
    if kind == 0:
        return max(float(10.0 ** rng.uniform(-320, -1)), 5e-324)
    if kind == 1:
        return float(1 - max(10.0 ** rng.uniform(-16, -1), 2.0**-53))
    return float(rng.uniform(0.01, 0.99))
