"""Flower's strategies inside Air: equal to themselves where everything is sent; what cannot be is refused."""

import gc
import warnings

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.serverapp import strategy as flower

import flower_apps as apps
from airfeel.flower import Air, AirAvg
from airfeel.flower.local import LocalGrid

QUIET = {"fraction_evaluate": 0.0}
NODES = 8
STRATEGIES = {
    "FedAvg": {},
    "FedProx": {"proximal_mu": 0.1},
    "FedAvgM": {"server_momentum": 0.5, "server_learning_rate": 0.5},
    "FedAdam": {},
    "FedAdagrad": {},
    "FedYogi": {},
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": 0.2},
    "Krum": {"num_malicious_nodes": 1},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 4},
    "Bulyan": {"num_malicious_nodes": 1},
    "QFedAvg": {"client_learning_rate": 0.5, "q": 0.2},
}
FREE = {"options": {"clip": 1e9}}  # no doubt in what is heard


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch):
    """Flower collects garbage for every reply of QFedAvg and Bulyan, which takes longer than all the rest."""
    monkeypatch.setattr(gc, "collect", lambda *given: 0)


def build(name):
    return getattr(flower, name)(**STRATEGIES[name], **QUIET)


def model_of_arrays():
    """Return a model without single numbers, which some strategies of old versions of Flower cannot bear."""
    found = apps.model(running_mean=np.ones(5, np.float32))
    del found["scale"]
    return found


def app(mod=apps.air_mod):
    return apps.app(apps.drift, mod=mod, metrics=lambda device, round: {"train_loss": 1.0 + device})


def train(strategy, model, rounds, mod=apps.air_mod, nodes=NODES):
    return apps.arrays(strategy.start(LocalGrid(app(mod), nodes), apps.record(model), rounds).arrays)


@pytest.mark.parametrize("name", STRATEGIES)
def test_everything_sent_is_the_strategy_alone(name):
    """Twenty rounds with unequal weights; rules and distances bear the rotation of ``scheduled`` too."""
    model = model_of_arrays()
    expected = train(build(name), model, 20, mod=None)
    rotated = name in ("FedAdam", "Krum")
    for scheme, given in [("common_k", {}), ("scheduled", FREE)][: 1 + rotated]:
        strategy = Air(build(name), scheme=scheme, ratio=1.0, bits=32, **given)
        found = train(strategy, model, 20)
        assert all(len(report.heard) == NODES for report in strategy.rounds)
        for key, array in expected.items():
            np.testing.assert_allclose(found[key], array, rtol=0, atol=1e-6 * max(1, np.abs(array).max()))
            assert found[key].dtype == model[key].dtype


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "QFedAvg"])
def test_few_bytes_bring_the_model_to_where_all_go(name):
    """A quarter of the coefficients in eight bits, by the scheme that is the default for rows."""
    goal = np.sin(np.arange(600)).reshape(20, 30).astype(np.float32)
    step = apps.app(lambda model, device, round: {"w": model["w"] + 0.3 * (goal - model["w"])})
    strategy, start = Air(build(name), "scheduled", 0.25, bits=8), {"w": np.zeros_like(goal)}
    found = strategy.start(LocalGrid(step, NODES), apps.record(start), 12 if name == "Bulyan" else 40)
    assert np.linalg.norm(apps.arrays(found.arrays)["w"] - goal) < 0.4 * np.linalg.norm(goal)
    assert strategy.rounds[0].traffic.up < NODES * 600 * 4 / 5  # six times fewer, and the heads of arrays


def test_momentum_over_lumps_is_warned_of(caplog):
    Air(build("FedAvgM"), "scheduled", 0.25)
    assert "0.9 ruins training" in caplog.text


def test_a_server_rule_works_over_a_channel():
    strategy = Air(build("FedAdam"), "tsa_ga", 0.5, "gaussian", power=1e6)
    found = train(strategy, model_of_arrays(), 3)
    assert all(np.isfinite(array).all() for array in found.values())
    assert all(report.channel_uses for report in strategy.rounds)


def test_the_short_form_is_air_around_fedavg():
    model = apps.model(running_mean=np.ones(5, np.float32))
    long = train(Air(flower.FedAvg(**QUIET), "scheduled", 0.3, bits=8, seed=4), model, 5)
    short = AirAvg("scheduled", 0.3, bits=8, seed=4, **QUIET)
    found = train(short, model, 5)
    assert all(np.array_equal(long[name], found[name]) for name in model)
    assert short.weighted_by_key == "num-examples" and not hasattr(short, "nothing")
    short.min_train_nodes = 5
    assert short.strategy.min_train_nodes == 5


def test_krum_leaves_out_who_is_far_away():
    """Three of ten send the opposite a thousand times; the mean without a clip is lost, and Krum is not."""
    goal = np.cos(np.arange(400)).astype(np.float32)

    def step(model, device, round):
        way = 0.3 * (goal - model["w"]) + 0.01 * np.sin(np.arange(400) * (device + 1)).astype(np.float32)
        return {"w": model["w"] + (-1000 * way if device < 3 else way)}

    left = {}
    for name, given in (("FedAvg", {}), ("Krum", {"num_malicious_nodes": 3}), ("FedMedian", {})):
        strategy = Air(getattr(flower, name)(**given, **QUIET), "scheduled", 0.25, bits=8, clip=None)
        grid = LocalGrid(apps.app(step), 10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what is lost overflows
            try:
                found = strategy.start(grid, apps.record({"w": np.zeros(400, np.float32)}), 30)
            except ValueError:  # not finite
                left[name] = np.inf
                continue
        left[name] = np.linalg.norm(apps.arrays(found.arrays)["w"] - goal) / np.linalg.norm(goal)
    assert left["FedAvg"] > 1 and left["Krum"] < 0.3 and left["FedMedian"] < 0.3


def test_single_numbers_that_travel_whole_are_aggregated_too():
    strategy = Air(build("FedMedian"), "common_k", 0.5)
    assert train(strategy, apps.model(steps=np.array(7)), 1)["steps"] in (10, 11)  # 7 + device


def test_bulyan_skips_a_round_of_too_few():
    strategy = Air(build("Bulyan"), "common_k", 0.5)
    with pytest.raises(
        ValueError, match="nobody was heard in rounds 1 to 3: Bulyan makes nothing of 5 replies"
    ):
        train(strategy, apps.model(), 4, nodes=5)


def test_a_reply_without_the_loss_is_left_out_by_name():
    strategy = Air(build("QFedAvg"), "common_k", 1.0)
    losses = [
        {"train_loss": 1.0},
        {},
        {"train_loss": float("nan")},
        {"train_loss": -1.0},
        {"train_loss": 2.0},
    ]
    grid = LocalGrid(apps.app(apps.drift, metrics=lambda device, round: losses[device]), 5)
    strategy.start(grid, apps.record(apps.model()), 1)
    reasons = set(strategy.rounds[0].refused.values())
    assert reasons == {"its metric 'train_loss' must be a number >= 0"}
    assert len(strategy.rounds[0].heard) == 2
