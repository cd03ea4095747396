"""Stein's unbiased risk against its definition, and the threshold it gives against the best there is."""

import numpy as np
import pytest

from airfeel.receivers.amp import sure_threshold
from airfeel.streams import stream
from airfeel.theory.amp import soft_threshold_risk


def soft(z, theta):
    return np.sign(z) * np.maximum(np.abs(z) - theta, 0)


def noisy(seed, size, activity, tau):
    rng = stream(seed, "sure")
    x = np.where(rng.random(size) < activity, rng.standard_normal(size), 0.0)
    return x, x + np.sqrt(tau) * rng.standard_normal(size)


@pytest.mark.parametrize("activity", [0.001, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("tau", [1e-3, 0.05, 1.0])
def test_the_threshold_has_nearly_the_least_error(activity, tau):
    size, levels, found, curve = 20_000, np.linspace(0, 6, 121), [], []
    for seed in range(4):
        x, z = noisy(seed, size, activity, tau)
        found.append(np.mean((soft(z, sure_threshold(z, tau)) - x) ** 2))
        curve.append([np.mean((soft(z, a * np.sqrt(tau)) - x) ** 2) for a in levels])
    # Not knowing x costs what a few coefficients of pure noise are worth.
    best = np.min(np.mean(curve, axis=0))
    assert np.mean(found) < 1.01 * best + 10 * tau / size
    risk = activity * soft_threshold_risk(1.0, tau, levels)
    risk += (1 - activity) * soft_threshold_risk(0.0, tau, levels)
    spread = np.std(np.min(curve, axis=1), ddof=1) / np.sqrt(len(curve))
    assert abs(best - risk.min()) < 4 * spread + 0.01 * best


def test_the_threshold_is_continuous():
    # The minimum itself jumps from one local minimum to another, whenever rounding makes that one the least.
    _, z = noisy(0, 400, 0.2, 0.1)
    rng = stream(1, "nudge")
    for _ in range(50):
        nudge = 1e-7 * rng.standard_normal(z.size)
        assert sure_threshold(z + nudge, 0.1) == pytest.approx(sure_threshold(z, 0.1), abs=1e-5)


def test_scale_and_signs_and_order_do_not_matter():
    _, z = noisy(0, 500, 0.2, 0.1)
    expected = sure_threshold(z, 0.1)
    for scale in (1e-60, 1e-9, 1e9, 1e60):
        assert sure_threshold(scale * z, scale**2 * 0.1) == pytest.approx(scale * expected, rel=1e-9)
    assert sure_threshold(np.abs(z)[::-1], 0.1) == pytest.approx(expected, rel=1e-12)


def test_zeros_and_ties():
    assert sure_threshold(np.zeros(10), 1e-32) == 0
    assert sure_threshold(np.full(1000, 5.0), 1e-3) == pytest.approx(0, abs=1e-9)  # all far above the noise
    assert sure_threshold(np.full(1000, 0.01), 1.0) == pytest.approx(0.01)  # all far below


def test_risk_survives_noise_far_above_the_signal():
    assert soft_threshold_risk(1.0, 1e14, 12.0) == pytest.approx(1.0, rel=1e-9)
    assert soft_threshold_risk(1e-14, 1.0, 12.0) == pytest.approx(1e-14, rel=1e-9)
