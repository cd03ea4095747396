"""Replies that are lost, late, doubled or spoiled, clients that restart or join: defined, and said so."""

import io
import math
import re

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.app import Error
from numpy.lib import format as npy

import flower_apps as apps
from airfeel.flower import AirAvg, wire
from airfeel.flower.mod import ClientMemory
from airfeel.flower.replies import Question, sort
from airfeel.flower.state import Layout
from airfeel.learning.optimizers.descent import Adam
from airfeel.radio.channels import FadingMAC
from airfeel.radio.power import LongTermPower
from airfeel.schemes.common_k import CommonK

QUIET = {"fraction_evaluate": 0.0}
MODEL = {"w": np.linspace(-1, 1, 60, dtype=np.float32).reshape(6, 10)}
NODES = [11, 12, 13, 14]


EXACT = FadingMAC(noise_var=0.0, threshold=1e-6)


class Training:
    """A training with faults, in which every update that a client ever computed is written down.

    ``look(training, round)`` is called before the first round and after each.
    """

    def __init__(
        self, fault=None, rounds=5, scheme="common_k", *, step=None, look=None, files=None, **options
    ):
        self.updates, self.course = dict.fromkeys(range(len(NODES)), 0.0), []
        self.grid = apps.Faulty(apps.app(step or self.step), NODES, fault or whole)
        self.everybody = dict(self.grid.contexts)
        for node, context in self.everybody.items():
            if files is not None:
                context.node_config["airfeel-memory"] = str(files / f"{node}.npz")
        self.strategy = AirAvg(scheme, **({"ratio": 0.5} | QUIET | options))

        def seen(round, arrays):
            self.course.append(arrays["w"].numpy())
            if look is not None:
                look(self, round)

        with np.errstate(all="ignore"):
            self.result = self.strategy.start(self.grid, apps.record(MODEL), rounds, evaluate_fn=seen)
        self.rounds, self.state = self.strategy.rounds, self.strategy._state

    def step(self, model, device, round):
        update = np.random.default_rng([device, round]).standard_normal(60).astype(np.float32)
        self.updates[device] = self.updates[device] + update.astype(np.float64)
        return {"w": model["w"] - update.reshape(6, 10)}

    def waiting(self, node):
        """Return the weight of a client times what is waiting there, given what the server heard of it."""
        state, known = self.grid.contexts[node].state, self.strategy._state.nodes[node]
        heard = known.heard == state["airfeel-memory-of"]["round"]
        rows = apps.arrays(state["airfeel-memory"])
        return known.weight * rows["heard.error" if heard else "unheard.error"].astype(np.float64)

    def conserved(self, vanished=0.0, nodes=NODES):
        """Nothing is counted twice and nothing vanishes: what was computed has arrived, or is waiting."""
        weights = [self.state.nodes[node].weight for node in nodes]
        arrived = (MODEL["w"].reshape(-1).astype(np.float64) - self.state.theta) * sum(weights)
        waiting = sum(self.waiting(node) for node in nodes)
        computed = sum(w * self.updates[i] for i, w in enumerate(weights))
        np.testing.assert_allclose(arrived + waiting + vanished, computed, atol=2e-3)


def whole(round, node, reply):
    return [reply]


def lost(node, *rounds):
    """Return the fault that loses the replies of a node (all of them: None) in some rounds."""
    return lambda round, who, reply: [] if node in (who, None) and round in rounds else [reply]


def spoil(reply, name, **arrays):
    reply.content[name] = apps.record(arrays)
    return [reply]


def scaled(reply, factor):
    signal = apps.signal(reply)["signal"]
    return sends(reply, signal=(factor * signal).astype(np.float32))


def sends(reply, **arrays):
    return [apps.with_signal(reply, **arrays)]


def number(reply, record, **values):
    for key, value in values.items():
        reply.content[record][key] = value
    return [reply]


