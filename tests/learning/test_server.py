import numpy as np
import pytest

from airfeel.learning.optimizers import Schedule
from airfeel.learning.optimizers.descent import Adam, GradientDescent
from airfeel.registry import OPTIMIZERS


def run(optimizer, aggregates, rate=0.1):
    theta, state = np.ones(3), optimizer.init(3)
    for x in aggregates:
        theta, state = optimizer.update(state, theta, x, rate)
    return theta, state


def test_adam_matches_its_definition():
    rng = np.random.default_rng(0)
    steps = rng.standard_normal((4, 3))
    theta, _ = run(Adam(), steps)
    expected, m, v = np.ones(3), np.zeros(3), np.zeros(3)
    for t, x in enumerate(steps, start=1):
        m, v = 0.9 * m + 0.1 * x, 0.999 * v + 0.001 * x**2
        expected -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(theta, expected, rtol=1e-12)


EACH = [OPTIMIZERS.get(name).build({}) for name in OPTIMIZERS.names()]


@pytest.mark.parametrize("optimizer", [*EACH, GradientDescent(0.9)], ids=repr)
def test_an_optimizer_changes_no_argument_goes_downhill_and_rests_at_the_bottom(optimizer):
    theta, state = np.full(3, 5.0), optimizer.init(3)
    for _ in range(300):
        theta, state = optimizer.update(state, theta, theta, 0.1)  # of ||theta||^2 / 2
    assert np.abs(theta).max() < 0.5
    still, _ = optimizer.update(optimizer.init(3), np.ones(3), np.zeros(3), 0.1)
    np.testing.assert_array_equal(still, 1)
    state, theta, x = optimizer.init(3), np.ones(3), np.arange(3.0)
    first, _ = optimizer.update(state, theta, x, 0.1)
    np.testing.assert_array_equal(first, optimizer.update(state, theta, x, 0.1)[0])
    np.testing.assert_array_equal(theta, 1)


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        ("constant", {1: 0.2, 50: 0.2}),
        ("step", {1: 0.2, 10: 0.2, 11: 0.1, 21: 0.05}),
        ("cosine", {1: 0.2, 6: 0.15, 11: 0.1, 99: 0.1}),
        ("inverse", {1: 0.2, 11: 0.1, 31: 0.05}),
    ],
)
def test_schedules(kind, rates):
    schedule = Schedule(0.2, kind, every=10, factor=0.5)
    for round, rate in rates.items():
        assert schedule(round) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Schedule(0.0), "rate"),
        (lambda: Schedule(0.1, "linear"), "kind"),
        (lambda: Schedule(0.1)(0), "round"),
    ],
)
def test_bad_parameters_are_named(make, name):
    with pytest.raises(ValueError, match=f"{name} = "):
        make()
