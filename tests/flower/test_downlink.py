"""AirAvg(downlink=...): clients have to the last bit what the server says, whoever is lost or restarted."""

import re

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import flower_apps as apps
from airfeel.flower import AirAvg, air_mod, wire
from airfeel.flower.local import LocalGrid
from airfeel.flower.state import Layout
from airfeel.uplink import rice

EXACT = ["*running_*"]
MODEL = {
    "w": np.linspace(-1, 1, 6000, dtype=np.float32).reshape(60, 100),
    "half": np.linspace(0, 1, 300, dtype=np.float16),
    "running_mean": np.ones(5, np.float32),
    "steps": np.array(7),
}
PLAIN = {"w": np.linspace(-1, 1, 30000, dtype=np.float32).reshape(100, 300)}


class Watched(LocalGrid):
    """A grid whose app tells which model it saw, and which weighs all messages."""

    liar = None  # a node that may fail

    def __init__(self, nodes, fault=lambda call, node: "", evaluation=(air_mod,), forgets=False):
        self.seen, self.fault, self.strategy, self.forms = None, fault, None, []
        self.forgets = forgets  # the server: then everybody gets the whole model in every message
        self.down = self.up = self.whole = self.compared = self.calls = 0
        super().__init__(self._app(evaluation), nodes)

    def _app(self, evaluation):
        app = ClientApp()

        @app.train(mods=[air_mod])
        def train(message, context):
            self.seen = apps.arrays(message.content["arrays"])
            assert set(message.content) == {"arrays", "config"}
            device, round = context.node_config["partition-id"], message.content["config"]["server-round"]
            trained = apps.drift(self.seen, device, round)
            content = {"arrays": apps.record(trained), "metrics": MetricRecord({"num-examples": device + 1})}
            return Message(RecordDict(content), reply_to=message)

        @app.evaluate(mods=list(evaluation))
        def evaluate(message, context):
            self.seen = apps.arrays(message.content["arrays"])
            return Message(
                RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 0.5})}), reply_to=message
            )

        return app

    def send_and_receive(self, messages, *, timeout=None):
        self.calls += 1
        if self.forgets:
            self.strategy._down._has.clear()
            messages = list(messages)
            self.strategy._down.address(messages, 1, self)
        return [reply for message in list(messages) for reply in self._carried(message)]

    def _carried(self, message):
        node, kind = message.metadata.dst_node_id, message.metadata.message_type
        what = self.fault(self.calls, node)
        if what == "restart":
            self.restart(node)
        if what == "damage":
            state = self.contexts[node].state
            kept = {
                name: array + array.dtype.type(1) for name, array in apps.arrays(state[wire.MODEL]).items()
            }
            state[wire.MODEL] = apps.record(kept)
        self.down += wire.payload(message.content)
        told = message.content.get(wire.BASE)
        form = "plain" if told is None else told.get("form") or ("same" if told["base"] else "whole")
        self.forms.append((kind, node, form))
        self.seen = None
        reply = self.answer(message)
        assert node == self.liar or not reply.has_error(), reply.error.reason
        if what != "lost" and reply.has_content():  # or the server never sees it
            self.up += wire.payload(reply.content)
        if self.seen is not None and told is not None:
            down = self.strategy._down
            now = down._now
            assert now.where.layout == Layout.of(self.seen, EXACT)
            vector = down.models[told["gives"]] if told["gives"] else now.vector
            same(self.seen, now.where.arrays(vector, now.exact))
            if form in ("whole", "changed"):
                same(self.seen, apps.arrays(now.record))
            self.compared += 1
        return [] if what == "lost" else [reply]


def same(first, second):
    """The same arrays, to the last bit."""
    assert list(first) == list(second)
    for name, array in first.items():
        assert (array.shape, array.dtype) == (second[name].shape, second[name].dtype)
        assert array.tobytes() == second[name].tobytes(), name


