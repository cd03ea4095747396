"""The lines of docs/errata.md that a few numbers can settle: the printed form fails, ours holds."""

import re
from pathlib import Path

import numpy as np
import pytest

from airfeel import PartialDCT
from airfeel.beliefs.spike_slab import SpikeSlab

ROOT = Path(__file__).resolve().parents[1]


def test_every_test_named_in_the_errata_exists():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "errata.md").read_text())
    assert len(named) >= 10
    for file, function in named:
        assert f"def {function}(" in (ROOT / "tests" / file).read_text(), (file, function)


def test_23_as_printed_gives_a_negative_variance():
    """Against the posterior covariance v I - v^2 A^T A / (v + sigma^2) of a Gaussian prior N(m, v I)."""
    size, rows, v, noise_var = 60, 12, 0.7, 0.2
    matrix = PartialDCT(size=size, rows=rows, seed=1) @ np.eye(size)
    gain = v * matrix.T @ np.linalg.inv(v * matrix @ matrix.T + noise_var * np.eye(rows))
    exact = np.trace(v * np.eye(size) - gain @ matrix * v) / size
    assert v - rows / size * v**2 / (v + noise_var) == pytest.approx(exact, rel=1e-12)
    assert v - size / rows * v**2 / (v + noise_var) < 0


def test_48_needs_n_over_s_times_the_noise():
    """The error of z = m + (N/s) A^T (y - A m), where m is off by white noise of variance v."""
    size, rows, v, noise_var = 20_000, 2000, 0.01, 1.0
    rng = np.random.default_rng(3)
    x = rng.standard_normal(size)
    m = x + np.sqrt(v) * rng.standard_normal(size)
    operator = PartialDCT(size=size, rows=rows, seed=3)
    y = operator @ x + np.sqrt(noise_var) * rng.standard_normal(rows)
    z = m + size / rows * (operator.T @ (y - operator @ m))
    ours, printed = (size / rows - 1) * v + size / rows * noise_var, (size / rows - 1) * v + noise_var
    # The mean of `rows` squared normal numbers spreads by sqrt(2 / rows); four times that.
    assert np.mean((z - x) ** 2) == pytest.approx(ours, rel=4 * np.sqrt(2 / rows))
    assert printed < 0.2 * ours


def test_initial_gamma_is_unbiased():
    size, rows, activity, gamma, noise_var, repeats = 2000, 200, 0.1, 3.0, 0.2, 200
    rng = np.random.default_rng(4)
    ours, printed = [], []
    for repeat in range(repeats):
        x = np.sqrt(gamma) * rng.standard_normal(size) * (rng.random(size) < activity)
        y = PartialDCT(size=size, rows=rows, seed=repeat) @ x + np.sqrt(noise_var) * rng.standard_normal(rows)
        ours.append((y @ y / rows - noise_var) / activity)
        printed.append(y @ y / (size * activity))
    spread = np.std(ours, ddof=1) / np.sqrt(repeats)
    assert np.mean(ours) == pytest.approx(gamma, abs=4 * spread)
    assert np.mean(printed) < 0.2 * gamma


def test_moments_of_the_prior():
    """Mean and variance of s r with s ~ Bernoulli(lam), r ~ N(mu, v), from a million draws."""
    lam, mu, v, count = 0.3, 1.5, 0.4, 1_000_000
    rng = np.random.default_rng(5)
    x = (rng.random(count) < lam) * (mu + np.sqrt(v) * rng.standard_normal(count))
    mean, variance = SpikeSlab(np.array(lam), np.array(mu), np.array(v)).moments()
    assert mean == pytest.approx(x.mean(), abs=4 * x.std() / np.sqrt(count))
    squares = (x - x.mean()) ** 2
    assert variance == pytest.approx(x.var(), abs=4 * squares.std() / np.sqrt(count))
    assert abs(variance - v) > 0.1
    assert abs(mean) > 0.1


@pytest.mark.parametrize("t", [1, 2, 7, 40])
def test_62_sums_the_memory_exactly(t):
    rho = np.sqrt(0.8)
    summed = sum(rho ** (t - i) for i in range(1, t)) + sum(rho ** (t + 1 - i) for i in range(1, t + 1))
    ours = rho * ((1 + rho) * (1 - rho ** (t - 1)) / (1 - rho) + 1)
    printed = rho * ((1 + rho) * (1 - rho**t) / (1 - rho) + 1)
    assert ours == pytest.approx(summed, rel=1e-12)
    assert printed > summed


def test_58_is_strong_convexity_only_the_other_way_round():
    """For F(v) = c |v|^2 / 2: F(v) - F(u) = grad(u) (v - u) + c |v - u|^2 / 2, an equality."""
    c, u, v = 0.5, np.array([1.0, -2.0]), np.array([0.3, 0.8])
    bound = c * u @ (v - u) + c / 2 * (v - u) @ (v - u)
    difference = c / 2 * (v @ v - u @ u)
    assert difference == pytest.approx(bound)
    assert -difference != pytest.approx(bound)
