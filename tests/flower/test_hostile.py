"""Two hundred hostile replies and two hundred hostile plans, drawn by chance."""

import tracemalloc

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.app import ConfigRecord

import flower_apps as apps
from airfeel.flower import AirAvg, wire
from flower_hostile import (
    BAD,
    DENSE,
    GOAL,
    HOSTILE,
    MODEL,
    QUIET,
    SCHEMES,
    hostile_value,
    towards,
    train,
)

ROUNDS = 200
MEMORY = 16 * 2**20  # bytes: two gigabytes would be 2e8 symbols


def samples(seed, number):
    draw = np.random.default_rng([9, seed])
    classes = draw.integers(len(GOAL), size=number)
    return GOAL[classes] + 1.5 * draw.standard_normal((number, GOAL.shape[1])), classes


def learn(model, device, round):
    """Take a step of softmax regression on samples of this device."""
    inputs, classes = samples(device, 60)
    scores = inputs @ model["w"].T
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    wrong = odds / odds.sum(axis=1, keepdims=True) - np.eye(len(GOAL))[classes]
    return {**towards(model, device, round), "w": (model["w"] - 0.03 * wrong.T @ inputs / 60).astype("f4")}


def accuracy(found):
    inputs, classes = samples(999, 2000)
    return np.mean((inputs @ found["w"].T).argmax(axis=1) == classes)


@pytest.mark.parametrize(
    "given",
    [DENSE, *(pytest.param(s, marks=pytest.mark.long) for s in SCHEMES if s is not DENSE)],
    ids=lambda given: "-".join(map(str, given.values())),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_two_hundred_replies_of_one_client_cost_less_than_a_point(given, caplog):
    """Two kinds at once, another mixture in every round."""
    draw, kinds = np.random.default_rng(3), list(HOSTILE.values())

    def fault(round, node, reply):
        for which in draw.integers(len(kinds), size=2) if node == BAD else ():
            try:
                kinds[which](reply)
            except (KeyError, ValueError, TypeError):  # another kind has taken away what this one spoils
                continue
        return [reply]

    honest = train(rounds=ROUNDS, step=learn, **given)[1]
    strategy, found = train(fault, rounds=ROUNDS, step=learn, **given)
    assert len(strategy.rounds) == ROUNDS and all(len(report.heard) >= 11 for report in strategy.rounds)
    assert accuracy(found) > max(0.8, accuracy(honest) - 0.01)
    told = [record for record in caplog.records if f"node {BAD} sends too much" in record.getMessage()]
    assert len(told) == 1


@pytest.mark.parametrize("given", SCHEMES[:4], ids=lambda given: "-".join(map(str, given.values())))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_whatever_a_server_announces_a_client_refuses_or_answers(given):
    """Fifty plans for each of four schemes; afterwards the client goes on as if nothing had been."""
    draw, size = np.random.default_rng(5), 240
    strategy, grid = AirAvg(**{**QUIET, **given}), apps.LocalGrid(apps.app(towards), 2)
    strategy.start(grid, apps.record(MODEL), 2)
    messages = strategy.configure_train(3, strategy._arrays, ConfigRecord(), grid)
    asked = next(message for message in messages if message.metadata.dst_node_id == 1001)
    plan, kept = wire.read_plan(asked.content), dict(grid.contexts[1001].state)
    tracemalloc.start()
    try:
        for _ in range(ROUNDS // 4):
            name = sorted(plan)[draw.integers(len(plan))]
            spoiled = {**plan, name: hostile_value(draw, plan[name], size)}
            config = ConfigRecord({"server-round": 3})
            content = apps.RecordDict({**asked.content, **wire.plan_records(spoiled), "config": config})
            grid.contexts[1001].state = apps.RecordDict(kept)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            reply = grid.answer(apps.Message(content, 1001, "train"))
            assert tracemalloc.get_traced_memory()[1] - before < MEMORY
            if reply.has_error():
                assert "MemoryError" not in reply.error.reason
                assert dict(grid.contexts[1001].state) == kept
            for row in grid.contexts[1001].state.get("airfeel-memory", {}).values():
                assert np.isfinite(row.numpy()).all() and np.abs(row.numpy()).max(initial=0) < 1e9
    finally:
        tracemalloc.stop()