def train(grid, rounds=6, model=PLAIN, **given):
    given = {"scheme": "common_k", "ratio": 0.3, "downlink": 8, "fraction_evaluate": 0.0, **given}
    grid.strategy = AirAvg(**given)
    found = grid.strategy.start(grid, apps.record(model), rounds)
    return grid.strategy, apps.arrays(found.arrays), found


def forms(grid, kind="train"):
    return [form for message, _, form in grid.forms if message == kind]


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_clients_have_what_the_server_says_bit_for_bit(bits):
    """Thirty rounds: half of the clients are asked, replies are lost, clients restart."""
    draw = np.random.default_rng(bits)

    def fault(call, node):
        return draw.choice(["", "lost", "restart"], p=[0.75, 0.15, 0.1])

    grid = Watched(8, fault)
    given = {"fraction_train": 0.5, "fraction_evaluate": 0.5}
    strategy, found, _ = train(grid, 30, MODEL, downlink=bits, **given)
    less = (
        "rounded" if bits < 16 else "changed"
    )  # three tenths of the parameters, in 32 bits and their places
    assert grid.compared > 150 and {"whole", less, "same"} <= set(forms(grid))
    assert less in forms(grid, "evaluate")
    assert all(np.isfinite(array).all() for array in found.values())
    assert len(strategy._down.models) <= 2 * 8 + 1
    assert sum(r.traffic.down + r.evaluation.down for r in strategy.rounds) == grid.down
    assert sum(r.traffic.up + r.evaluation.up for r in strategy.rounds) == grid.up


@pytest.mark.parametrize(("bits", "fewer", "near"), [(2, 14.5, 0.05), (4, 7.6, 4e-3), (8, 3.9, 1e-5)])
def test_messages_are_smaller_and_the_model_is_near_that_of_whole_ones(bits, fewer, near):
    grid = Watched(5)
    strategy, found, result = train(grid, downlink=bits)
    _, expected, _ = train(Watched(5), downlink=32)
    first, *later = [report.traffic.down for report in strategy.rounds]
    assert forms(grid) == ["whole"] * 5 + ["rounded"] * 25
    assert all(first / down == pytest.approx(fewer, rel=0.05) for down in later)
    moved = np.sum((expected["w"] - PLAIN["w"]) ** 2)
    assert np.sum((found["w"] - expected["w"]) ** 2) < near * moved
    assert result.train_metrics_clientapp[2]["air-bytes-down"] == later[0]
    assert len(strategy._down.models) == 1


SPARSE = {"scheme": "scheduled", "ratio": 0.05, "downlink": "changed"}
DOUBLE = {name: array.astype(np.float64) if array.ndim == 2 else array for name, array in MODEL.items()}


def unlucky(round, node):
    return np.random.default_rng([round, node]).choice(["", "lost", "restart"], p=[0.75, 0.15, 0.1])


class ByRound(Watched):
    """Who is there, whose replies are lost and who restarts: by the number of the round alone."""

    def get_node_ids(self):
        round = self.strategy._done + len(self.strategy.rounds)
        return sorted(np.random.default_rng(round).permutation(list(self.contexts))[:4].tolist())

    def _carried(self, message):
        config = message.content["config"]
        self.fault = lambda call, node: unlucky(config["server-round"], node)
        return super()._carried(message)


@pytest.mark.long
@pytest.mark.parametrize("model", [MODEL, DOUBLE], ids=["half and single", "half and double"])
def test_what_changed_equals_the_whole_model_bit_for_bit(tmp_path, model):
    """Thirty rounds: half of the clients, losses, restarts, and a server that goes on from its checkpoint."""
    found = []
    for forgets, stops in ((True, (30,)), (False, (30,)), (False, (7, 19, 30))):
        grid = ByRound(8, forgets=forgets)
        where = tmp_path / f"{forgets}{len(stops)}.npz"
        given = {"fraction_evaluate": 1.0, "checkpoint": where}
        for rounds in stops:
            _, arrays, _ = train(grid, rounds, model, **SPARSE, **given)
        assert set(forms(grid)) <= ({"whole"} if forgets else {"whole", "changed", "same"})
        assert grid.compared > 150
        found.append(arrays)
    assert forms(grid).count("changed") > 30 and "changed" in forms(grid, "evaluate")
    same(found[0], found[1])
    same(found[0], found[2])


