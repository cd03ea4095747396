"""The denoiser (27)-(29) and the support evidence (33) against numerical integration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from airfeel.beliefs.spike_slab import (
    SpikeSlab,
    divide,
    extrinsic_variance,
    log_likelihood_ratio,
    posterior,
)
from oracles import spike_slab_quadrature

CASES = [
    (lam, mu, v, z, tau)
    for lam in (0.01, 0.5, 0.97)
    for mu in (0.0, -1.5)
    for v in (0.02, 1.0, 30.0)
    for z in (-4.0, 0.0, 0.3, 2.5)
    for tau in (0.01, 1.0, 9.0)
]


def as_arrays(cases):
    lam, mu, v, z, tau = (np.array(column) for column in zip(*cases, strict=True))
    return SpikeSlab(lam, mu, v), z, tau


def test_posterior_is_the_integral():
    prior, z, tau = as_arrays(CASES)
    post = posterior(prior, z, tau)
    mean, variance = post.moments()
    expected = np.array([spike_slab_quadrature(*case) for case in CASES]).T
    assert np.allclose(post.support, expected[0], rtol=1e-9, atol=1e-13)
    assert np.allclose(mean, expected[1], rtol=1e-9, atol=1e-13)
    assert np.allclose(variance, expected[2], rtol=1e-8, atol=1e-12)


def test_evidence_is_the_posterior_of_an_even_prior():
    prior, z, tau = as_arrays(CASES)
    llr, told = log_likelihood_ratio(prior, z, tau)
    expected = [spike_slab_quadrature(0.5, *case[1:])[0] for case in CASES]
    assert np.allclose(expit(llr), expected, rtol=1e-9, atol=1e-13)
    post = posterior(prior, z, tau)
    assert np.array_equal(told.mean, post.mean) and np.array_equal(told.variance, post.variance)


@settings(max_examples=300)
@given(
    lam=st.floats(0, 1),
    mu=st.floats(-1e6, 1e6),
    v=st.floats(0, 1e12),
    z=st.floats(-1e7, 1e7),
    tau=st.floats(1e-32, 1e24),
)
def test_extreme_arguments_stay_finite(lam, mu, v, z, tau):
    prior = SpikeSlab(*(np.array([value]) for value in (lam, mu, v)))
    post = posterior(prior, np.array([z]), np.array(tau))
    mean, variance = post.moments()
    assert np.isfinite(mean).all() and np.isfinite(variance).all()
    assert 0 <= post.support[0] <= 1
    assert variance[0] >= -1e-9 * mean[0] ** 2
    largest = max(abs(z), abs(mu))
    assert abs(mean[0]) <= largest * (1 + 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_certain_stays_certain(dtype):
    """Supports of 0 and 1 decide, however strong the evidence against them is."""
    size = np.array([0, 1e-3, 1.0, 1e3, 1e6], dtype)
    for certain in (0.0, 1.0):
        for mu in (0.0, 1e3):
            prior = SpikeSlab(np.full(5, certain, dtype), np.full(5, mu, dtype), np.full(5, 1e-6, dtype))
            post = posterior(prior, size, np.asarray(1e-6, dtype))
            assert (post.support == certain).all() and post.support.dtype == dtype


# Means whose quotients are subnormal have no relative precision.
means = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda m: m if abs(m) > 1e-200 else 0.0)


@given(means, st.floats(0.01, 0.99), means, st.floats(1e-6, 1e6))
def test_extrinsic_message_is_the_quotient_of_31(mean_a, share, mean_b, var_b):
    var_a = share * var_b
    mean, var = divide(mean_a, var_a, mean_b, var_b)
    expected = 1 / (1 / var_a - 1 / var_b)
    assert np.isclose(var, expected, rtol=1e-9) and extrinsic_variance(var_a, var_b) == var
    atol = 1e-9 * (abs(mean_a) + abs(mean_b)) / (1 - share)
    assert np.isclose(mean, expected * (mean_a / var_a - mean_b / var_b), rtol=1e-9, atol=atol)
