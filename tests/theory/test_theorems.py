"""Theorems 1 and 2 and Lemma 2 on a grid of settings."""

from itertools import islice, product

import numpy as np
import pytest

import airfeel as af
from airfeel.beliefs.spike_slab import extrinsic_variance
from airfeel.theory import exact, exact_evolution, first_round_mmse
from airfeel.theory.scalar import linear_variance, sample_paths
from oracles import exact_filter

# 54 settings: s/N, lambda, p01, beta; the noise alternates between 10 and 20 dB below the signal.
GRID = [
    (ratio, af.ChainParams(activity, p01, beta), activity * 10 ** -(1 + i % 2))
    for i, (ratio, activity, p01, beta) in enumerate(
        product((0.1, 0.3, 0.6), (0.03, 0.1, 0.3), (0.01, 0.2, 0.6), (0.01, 0.3))
    )
]


@pytest.mark.parametrize(("ratio", "chain", "noise_var"), GRID)
def test_theorem_1_in_the_first_round(ratio, chain, noise_var):
    """tau and v never rise over the iterations, and tau stays above (N/s) sigma^2."""
    v, taus, vs = chain.activity * chain.variance, [], []
    for _ in range(40):
        taus.append(linear_variance(v, ratio, noise_var))
        vs.append(v)
        v = extrinsic_variance(first_round_mmse(chain, taus[-1]), taus[-1])
    assert np.all(np.diff(taus) <= 1e-12 * taus[0]) and np.all(np.diff(vs) <= 1e-12 * vs[0])
    assert taus[-1] >= noise_var / ratio and vs[-1] >= 0


@pytest.mark.parametrize("activity", [0.03, 0.1, 0.3])
def test_lemma_2_in_the_first_round(activity):
    """g_1 rises with tau."""
    chain = af.ChainParams(activity, 0.01, 0.01)
    taus = np.geomspace(1e-6, 1e3, 80)
    g = [float(extrinsic_variance(first_round_mmse(chain, tau), tau)) for tau in taus]
    assert np.all(np.diff(g) > -1e-9 * activity)


@pytest.mark.parametrize(
    ("ratio", "chain", "noise_var", "rounds", "samples"),
    [
        *((*setting, 4, 8000) for setting in GRID[::6]),
        *(pytest.param(*setting, 6, 16_000, marks=pytest.mark.slow) for setting in GRID),
    ],
)
def test_theorems_with_exact_posteriors(ratio, chain, noise_var, rounds, samples):
    course = exact_evolution(chain, ratio, noise_var, rounds, samples=samples, seed=1 if rounds == 4 else 2)
    assert course.rises(axis=1) <= 3  # Theorem 1
    assert course.rises(axis=0) <= 3  # Theorem 2
    assert np.all(course.tau[0, -1] >= noise_var / ratio)


@pytest.mark.parametrize("tau", [1e-3, 0.1, 2.0])
def test_exact_posterior_of_the_first_round_equals_quadrature(tau):
    chain = af.ChainParams(0.1, 0.05, 0.05)
    x, w = next(sample_paths(chain, 20, 5000, seed=3))
    phi = exact.mean_variance(exact.start(chain), x, w, np.full((20, 1), tau))
    spread = phi.std(ddof=1) / np.sqrt(20)
    assert abs(phi.mean() - first_round_mmse(chain, tau)) < 3 * spread


def test_exact_posterior_is_the_sum_over_all_histories():
    """Four rounds of hypotheses, against one Gaussian per history of the support, written down at once."""
    chain, taus = af.ChainParams(0.2, 0.3, 0.15, 1.7), [0.5, 0.1, 0.3, 0.2]
    paths = list(islice(sample_paths(chain, 1, 60, seed=5), 4))
    belief = exact.start(chain)
    for (x, w), tau in zip(paths[:-1], taus[:-1], strict=True):
        belief = exact._next(belief, x, w, np.array([[tau]]), chain)
    z = np.array([(x + np.sqrt(tau) * w)[0] for (x, w), tau in zip(paths, taus, strict=True)])
    (active, _), mean, _ = exact._posterior(belief, z[-1:], np.array([[taus[-1]]]))
    support, expected = exact_filter(0.2, 0.3, 0.15, 1.7, z, taus)
    np.testing.assert_allclose(active.sum(axis=0)[0], support, atol=1e-12)
    np.testing.assert_allclose((active * mean).sum(axis=0)[0], expected, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_rise_is_found_where_it_is(axis):
    """Falling courses of three rounds and four iterations, then one step upwards far beyond its spread."""
    noise = 1e-3 * np.random.default_rng(0).standard_normal((3, 4, exact.BATCHES))
    fall = 10.0 - np.arange(3)[:, None, None] - np.arange(4)[None, :, None] + noise
    assert exact.ExactCourse(fall, fall).rises(axis) == 0
    risen = fall.copy()
    risen[-1, -1] += 2.0
    for course in (exact.ExactCourse(risen, fall), exact.ExactCourse(fall, risen)):
        assert course.rises(axis) > 100


def test_theorem_2_fails_for_the_expansion_message_with_fast_supports():
    """The paper's expansion pulls idle amplitudes to zero: memory makes it worse. Other messages gain."""
    chain, options = af.ChainParams(0.1, 0.3, 0.002), {"start": "signal", "samples": 16_000}
    courses = {
        message: af.state_evolution(chain, 0.3, 1e-3, 8, amplitude_message=message, **options)
        for message in ("joint", "moments", "expansion")
    }
    assert courses["expansion"].nmse_db[-1] > courses["expansion"].nmse_db[0] + 3
    for message in ("joint", "moments"):
        assert courses[message].nmse_db[-1] < courses[message].nmse_db[0] - 2