def test_what_changed_is_much_smaller_than_the_model_with_everybody_there():
    grid = Watched(5)
    strategy, found, _ = train(grid, 6, **{**SPARSE, "ratio": 0.04})
    first, *later = [report.traffic.down for report in strategy.rounds]
    assert forms(grid) == ["whole"] * 5 + ["changed"] * 25
    assert all(first / down > 14 for down in later)  # in them the plans, too
    _, whole, _ = train(Watched(5), 6, **{**SPARSE, "ratio": 0.04, "downlink": 32})
    assert np.abs(found["w"] - whole["w"]).max() < 1e-6 * np.abs(whole["w"]).max()  # in another basis


def test_the_smaller_form_is_taken_for_each_client():
    """Who was away for long gets eight bits of everything, who was there what changed, at any model."""
    grid = Watched(6, lambda call, node: "lost" if node == 1006 and 3 <= call <= 20 else "")
    train(grid, 14, **{**SPARSE, "downlink": 4})
    kinds = {form for _, node, form in grid.forms if node == 1001}
    assert kinds == {"whole", "changed"}
    assert "rounded" in {form for _, node, form in grid.forms if node == 1006}


def test_what_an_evaluation_brought_is_not_sent_again():
    grid = Watched(4)
    strategy, _, result = train(grid, 4, fraction_evaluate=1.0)
    assert forms(grid) == ["whole"] * 4 + ["same"] * 12
    assert forms(grid, "evaluate") == ["whole"] * 4 + ["rounded"] * 12
    assert result.evaluate_metrics_clientapp[2]["loss"] == 0.5
    assert result.evaluate_metrics_clientapp[2]["air-bytes-down"] == strategy.rounds[1].evaluation.down > 0


def test_an_evaluation_without_the_mod_gets_whole_models():
    grid = Watched(4, evaluation=())
    _, _, result = train(grid, 3, fraction_evaluate=1.0)
    assert forms(grid, "evaluate") == ["whole"] * 12
    assert forms(grid) == ["whole"] * 4 + ["rounded"] * 8
    assert result.evaluate_metrics_clientapp[3]["loss"] == 0.5


@pytest.mark.parametrize("what", ["restart", "damage"])
def test_a_client_whose_model_is_gone_is_in_the_same_round(what):
    """It says that its model is gone, and is asked again with the whole one."""
    grid = Watched(4, lambda call, node: what if (call, node) == (5, 1002) else "")
    strategy, _, _ = train(grid, 5)  # calls: rounds 1 and 2, each with an evaluation of nobody, round 3
    assert [len(report.heard) for report in strategy.rounds] == [4] * 5
    assert [(node, form) for _, node, form in grid.forms if form == "whole"][4:] == [(1002, "whole")]


@pytest.mark.parametrize("scheme", ["scheduled", "tsa_ga"])
def test_an_exchange_of_two_messages(scheme):
    found = []
    for exchange in ("one", "two"):
        given = {"scheme": scheme, "channel": "gaussian", "exchange": exchange}
        found.append(train(Watched(4), 3, **given)[1])
    assert np.array_equal(found[0]["w"], found[1]["w"])


def test_a_client_that_restarts_before_an_exchange_of_two_messages_is_asked_again():
    """Calls: two messages and an evaluation of nobody in round 1, then the first message of round 2."""
    grid = Watched(4, lambda call, node: "restart" if (call, node) == (4, 1002) else "")
    given = {"scheme": "scheduled", "channel": "gaussian", "exchange": "two"}
    strategy, _, _ = train(grid, 3, **given)
    assert [len(report.heard) for report in strategy.rounds] == [4] * 3
    assert [node for _, node, form in grid.forms if form == "whole"][4:] == [1002]


