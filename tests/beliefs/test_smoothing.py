"""Backward passes and pairwise moments against the full joint of all rounds of a window (T <= 4)."""

import numpy as np
import pytest

from airfeel.beliefs.chains import Amplitude, ChainParams, Message, smooth_amplitude, smooth_support
from oracles import amplitude_joint, support_path_probabilities

ROUNDS = [1, 2, 3, 4]
CHAINS = [
    ChainParams(activity=0.05, p01=0.01, beta=0.01, variance=1.0),
    ChainParams(activity=0.4, p01=0.6, beta=0.5, variance=3.0),
    ChainParams(activity=0.3, p01=1.0, beta=1.0, variance=0.2),
    ChainParams(activity=0.6, p01=0.02, beta=1e-6, variance=1.0),
]


def brute_support(first, evidence, chain):
    """Filtered and smoothed P(s_i = 1) and E[s_i s_i-1], each from the table of all paths."""

    def paths_given(count):
        return support_path_probabilities(first, 1 - chain.p01, chain.p10, evidence[:count])

    filtered = [w @ p[:, -1] for p, w in map(paths_given, range(1, len(evidence) + 1))]
    paths, weight = paths_given(len(evidence))
    both = [weight @ (paths[:, i] & paths[:, i - 1]) for i in range(1, len(evidence))]
    return np.array(filtered), weight @ paths, np.array(both)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_support_moments_are_those_of_the_full_joint(chain, rounds):
    rng = np.random.default_rng(rounds)
    first = rng.random(40)
    evidence = np.vstack([rng.random((rounds, 38)).T, np.full((2, rounds), 1e-6)]).T
    evidence[:, -1] = 1 - 1e-6  # all but certain, even against the chain
    expected = [brute_support(first[n], evidence[:, n], chain) for n in range(40)]
    filtered, smoothed, both = (np.array(part).T for part in zip(*expected, strict=True))
    found, pairs = smooth_support(filtered, evidence, chain)
    assert np.allclose(found, smoothed, rtol=1e-9, atol=1e-13)
    assert np.allclose(np.reshape(pairs, both.shape), both, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_amplitude_moments_are_those_of_the_dense_gaussian(chain, rounds):
    rng = np.random.default_rng(rounds)
    precision = rng.exponential(size=(rounds, 30)) * 10.0 ** rng.integers(-3, 4, (rounds, 30))
    precision[rng.random((rounds, 30)) < 0.3] = 0  # flat messages
    shift = precision * rng.standard_normal((rounds, 30))
    mean, variance = rng.standard_normal(30), rng.exponential(size=30)
    filtered_mean, filtered_var, drift, jump = [], [], [], []
    for n in range(30):
        messages = list(zip(precision[:, n], shift[:, n], strict=True))

        def joint(count, n=n, messages=messages):
            return amplitude_joint(mean[n], variance[n], chain.beta, chain.variance, messages[:count])

        parts = [joint(i + 1) for i in range(rounds)]
        filtered_mean.append([m[-1] for m, _ in parts])
        filtered_var.append([c[-1, -1] for _, c in parts])
        m, c = parts[-1]
        second = c + np.outer(m, m)
        pairs = range(1, rounds)
        drift.append([second[i, i - 1] - second[i - 1, i - 1] for i in pairs])
        jump.append([second[i, i] + second[i - 1, i - 1] - 2 * second[i, i - 1] for i in pairs])
    filtered = Amplitude(np.array(filtered_mean).T, np.array(filtered_var).T)
    found = smooth_amplitude(filtered, Message(precision, shift), chain)
    # The oracle inverts a precision matrix of condition 1/q; the code does not: that is where the slack goes.
    slack = 1e-12 / chain.process_var
    for array, expected in zip(found, (drift, jump), strict=True):
        expected = np.array(expected).T.reshape(-1, 30)
        assert np.allclose(array.reshape(-1, 30), expected, rtol=1e-7 + slack, atol=slack)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p01", [1e-6, 0.3, 1.0])
def test_rounds_that_exclude_one_another_leave_no_nan(dtype, p01):
    corners = np.meshgrid([0, 1e-9, 0.5, 1], [0, 0.5, 1], [0, 0.3, 1], [0, 0.5, 1])
    first, second, seen, then = np.reshape(corners, (4, -1)).astype(dtype)
    filtered, likelihood = np.stack([first, second, first]), np.stack([seen, then, seen])
    moments = smooth_support(filtered, likelihood, ChainParams(0.25, p01, 0.5))
    for array in moments:
        assert ((array >= 0) & (array <= 1 + 1e-6)).all()
