"""Theorem 3: the formulas, the constants of softmax regression, and a real run below both bounds."""

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.lab.studies.bound import best_loss, largest_curvature, measure, pool
from airfeel.learning.models.softmax import SoftmaxRegression
from airfeel.schemes.sparsification import top_k
from airfeel.simulation.assembly import Own, assemble
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


@pytest.mark.parametrize("seed", range(5))
def test_sparsification_term_bounds_real_error_feedback(seed):
    """Gradients of norm G through the devices' own memory and top-k never exceed it."""
    rng, size, keep = np.random.default_rng(seed), 50, 10
    memory = np.zeros((1, size))
    for limit in sparsification_bound(CONSTANTS, keep, size, rounds=30):
        gradient = rng.standard_normal((1, size))
        gradient *= CONSTANTS.gradient_bound / np.linalg.norm(gradient)
        sent, memory = top_k(memory + gradient, keep)
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


def test_measured_bound_is_the_sum_of_83():
    errors, q = np.array([4.0, 0.5, 2.0]), 1 - 0.1 / 2.0
    for T, found in enumerate(measured_error_bound(CONSTANTS, errors, initial_gap=7.0), start=1):
        summed = sum(q ** (T - t) * errors[t - 1] for t in range(1, T + 1)) / (2 * 2.0)
        assert found == pytest.approx(7.0 * q**T + summed)


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


REGULARISED = small.SETTINGS | {"model.l2": 0.05}


@pytest.fixture(scope="module")
def course():
    settings = REGULARISED | {"rounds": 40, "uplink.power": 50.0}
    return measure(af.load_config(None, settings), small.arrays())


def test_a_real_run_stays_below_both_bounds(course):
    assert np.all(course.gap >= 0)
    assert np.all(course.gap <= course.measured)
    assert np.all(course.measured <= course.printed)
    assert course.printed[-1] <= course.limit
    assert course.gap[-1] < 0.5 * course.initial_gap


@pytest.mark.parametrize("changed", [{}, {"devices.local_steps": 5, "server.learning_rate": 3.0}])
def test_the_run_takes_one_step_of_rate_one_over_l(changed):
    """Whatever the configuration says: without radio, sparsity or noise a round is plain gradient descent."""
    config = af.load_config(None, REGULARISED | {"scheme": "dense", "rounds": 2} | changed)
    found = measure(config, small.arrays())
    task, pooled = pool(config, small.arrays())
    L = largest_curvature(pooled) + 0.05
    assert found.constants.smoothness == pytest.approx(L)
    assert found.constants.strong_convexity == 0.05
    theta = task.init(0)
    for gap in found.gap:
        theta = theta - task.gradient(theta, pooled) / L
        assert gap == pytest.approx(task.evaluate(theta, pooled).loss - found.best_loss, rel=1e-5)
    assert np.all(found.recovery == 0)
    assert np.all(found.total < 1e-10) and np.all(found.sparsification < 1e-10)


def test_gradient_bound_is_that_of_the_steepest_device():
    """Assumption 3 as Appendix D uses it: with one class per device, far above the global gradient."""
    settings = REGULARISED | {"rounds": 1, "partition.kind": "classes", "partition.classes": 1}
    config = af.load_config(None, settings | {"devices.samples": 60})
    parts = assemble(config, Own(dataset=small.arrays()))
    local = [parts.task.gradient(parts.task.init(0), samples) for samples in parts.data]
    found = measure(config, small.arrays()).constants.gradient_bound
    assert found == pytest.approx(np.linalg.norm(local, axis=1).max(), rel=1e-6)
    assert found > 1.5 * np.linalg.norm(parts.weights @ np.array(local))


def test_loss_is_strongly_convex_as_58_says_when_turned_round():
    """F(v) - F(u) >= F'(u) (v - u) + c |v - u|^2 / 2 with c = l2; printed is F(u) - F(v), wrong uphill."""
    task, pooled = pool(af.load_config(None, REGULARISED), small.arrays())
    rng = np.random.default_rng(0)

    def rise_and_bound(u, v):
        rise = task.evaluate(v, pooled).loss - task.evaluate(u, pooled).loss
        return rise, task.gradient(u, pooled) @ (v - u) + 0.05 / 2 * np.sum((v - u) ** 2)

    for _ in range(20):
        u, v = rng.standard_normal((2, task.size)) * rng.exponential()
        rise, bound = rise_and_bound(u, v)
        assert rise >= bound
        rise, bound = rise_and_bound(u, u + task.gradient(u, pooled))
        assert rise >= bound > -rise


def test_curvature_is_reached_where_two_classes_are_equally_likely():
    """With p = (1/2, 1/2, 0) for every sample the Hessian's largest eigenvalue is the bound itself."""
    rng, task = np.random.default_rng(2), SoftmaxRegression(5, 3, dtype="float64")
    samples = task.prepare(rng.integers(1, 256, (40, 5), dtype=np.uint8), rng.integers(0, 3, 40))
    theta = np.concatenate([np.zeros(15), [0.0, 0.0, -60.0]])
    steps = 1e-4 * np.eye(task.size)
    hessian = [task.gradient(theta + h, samples) - task.gradient(theta - h, samples) for h in steps]
    assert np.linalg.eigvalsh(np.array(hessian) / 2e-4)[-1] == pytest.approx(
        largest_curvature(samples), rel=1e-5
    )


def test_best_loss_is_the_minimum():
    """Gradient descent to where strong convexity proves it: F - F* <= |F'|^2 / 2c."""
    task, pooled = pool(af.load_config(None, REGULARISED | {"devices.samples": 30}), small.arrays())
    theta, rate = task.init(0), 1 / (largest_curvature(pooled) + 0.05)
    while (slope := np.sum(task.gradient(theta, pooled) ** 2)) > 2 * 0.05 * 1e-7:
        theta = theta - rate * task.gradient(theta, pooled)
    lowest = task.evaluate(theta, pooled).loss
    assert lowest - slope / 0.1 - 1e-12 <= best_loss(task, pooled) <= lowest


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: LossConstants(2.0, 1.0, 1.0), "strong_convexity"),
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