def test_a_server_that_goes_on_gives_the_whole_model_first(tmp_path):
    grid = Watched(4)
    for rounds in (3, 6):
        train(grid, rounds, checkpoint=tmp_path / "training.npz")
    assert forms(grid) == (["whole"] * 4 + ["rounded"] * 8) * 2
    with pytest.raises(ValueError, match="downlink 8.* name another file"):
        train(grid, 8, checkpoint=tmp_path / "training.npz", downlink=4)


def test_small_models_travel_whole():
    grid = Watched(3)
    train(grid, 3, {"w": np.arange(20, dtype=np.float32)}, downlink=8, scheme="tsa_ga")
    assert set(forms(grid)) == {"whole"}


def test_too_many_models_are_forgotten(monkeypatch):
    monkeypatch.setattr("airfeel.flower.downlink.NUMBERS", 3 * 30000)
    grid = Watched(10)
    strategy, _, _ = train(grid, 12, fraction_train=0.4)
    assert len(strategy._down.models) <= 3
    assert "whole" in forms(grid)[20:]


def spoiled(change, **given):
    """Return the reply of a client that holds a model to a difference that was changed."""
    given = {"scheme": "common_k", "ratio": 0.3, "downlink": 8, **given}
    strategy = AirAvg(**given, fraction_evaluate=0.0, min_train_nodes=1)
    strategy.min_available_nodes = 1
    found = []

    class Between(LocalGrid):
        def send_and_receive(self, messages, *, timeout=None):
            messages = list(messages)
            for message in messages:
                if wire.MODEL in message.content:
                    message.content = change(message.content)
            found.extend(super().send_and_receive(messages))
            return found[-len(messages) :] if messages else []

    strategy.start(Between(apps.app(apps.drift), 1), apps.record(PLAIN), 2)
    return found[1]


def with_arrays(**arrays):
    def change(content):
        kept = {name: array.numpy() for name, array in content[wire.MODEL].items()}
        record = ArrayRecord({name: Array(array) for name, array in {**kept, **arrays}.items()})
        return RecordDict({**content, wire.MODEL: record})

    return change


def with_words(**words):
    def change(content):
        return RecordDict({**content, wire.BASE: ConfigRecord({**content[wire.BASE], **words})})

    return change


@pytest.mark.parametrize(
    ("given", "change", "reason"),
    [
        (
            {},
            with_arrays(difference=np.zeros((3, 260), np.uint8)),
            r"its signal is uint8 of shape \(3, 260\)",
        ),
        ({}, with_arrays(difference=np.zeros(5)), "its signal is float64"),
        ({}, with_arrays(difference=np.full((118, 260), 255, np.uint8)), "a scale that is not between"),
        ({}, with_arrays(other=np.zeros(2**20)), "beside the difference are the arrays"),
        ({}, with_words(bits=3), "bits = 3: must be"),
        ({}, with_words(form="other"), "other"),
        (SPARSE, with_arrays(places=np.zeros(3, np.uint8)), "coded numbers are uint8"),
        (SPARSE, with_arrays(places=rice.write(np.full(5, 29999))), "the model has 30000 numbers"),
        (
            SPARSE,
            with_arrays(places=rice.write(np.zeros(30001, int))),
            "30001 coded numbers: must be at most",
        ),
        (SPARSE, with_arrays(values=np.zeros(3, np.float32)), "its signal is float32"),
        (SPARSE, with_arrays(values=np.zeros(1500)), "its signal is float64"),
        (SPARSE, with_words(basis="100cx299c"), "is not one of this model"),
        (SPARSE, with_words(basis="9" * 5000), ""),
        (SPARSE, with_words(types="int64"), "no types of this model"),
        (SPARSE, with_words(types="float32\nfloat32"), "no types of this model"),
    ],
)
def test_a_spoiled_message_is_refused(given, change, reason):
    reply = spoiled(change, **given)
    assert reply.has_error()
    assert re.search(reason, reply.error.reason)


@pytest.mark.parametrize("change", [with_words(gives=5), with_words(base=5), with_words(seed=9)])
def test_another_model_than_the_server_says_is_not_used(change):
    assert wire.BASE in spoiled(change).content
