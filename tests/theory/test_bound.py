"""Theorem 3: the formulas, the constants of softmax regression, and a real run below both bounds."""

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.experiments.studies.convergence import best_loss, largest_curvature, measure, pool
from airfeel.theory.bound import (
    LossConstants,
    kappa,
    loss_bound,
    loss_bound_limit,
    measured_error_bound,
    sparsification_bound,
)

CONSTANTS = LossConstants(strong_convexity=0.1, smoothness=2.0, gradient_bound=3.0)


def test_sparsification_term_is_the_sum_over_the_memories():
    """Appendix D: the norms of Delta_t and Delta_t+1, each a geometric sum over earlier gradients."""
    rho = np.sqrt(0.8)
    for t, value in enumerate(sparsification_bound(CONSTANTS, keep=2, size=10, rounds=6), start=1):
        before = sum(rho ** (t - i) for i in range(1, t))
        after = sum(rho ** (t + 1 - i) for i in range(1, t + 1))
        assert value == pytest.approx((3.0 * (before + after)) ** 2)


def test_sparsification_term_bounds_real_error_feedback():
    """Random gradients of norm G through top-k with memory never exceed it."""
    rng, size, keep = np.random.default_rng(2), 50, 10
    memory, limits = np.zeros(size), sparsification_bound(CONSTANTS, keep, size, rounds=30)
    for limit in limits:
        gradient = rng.standard_normal(size)
        gradient *= 3.0 / np.linalg.norm(gradient)
        total = memory + gradient
        sent = np.where(np.abs(total) >= np.sort(np.abs(total))[-keep], total, 0)
        memory = total - sent
        assert np.sum((sent - gradient) ** 2) <= limit


def test_nothing_is_lost_when_everything_is_kept():
    np.testing.assert_allclose(kappa(CONSTANTS, keep=10, size=10, phi=[0.5, 0.25]), [5.0, 2.5])


def test_bound_is_the_sum_of_61():
    phi, T = np.array([0.3, 0.2, 0.1]), 3
    terms = kappa(CONSTANTS, 4, 10, phi)
    q = 1 - 0.1 / 2.0
    expected = 7.0 * q**T + sum(q ** (T - t) * terms[t - 1] for t in range(1, T + 1)) / 2.0
    assert loss_bound(CONSTANTS, 4, 10, phi, initial_gap=7.0)[-1] == pytest.approx(expected)


def test_bound_tends_to_its_limit():
    course = loss_bound(CONSTANTS, 4, 10, np.full(2000, 0.2), initial_gap=50.0)
    assert course[-1] == pytest.approx(loss_bound_limit(CONSTANTS, 4, 10, 0.2), rel=1e-6)


def test_83_holds_for_quadratic_losses_with_any_error():
    rng = np.random.default_rng(3)
    for _ in range(20):
        curvature = rng.uniform(0.1, 2.0, 8)
        constants = LossConstants(curvature.min(), curvature.max(), 1.0)
        theta = rng.standard_normal(8)
        start, gaps, errors = 0.5 * np.sum(curvature * theta**2), [], []
        for _ in range(40):
            error = rng.standard_normal(8) * rng.exponential(0.5)
            theta = theta - (curvature * theta + error) / constants.smoothness
            gaps.append(0.5 * np.sum(curvature * theta**2))
            errors.append(np.sum(error**2))
        assert np.all(gaps <= measured_error_bound(constants, errors, start) + 1e-12)


@pytest.fixture(scope="module")
def course():
    settings = small.SETTINGS | {"model.l2": 0.05, "rounds": 40, "uplink.power": 50.0}
    return measure(af.load_config(None, settings), small.arrays())


def test_a_real_run_stays_below_both_bounds(course):
    assert np.all(course.gap >= 0)
    assert np.all(course.gap <= course.measured)
    assert np.all(course.measured <= course.printed)
    assert course.printed[-1] <= course.limit
    assert course.gap[-1] < 0.5 * course.initial_gap


def test_errors_belong_together(course):
    """||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2, and the sparsification keeps within its bound."""
    assert np.all(course.total <= 2 * course.recovery + 2 * course.sparsification)
    limits = sparsification_bound(course.constants, course.keep, course.size, len(course.gap))
    assert np.all(course.sparsification <= limits)


def test_curvature_bounds_the_hessian():
    """Gradients of random pairs of points never differ by more than L times their distance."""
    task, pooled = pool(af.load_config(None, small.SETTINGS | {"model.l2": 0.05}), small.arrays())
    L, rng = largest_curvature(pooled) + 0.05, np.random.default_rng(1)
    for _ in range(20):
        u = rng.standard_normal(task.size) * rng.exponential()
        v = u + rng.standard_normal(task.size) * 1e-3
        change = task.gradient(u, pooled) - task.gradient(v, pooled)
        assert np.linalg.norm(change) <= L * np.linalg.norm(u - v)
    assert best_loss(task, pooled) < task.evaluate(task.init(0), pooled).loss


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: LossConstants(0.0, 1.0, 1.0), "strong_convexity"),
        (lambda: LossConstants(2.0, 1.0, 1.0), "strong_convexity"),
        (lambda: LossConstants(0.1, -1.0, 1.0), "smoothness"),
        (lambda: LossConstants(0.1, 1.0, np.nan), "gradient_bound"),
        (lambda: kappa(CONSTANTS, 0, 10, [0.1]), "keep"),
        (lambda: kappa(CONSTANTS, 11, 10, [0.1]), "keep"),
        (lambda: kappa(CONSTANTS, 1, 10, [-0.1]), "phi"),
        (lambda: loss_bound(CONSTANTS, 1, 10, [0.1], -1.0), "initial_gap"),
        (lambda: measure(af.load_config(None, {})), "model.l2"),
    ],
)
def test_bad_input_is_named(make, word):
    with pytest.raises(ValueError, match=word):
        make()