FAULTS = {
    "lost": (lambda reply: [], "did not answer"),
    "short": (lambda r: sends(r, signal=np.ones(3, np.float32)), r"must be float32"),
    "double": (lambda r: sends(r, signal=np.ones(30)), r"is float64 of shape \(30,\)"),
    "strange": (lambda r: sends(r, noise=np.ones(30, np.float32)), r"arrays \['noise'\]"),
    "nan": (lambda r: scaled(r, math.nan), "its signal is not finite"),
    "stronger": (lambda r: scaled(r, 2.0), "does not have the energy"),
    "old": (lambda r: number(r, "airfeel", round=1), "is of round 1: must be of round"),
    "plan": (lambda r: number(r, "airfeel", digest=5), "another plan"),
    "weight": (lambda r: number(r, "metrics", **{"num-examples": -3}), "must be a number >= 0"),
    "weightless": (lambda r: r.content.pop("metrics") and [r], "has 0 metrics 'num-examples'"),
    "foreign": (lambda r: r.content.pop("airfeel") and [r], "is not from air_mod"),
    "more": (lambda r: spoil(r, "arrays", w=np.ones(3)), r"exact arrays are \['w'\]"),
    "empty": (lambda r: sends(r), r"the arrays \[\]: must be signal"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_spoiled_reply_is_left_out_by_name_and_nothing_is_lost(fault, caplog):
    """Node 12 is disturbed in rounds 3 and 4: the others are heard, and its update arrives later."""
    (spoiled, sentence), bad = FAULTS[fault], (3, 4)
    disturb = lambda round, node, reply: spoiled(reply) if node == 12 and round in bad else [reply]  # noqa: E731
    training = Training(disturb, 6)
    for report in training.rounds:
        out = report.round in bad
        assert report.heard == ((11, 13, 14) if out else (11, 12, 13, 14))
        assert len(report.missing) + len(report.refused) == out
        metrics = training.result.train_metrics_clientapp[report.round]
        assert metrics["air-missing"] + metrics["air-refused"] == out
    lines = [record.getMessage() for record in caplog.records if "node 12" in record.getMessage()]
    assert sum("round 3" in line for line in lines) == 1
    assert any(re.search(sentence, line) for line in lines)
    training.conserved()


def test_an_answer_that_comes_twice_counts_once(caplog):
    training = Training(lambda round, node, reply: [reply, reply], 3)
    assert all(report.heard == tuple(NODES) for report in training.rounds)
    assert "node 12 left out: it answered twice" in caplog.text
    training.conserved()


def test_an_error_of_the_superlink_itself_is_a_note_and_the_node_is_missing(caplog):
    """For a node that is gone, the SuperLink answers in its own name."""

    def unavailable(round, node, reply):
        if node != 12 or round != 2:
            return [reply]
        superlink = apps.Message(apps.RecordDict(), 1, "train")
        return [apps.Message(Error(code=3, reason="Node Unavailable"), reply_to=superlink)]

    training = Training(unavailable, 4)
    report = training.rounds[1]
    assert (report.missing, report.notes, report.failed) == ((12,), ("Node Unavailable",), {})
    assert "round 2: Flower says: Node Unavailable" in caplog.text
    training.conserved()


def test_a_client_that_raises_is_named_and_the_round_goes_on():
    """It has computed nothing, so it counts as not asked: the mean is that of the others."""

    def step(model, device, round):
        if device == 1 and round == 2:
            raise RuntimeError("the data are gone")
        return {"w": model["w"] + device}

    training = Training(None, 2, "dense", step=step)
    assert "the data are gone" in training.rounds[1].failed[12]
    moved = training.state.theta - MODEL["w"].reshape(-1) - (1 * 20 + 2 * 30 + 3 * 40) / 100
    np.testing.assert_allclose(moved, (0 * 10 + 2 * 30 + 3 * 40) / 80, rtol=1e-5)


def test_an_update_that_is_not_finite_never_enters_a_memory():
    def step(model, device, round):
        return {"w": model["w"] * (math.inf if device == 1 and round == 2 else 0.9)}

    training = Training(None, 3, step=step)
    assert "not finite: local training has diverged" in training.rounds[1].failed[12]
    assert training.rounds[2].heard == tuple(NODES)


@pytest.mark.parametrize(("rounds", "expected"), [((1, 2), [1.0, 1.0]), ((2,), [1.0, 0.8])])
def test_a_missing_node_counts_with_its_last_weight_and_one_never_heard_not_at_all(rounds, expected):
    """Everybody moves by 1. With 12 missing the step is 80/100; while it was never heard of, 1."""
    step = lambda model, device, round: {"w": model["w"] - 1}  # noqa: E731
    training = Training(lost(12, *rounds), 2, "dense", step=step)
    np.testing.assert_allclose(-np.diff([model[0, 0] for model in training.course]), expected, rtol=1e-5)


def test_a_restarted_client_starts_with_an_empty_memory_and_says_so(caplog):
    vanished = []

    def look(training, round):
        if round == 3:
            vanished.append(training.waiting(13))
            training.grid.restart(13)

    training = Training(None, 6, look=look)
    assert [report.restarted for report in training.rounds] == [(), (), (), (13,), (), ()]
    assert "round 4: node 13 restarted, its error memory is empty" in caplog.text
    training.conserved(vanished[0])


def test_a_client_that_joins_later_or_returns_after_many_rounds():
    """Node 14 joins in round 3, is away from round 5 to 8, and comes back with what it had."""

    def look(training, round):
        away = round + 1 < 3 or 5 <= round + 1 <= 8
        training.grid.contexts = {n: c for n, c in training.everybody.items() if not (away and n == 14)}

    found = Training(None, 10, look=look, min_train_nodes=3).rounds
    assert [14 in report.heard for report in found] == [r in (3, 4, 9, 10) for r in range(1, 11)]
    assert found[2].joined == (14,) and not any(report.restarted for report in found)


@pytest.mark.parametrize("heard", [True, False])
def test_a_client_with_a_file_that_comes_back_as_another_node_is_known_again(tmp_path, heard):
    """A SuperNode has a new id after a restart; whether its last signal was heard, it learns all the same."""

    def look(training, round):
        if round == 3:
            training.grid.restart(12)
            training.grid.contexts[99] = training.grid.contexts.pop(12)

    training = Training(whole if heard else lost(12, 3), 6, look=look, files=tmp_path)
    assert training.rounds[3].returned == (99,)
    assert [len(report.joined) for report in training.rounds] == [4, 0, 0, 0, 0, 0]
    assert training.state.nodes[99].device == 1 and len(training.state.nodes) == 4
    training.conserved(nodes=[11, 99, 13, 14])


@pytest.mark.parametrize("policy", [500.0, LongTermPower(500.0)])
def test_a_newcomer_has_saved_no_energy(policy):
    def look(training, round):
        training.grid.contexts = {n: c for n, c in training.everybody.items() if n != 14 or round >= 4}

    training = Training(None, 6, look=look, channel="gaussian", power=policy, min_train_nodes=3)
    ledger = training.state.ledger
    assert ledger.rounds == 6 and (ledger.spent <= 6 * 500 * (1 + 1e-9)).all()
    assert ledger.spent[3] >= 4 * 500  # its account was opened as if it had spent what was due


def test_with_fading_who_was_silent_keeps_everything():
    training = Training(None, 12, channel=FadingMAC(noise_var=0.0, threshold=0.8))
    assert sum(len(report.silent) for report in training.rounds) > 5
    training.conserved()


@pytest.mark.parametrize("exchange", ["one", "two"])
def test_fewer_than_the_minimum_skip_the_round(exchange, caplog):
    fault = lambda round, node, reply: [] if round in (2, 3) and node > 11 else [reply]  # noqa: E731
    training = Training(fault, 5, channel=None if exchange == "one" else EXACT, exchange=exchange, minimum=2)
    assert [bool(report.skipped) for report in training.rounds] == [False, True, True, False, False]
    assert "round 2: skipped, 1 usable replies, and 2 needed" in caplog.text
    assert np.array_equal(training.course[1], training.course[3])
    assert [report.heard for report in training.rounds[1:3]] == [(), ()]
    training.conserved()


def test_a_round_in_which_nobody_is_heard_is_decoded_and_leaves_the_model():
    """What waits at the clients grows older, and momentum does not carry the model on."""
    training = Training(lost(None, 2), 2, "scheduled", optimizer=Adam())
    assert [len(report.heard) for report in training.rounds] == [4, 0]
    assert sorted(set(training.state.scheme.age)) == [1, 2]
    start, first, second = training.course
    assert np.array_equal(first, second) and not np.array_equal(start, first)


def test_the_second_message_may_be_lost_too():
    """Announced, told to transmit, never arrived: its weight counts, its update waits."""

    def fault(round, node, reply):
        return [] if apps.signal(reply) and node == 12 and round == 3 else [reply]

    training = Training(fault, channel=EXACT, exchange="two")
    assert training.rounds[2].missing == (12,)
    training.conserved()


def test_what_is_in_a_memory_after_all_that_can_happen():
    memory = ClientMemory(9, "t", "s", 5, *({"error": np.full(2, float(value))} for value in range(3)))

    def at(round, heard, session="s"):
        asked = wire.Announcement("t", session, round, "dense", "{}", "arrays", "")
        return memory.at(asked, heard)["error"][0]

    assert at(6, heard=5) == 1  # heard
    assert at(6, heard=3) == 2  # not heard
    assert at(40, heard=5) == 1  # heard long ago
    assert at(5, heard=4, session="other") == 0  # the server began this round again
    assert at(3, heard=2, session="other") == 0  # or went back further
    with pytest.raises(ValueError, match="round 5 is asked again: round 5 was answered"):
        at(5, heard=4)  # a request that is delivered twice is not trained and counted twice


def test_arrays_that_are_not_what_their_header_says_are_refused():
    """Nothing is unpickled, and no memory is taken for what is not there."""
    whole = wire.to_record({"it": np.arange(100.0)})["it"]
    pickled, long = io.BytesIO(), io.BytesIO()
    np.save(pickled, np.array([print]), allow_pickle=True)
    npy.write_array_header_1_0(long, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    for data in (whole.data[:-1], whole.data[:50], b"", pickled.getvalue(), long.getvalue()):
        spoiled = apps.Array(whole.dtype, whole.shape, whole.stype, data)
        with pytest.raises((ValueError, EOFError)):
            wire.from_record(apps.ArrayRecord({"it": spoiled}))


def test_a_reply_of_a_node_that_was_not_asked_is_left_out():
    request = apps.Message(apps.RecordDict(), 3, "train")
    question = Question(1, 2, 3, Layout(()), "num-examples", (4, 5), CommonK(), {})
    assert sort([apps.Message(apps.RecordDict(), reply_to=request)], question).refused == {
        3: "it was not asked"
    }
