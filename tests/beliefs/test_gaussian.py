"""The quotient of two Gaussians."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from airfeel.beliefs.spike_slab import divide, extrinsic_variance

means = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda m: m if abs(m) > 1e-200 else 0.0)
variances = st.floats(1e-6, 1e6)


def multiply(mean_a, var_a, mean_b, var_b):
    """Mean and variance of the normalised product, precisions added."""
    var = var_a * var_b / (var_a + var_b)
    return var * (mean_a / var_a + mean_b / var_b), var


def test_the_quotient_is_the_pointwise_quotient():
    mean, var = divide(1.0, 0.5, -3.0, 2.0)
    grid = np.linspace(-6, 6, 7)
    log_quotient = norm.logpdf(grid, 1, np.sqrt(0.5)) - norm.logpdf(grid, -3, np.sqrt(2))
    difference = log_quotient - norm.logpdf(grid, mean, np.sqrt(var))
    assert np.ptp(difference) < 1e-12  # proportional: the logarithms differ by a constant


@given(means, variances, means, variances)
def test_dividing_undoes_multiplying(mean_a, var_a, mean_b, var_b):
    mean, var = multiply(mean_a, var_a, mean_b, var_b)
    if var >= var_b * (1 - 1e-7):
        return  # the product equals the second factor up to rounding: nothing to recover
    back, back_var = divide(mean, var, mean_b, var_b)
    rounding = 1e-14 * (1 + var_a / var_b)
    assert np.isclose(back_var, var_a, rtol=100 * rounding)
    scale = 1 + abs(mean_a) + abs(mean_b)
    assert np.isclose(back, mean_a, rtol=0, atol=1000 * rounding * scale * (1 + var_a / var_b))


@given(means, st.floats(0.01, 0.99), means, variances)
def test_extrinsic_message_is_the_quotient_of_31(mean_a, share, mean_b, var_b):
    var_a = share * var_b
    mean, var = divide(mean_a, var_a, mean_b, var_b)
    expected = 1 / (1 / var_a - 1 / var_b)
    assert np.isclose(var, expected, rtol=1e-9) and extrinsic_variance(var_a, var_b) == var
    atol = 1e-9 * (abs(mean_a) + abs(mean_b)) / (1 - share)
    assert np.isclose(mean, expected * (mean_a / var_a - mean_b / var_b), rtol=1e-9, atol=atol)
