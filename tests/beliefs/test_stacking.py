"""Arrays of several streams in common ones, and back."""

import numpy as np
import pytest

from airfeel.beliefs.chains import Amplitude
from airfeel.beliefs.spike_slab import SpikeSlab
from airfeel.beliefs.stacking import stack, unstack
from airfeel.beliefs.temporal import Belief


@pytest.mark.parametrize("idle", [True, False])
def test_what_is_stacked_comes_apart_again(idle):
    beliefs = [belief(n, idle) for n in range(3)]
    common = stack(beliefs)
    assert common.prior.mean.shape == (3, 5) and (common.idle is not None) == idle
    for before, after in zip(beliefs, unstack(common, 3), strict=True):
        assert np.array_equal(before.prior.support, after.prior.support)
        assert np.array_equal(before.prior.variance, after.prior.variance)
        assert (after.idle is None) if not idle else np.array_equal(before.idle.mean, after.idle.mean)


def test_a_single_item_is_left_alone():
    one = belief(0, True)
    assert stack([one]) is one and unstack(one, 1) == [one]


def belief(n, idle):
    a, b, c, d, e = np.random.default_rng(n).random((5, 5))
    return Belief(SpikeSlab(a, b, c), Amplitude(d, e) if idle else None)
