"""AirAvg(compression=...): how many bytes travel, what clients keep, and whom the server refuses."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")


from flwr.serverapp.strategy import FedAvg

import flower_apps as apps
from airfeel.flower import AirAvg, wire
from airfeel.schemes.split import BYTES

QUIET = {"fraction_evaluate": 0.0}
MODEL = {"w": np.linspace(-1, 1, 30000, dtype=np.float32).reshape(100, 300), "b": np.ones(300, np.float32)}


class Weighing(apps.Faulty):
    """A grid that adds up the bytes of the arrays in replies of clients, before a fault spoils them."""

    up = 0

    def answer(self, message):
        reply = super().answer(message)
        self.up += wire.payload(reply.content)
        return reply


def everything(round, node, reply):
    return [reply]


def train(strategy, fault=everything, rounds=3, nodes=6, model=MODEL, **app):
    grid = Weighing(apps.app(apps.drift, **app), nodes, fault)
    result = strategy.start(grid, apps.record(model), rounds)
    return grid, apps.arrays(result.arrays)


@pytest.mark.parametrize(
    ("asked", "reached"), [(1, 30), (25, 30), (30, 30), (50, 50), (100, 100), (400, 400)]
)
def test_arrays_have_so_many_times_fewer_bytes_than_those_of_fedavg(asked, reached):
    whole, _ = train(FedAvg(**QUIET), mod=None)
    grid, _ = train(AirAvg(compression=asked, **QUIET))
    assert whole.up / grid.up == pytest.approx(reached, rel=0.04 if asked < 400 else 0.2)
    assert asked < 30 or whole.up / grid.up >= 0.99 * reached


def test_a_model_smaller_than_a_block_times_the_compression_is_learned_too():
    """A block is the least that travels, and it is full: a few coefficients times many would diverge."""
    model = {"w": np.zeros((40, 30), np.float16)}

    def half_way(model, device, round):
        return {"w": (model["w"] + (1 - model["w"]) / 2).astype(np.float16)}

    grid = apps.LocalGrid(apps.app(half_way), 6)
    found = AirAvg(compression=1000, **QUIET).start(grid, apps.record(model), 20)
    np.testing.assert_allclose(apps.arrays(found.arrays)["w"], 1, atol=0.1)


def test_nothing_but_bits_and_scales_travels_and_clients_keep_nothing():
    seen = []

    def look(round, node, reply):
        assert not reply.content.array_records
        seen.append(apps.signal(reply))
        return [reply]

    grid, _ = train(AirAvg(compression=100, **QUIET), look)
    for arrays in seen:
        assert set(arrays) == {"blocks"}
        assert arrays["blocks"].dtype == np.uint8 and arrays["blocks"].shape[1] == BYTES
    assert not any(context.state for context in grid.contexts.values())


def test_what_all_want_is_learned_with_sampled_clients_and_lost_replies():
    """All clients want the same step; a third is asked, one of four replies is lost."""
    goal = {name: array + np.float32(0.5) * np.sign(array) for name, array in MODEL.items()}

    def towards(model, device, round):
        return {name: model[name] - 0.3 * (model[name] - goal[name]) for name in model}

    draw = np.random.default_rng(4)
    grid = apps.Faulty(apps.app(towards), 12, lambda round, node, reply: [reply] * (draw.random() < 0.75))
    strategy = AirAvg(compression=30, fraction_train=0.4, **QUIET)
    found = apps.arrays(strategy.start(grid, apps.record(MODEL), 40).arrays)
    assert any(report.missing for report in strategy.rounds)
    left = sum(np.sum((found[k] - goal[k]) ** 2) for k in goal)
    assert left < 0.02 * sum(np.sum((MODEL[k] - goal[k]) ** 2) for k in goal)


def test_a_spoiled_message_is_refused_by_name_and_the_others_count():
    def spoil(round, node, reply):
        if node == 1003 and round == 2:
            apps.with_signal(reply, blocks=apps.signal(reply)["blocks"][:0])
        return [reply]

    strategy = AirAvg(compression=50, **QUIET)
    _, model = train(strategy, spoil)
    assert (
        "its signal is uint8 of shape (0, 34): must be uint8 of shape (" in strategy.rounds[1].refused[1003]
    )
    assert len(strategy.rounds[1].heard) == 5 and len(strategy.rounds[2].heard) == 6
    assert all(np.isfinite(array).all() for array in model.values())


def test_models_of_other_types_and_arrays_that_travel_whole():
    """Bytes are those of the model's own types; what is exact is FedAvg's mean."""
    model = {"w": MODEL["w"].astype(np.float16), "running_mean": np.ones(5, np.float32), "n": np.array(3)}
    expected, theirs = train(FedAvg(**QUIET), mod=None, model=model, rounds=1)
    strategy = AirAvg(compression=100, **QUIET)
    grid, found = train(strategy, model=model, rounds=1)
    assert found["w"].dtype == np.float16 and found["n"] == np.rint(theirs["n"])
    np.testing.assert_allclose(found["running_mean"], theirs["running_mean"], rtol=1e-6)
    exact = 6 * (2 * wire.HEADER + 20 + 8)
    assert (expected.up - exact) / (grid.up - exact) == pytest.approx(100, rel=0.08)
