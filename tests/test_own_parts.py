"""The examples of a user's own task and channel hold what the documentation promises of them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import airfeel as af
from airfeel.aggregators import CommonK
from airfeel.aggregators.base import Air
from airfeel.learning.tasks import SoftmaxRegression, Task
from airfeel.transmit import EqualPower

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spots(count, seed):
    """Return images whose class is the place of a bright spot."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    images = rng.integers(0, 100, (count, 6, 6), dtype=np.uint8)
    images[np.arange(count), labels, labels] = 255
    return images, labels


def test_gradient_of_the_own_task_against_finite_differences():
    task = load("own_task").HiddenLayer(features=36, hidden=5, classes=4)
    samples, theta = task.prepare(*spots(50, 0)), task.init(1)
    rng = np.random.default_rng(2)
    for _ in range(5):
        direction = rng.standard_normal(task.size)
        ahead, behind = (task.evaluate(theta + sign * 0.01 * direction, samples).loss for sign in (1, -1))
        assert task.gradient(theta, samples) @ direction == pytest.approx((ahead - behind) / 0.02, rel=0.02)


def test_the_own_task_trains_over_the_air():
    task = load("own_task").HiddenLayer(features=36, hidden=12, classes=4)
    settings = {
        "scheme": "common_k",
        "rounds": 60,
        "devices.count": 5,
        "devices.samples": 80,
        "devices.learning_rate": 0.5,
        "server.learning_rate": 0.5,
        "uplink.ratio": 0.5,
    }
    data = (*spots(600, 3), *spots(300, 4))
    records = list(af.train(af.load_config(None, settings), task=task, dataset=data))
    assert records[-1].accuracy > 0.9 > 0.5 > records[0].accuracy


def test_tasks_have_what_the_protocol_asks():
    needed = [name for name in vars(Task) if not name.startswith("_")]
    for task in (load("own_task").HiddenLayer(), SoftmaxRegression()):
        assert all(hasattr(task, name) for name in needed)


def test_the_own_channel_costs_energy_by_distance():
    channel = load("own_channel").PathLossMAC()
    link = channel.link(2000, seed=1, round=1)
    # Distances over a disc have density 2r; the cost is max(r, 0.1)^3.
    expected = 0.01 * 0.1**3 + 2 / 5 * (1 - 0.1**5)
    assert link.cost.mean() == pytest.approx(expected, abs=4.5 * link.cost.std() / np.sqrt(2000))
    np.testing.assert_array_equal(link.cost, channel.link(2000, seed=1, round=9).cost)


def test_the_own_channel_carries_a_round_within_the_power():
    channel = load("own_channel").PathLossMAC(noise_var=0.0)
    scheme = CommonK(1.0, Air(channel, EqualPower(7.0)))
    gradients = np.random.default_rng(0).standard_normal((8, 30))
    weights = np.full(8, 1 / 8)
    result, _ = scheme.aggregate(scheme.init(8, 30), gradients, weights, seed=0, round=1)
    np.testing.assert_allclose(result.mean, gradients.mean(axis=0), atol=1e-12)
    assert result.energy.max() == pytest.approx(7.0)


def test_the_example_compares_both_channels():
    results = {(t, name): nmse for t, name, nmse in load("own_channel").compare(rounds=2)}
    assert len(results) == 4
    # All devices are nearer than the unit distance of the Gaussian channel, so alpha is larger.
    assert results[1, "PathLossMAC"] < results[1, "GaussianMAC"]
