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
    GOAL,
    HOSTILE,
    MODEL,
    QUIET,
    SCHEMES,
    hostile_value,
    hostile_word,
    towards,
    train,
)

ROUNDS = 200
NODE = 1001  # who is asked by a hostile server
# Bytes that a client may take beside twice the message, and times its model: a plan may have four numbers
# for each of the model's, and these are whole ones of eight bytes while a code is read.
MEMORY, MODELS = 2**18, 30


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


@pytest.mark.long
@pytest.mark.parametrize("given", SCHEMES, ids=lambda given: "-".join(map(str, given.values())))
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


def asked_of(given, size):
    """Return a grid, the request of round 3 to one of its clients, and what that client carries."""
    start = {**MODEL, "w": np.zeros((8, size // 8), np.float32)}
    step = lambda model, device, round: {**towards(MODEL, device, round), "w": model["w"] + 1}  # noqa: E731
    strategy, grid = AirAvg(**{**QUIET, "downlink": 4, **given}), apps.LocalGrid(apps.app(step), 2)
    strategy.start(grid, apps.record(start), 2)
    messages = strategy.configure_train(3, strategy._arrays, ConfigRecord({"server-round": 3}), grid)
    asked = next(message for message in messages if message.metadata.dst_node_id == NODE)
    return grid, asked, dict(grid.contexts[NODE].state)


def require_harmless(grid, content, kept, size):
    """Let the client answer; it refuses and keeps what it had, or what it keeps is finite and of its size."""
    grid.contexts[NODE].state = apps.RecordDict(kept)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    reply = grid.answer(apps.Message(content, NODE, "train"))
    limit = MEMORY + MODELS * 4 * size + 2 * wire.payload(content)
    assert tracemalloc.get_traced_memory()[1] - before < limit
    state = grid.contexts[NODE].state
    if reply.has_error():
        assert "MemoryError" not in reply.error.reason
        assert dict(state) == kept
    for row in state.get("airfeel-memory", {}).values():
        assert np.isfinite(row.numpy()).all() and np.abs(row.numpy()).max(initial=0) < 1e9
    return reply.has_error()


@pytest.fixture
def _traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


NAMES = pytest.mark.parametrize("given", SCHEMES[:4], ids=lambda given: "-".join(map(str, given.values())))


@NAMES
@pytest.mark.usefixtures("_traced")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [240, pytest.param(240_000, marks=pytest.mark.long)])
def test_whatever_a_server_announces_a_client_refuses_or_answers(given, size):
    """Fifty plans for each of four schemes; afterwards the client goes on as if nothing had been."""
    draw, (grid, asked, kept) = np.random.default_rng(5), asked_of(given, size)
    plan = wire.read_plan(asked.content)
    for _ in range(ROUNDS // 4):
        name = sorted(plan)[draw.integers(len(plan))]
        spoiled = wire.plan_records({**plan, name: hostile_value(draw, plan[name], size)})
        require_harmless(grid, apps.RecordDict({**asked.content, **spoiled}), kept, size)


@NAMES
@pytest.mark.usefixtures("_traced")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_whatever_stands_beside_the_plan_a_client_refuses_or_answers(given):
    """Numbers and words of all records of a request: scheme, bits, rounding, the model it builds on."""
    draw, (grid, asked, kept) = np.random.default_rng(6), asked_of(given, 240)
    records = asked.content.config_records
    places = [(name, key) for name in sorted(records) for key in sorted(records[name])]
    refused = 0
    for which in range(ROUNDS // 4):
        name, key = places[(which + draw.integers(2)) % len(places)]
        spoiled = {**records[name], key: hostile_word(draw)}
        spoiled = {k: value for k, value in spoiled.items() if value is not None}
        content = apps.RecordDict({**asked.content, name: ConfigRecord(spoiled)})
        refused += require_harmless(grid, content, kept, 240)
    assert 10 < refused < ROUNDS // 4
