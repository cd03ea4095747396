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
from airfeel.learning.optimizers.sgd import GradientDescent
from airfeel.radio.fading import FadingMAC
from airfeel.radio.power import LongTermPower

QUIET = {"fraction_evaluate": 0.0}
MODEL = {"w": np.linspace(-1, 1, 60, dtype=np.float32).reshape(6, 10)}
NODES = [11, 12, 13, 14]


class Book:
    """A client's training, with every update it ever computed written down."""

    def __init__(self):
        self.updates = dict.fromkeys(range(len(NODES)), 0.0)

    def step(self, model, device, round):
        draw = np.random.default_rng([device, round])
        update = draw.standard_normal(60).astype(np.float32)
        self.updates[device] = self.updates[device] + update.astype(np.float64)
        return {"w": model["w"] - update.reshape(6, 10)}


def memory_of(grid, strategy, node):
    """Return what is waiting at a client, given what the server heard of it."""
    rows = apps.arrays(grid.contexts[node].state["airfeel-memory"])
    heard, unheard = rows["heard.error"], rows["unheard.error"]
    last = grid.contexts[node].state["airfeel-memory-of"]["round"]
    return (heard if strategy._state.nodes[node].heard == last else unheard).astype(np.float64)


def delivered(strategy):
    """Return W times the way of the model, which is the sum of w_m times what arrived from each."""
    start = MODEL["w"].reshape(-1).astype(np.float64)
    return (start - strategy._state.theta) * sum(node.weight for node in strategy._state.nodes.values())


def conserved(grid, strategy, book, vanished=0.0, nodes=NODES):
    """Nothing is counted twice and nothing vanishes: what was computed has arrived, or is waiting."""
    weights = {node: strategy._state.nodes[node].weight for node in nodes}
    waiting = sum(w * memory_of(grid, strategy, node) for node, w in weights.items())
    computed = sum(w * book.updates[i] for i, w in enumerate(weights.values()))
    np.testing.assert_allclose(delivered(strategy) + waiting + vanished, computed, atol=2e-3)


def spoil(reply, name, **arrays):
    reply.content[name] = apps.record(arrays)
    return [reply]


def scaled(reply, factor):
    signal = apps.arrays(reply.content["airfeel-signal"])["signal"]
    return spoil(reply, "airfeel-signal", signal=(factor * signal).astype(np.float32))


def number(reply, record, **values):
    for key, value in values.items():
        reply.content[record][key] = value
    return [reply]


FAULTS = {
    "lost": (lambda reply: [], "did not answer"),
    "short": (lambda r: spoil(r, "airfeel-signal", signal=np.ones(3, np.float32)), r"must be float32"),
    "double": (lambda r: spoil(r, "airfeel-signal", signal=np.ones(30)), r"is float64 of shape \(30,\)"),
    "strange": (lambda r: spoil(r, "airfeel-signal", noise=np.ones(30, np.float32)), r"arrays \['noise'\]"),
    "nan": (lambda r: scaled(r, math.nan), "its signal is not finite"),
    "stronger": (lambda r: scaled(r, 2.0), "does not have the energy"),
    "old": (lambda r: number(r, "airfeel", round=1), "is of round 1: must be of round"),
    "plan": (lambda r: number(r, "airfeel", digest=5), "another plan"),
    "weight": (lambda r: number(r, "metrics", **{"num-examples": -3}), "must be a number >= 0"),
    "weightless": (lambda r: r.content.pop("metrics") and [r], "has 0 metrics 'num-examples'"),
    "foreign": (lambda r: r.content.pop("airfeel") and [r], "is not from air_mod"),
    "more": (lambda r: spoil(r, "arrays", w=np.ones(3)), r"exact arrays are \['w'\]"),
    "empty": (lambda r: r.content.pop("airfeel-signal") and [r], "airfeel-signal"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_spoiled_reply_is_left_out_by_name_and_nothing_is_lost(fault, caplog):
    """Node 12 is disturbed in rounds 3 and 4: the others are heard, and its update arrives later."""
    spoiled, sentence = FAULTS[fault]
    book, bad = Book(), (3, 4)
    disturb = lambda round, node, reply: spoiled(reply) if node == 12 and round in bad else [reply]  # noqa: E731
    grid = apps.Faulty(apps.app(book.step), NODES, disturb)
    strategy = AirAvg("common_k", ratio=0.5, **QUIET)
    result = strategy.start(grid, apps.record(MODEL), 6)
    for report in strategy.rounds:
        out = report.round in bad
        assert report.heard == ((11, 13, 14) if out else (11, 12, 13, 14))
        assert len(report.missing) + len(report.refused) == out
        metrics = result.train_metrics_clientapp[report.round]
        assert metrics["air-missing"] + metrics["air-refused"] == out
    lines = [record.getMessage() for record in caplog.records if "node 12" in record.getMessage()]
    assert sum("round 3" in line for line in lines) == 1
    assert any(re.search(sentence, line) for line in lines)
    conserved(grid, strategy, book)


def test_an_answer_that_comes_twice_counts_once(caplog):
    book = Book()
    grid = apps.Faulty(apps.app(book.step), NODES, lambda round, node, reply: [reply, reply])
    strategy = AirAvg("common_k", ratio=0.5, **QUIET)
    strategy.start(grid, apps.record(MODEL), 3)
    assert all(report.heard == tuple(NODES) for report in strategy.rounds)
    assert "node 12 left out: it answered twice" in caplog.text
    conserved(grid, strategy, book)


def test_a_late_answer_is_refused_and_waits_at_its_client():
    """A reply of round 2 arrives in round 3 beside the client's own: the new one counts."""
    late, book = [], Book()

    def disturb(round, node, reply):
        if node == 12 and round == 2:
            late.append(reply)
            return []
        return [*late, reply] if node == 12 and round == 3 else [reply]

    grid = apps.Faulty(apps.app(book.step), NODES, disturb)
    strategy = AirAvg("common_k", ratio=0.5, **QUIET)
    strategy.start(grid, apps.record(MODEL), 5)
    assert strategy.rounds[1].missing == (12,)
    assert "is of round 2: must be of round 3" in strategy.rounds[2].refused[12]
    assert 12 in strategy.rounds[2].heard
    conserved(grid, strategy, book)


def test_faults_at_random_lose_nothing():
    book, draw = Book(), np.random.default_rng(8)
    kinds = list(FAULTS.values())

    def disturb(round, node, reply):
        if round == 1 or draw.random() < 0.6:
            return [reply]
        return kinds[draw.integers(len(kinds))][0](reply)

    grid = apps.Faulty(apps.app(book.step), NODES, disturb)
    strategy = AirAvg("common_k", ratio=0.3, **QUIET)
    strategy.start(grid, apps.record(MODEL), 25)
    assert 20 < sum(len(report.heard) for report in strategy.rounds) < 90
    conserved(grid, strategy, book)


def test_an_error_of_the_superlink_itself_is_a_note_and_the_node_is_missing(caplog):
    """For a node that is gone, the SuperLink answers in its own name."""

    def unavailable(round, node, reply):
        if node != 12 or round != 2:
            return [reply]
        superlink = apps.Message(apps.RecordDict(), 1, "train")
        return [apps.Message(Error(code=3, reason="Node Unavailable"), reply_to=superlink)]

    book = Book()
    grid = apps.Faulty(apps.app(book.step), NODES, unavailable)
    strategy = AirAvg("common_k", 0.5, **QUIET)
    strategy.start(grid, apps.record(MODEL), 4)
    report = strategy.rounds[1]
    assert (report.missing, report.notes, report.failed) == ((12,), ("Node Unavailable",), {})
    assert "round 2: Flower says: Node Unavailable" in caplog.text
    conserved(grid, strategy, book)


def test_a_client_that_raises_is_named_and_the_round_goes_on():
    """It has computed nothing, so it counts as not asked: the mean is that of the others."""

    def step(model, device, round):
        if device == 1 and round == 2:
            raise RuntimeError("the data are gone")
        return {"w": model["w"] + device}

    strategy = AirAvg("dense", **QUIET)
    strategy.start(apps.LocalGrid(apps.app(step), NODES), apps.record(MODEL), 2)
    assert "the data are gone" in strategy.rounds[1].failed[12]
    step_of_2 = (0 * 10 + 2 * 30 + 3 * 40) / 80
    moved = strategy._state.theta - MODEL["w"].reshape(-1) - (1 * 20 + 2 * 30 + 3 * 40) / 100
    np.testing.assert_allclose(moved, step_of_2, rtol=1e-5)


def test_an_update_that_is_not_finite_never_enters_a_memory():
    def step(model, device, round):
        return {"w": model["w"] * (math.inf if device == 1 and round == 2 else 0.9)}

    strategy = AirAvg("common_k", 0.5, **QUIET)
    grid = apps.LocalGrid(apps.app(step), NODES)
    with np.errstate(all="ignore"):
        strategy.start(grid, apps.record(MODEL), 3)
    assert "not finite: local training has diverged" in strategy.rounds[1].failed[12]
    assert strategy.rounds[2].heard == tuple(NODES)


def test_a_missing_node_counts_with_its_last_weight_and_one_never_heard_not_at_all():
    """Everybody moves by 1. With 12 missing the step is 80/100; while it was never heard of, 1."""
    step = lambda model, device, round: {"w": model["w"] - 1}  # noqa: E731
    for first, expected in ((1, [1.0, 1.0]), (2, [1.0, 0.8])):
        fault = lambda round, node, reply, first=first: [] if node == 12 and round >= first else [reply]  # noqa: E731
        strategy = AirAvg("dense", **QUIET)
        course = []
        strategy.start(
            apps.Faulty(apps.app(step), NODES, fault),
            apps.record(MODEL),
            2,
            evaluate_fn=lambda round, arrays, course=course: course.append(arrays["w"].numpy()[0, 0]),
        )
        np.testing.assert_allclose(-np.diff(course), expected, rtol=1e-5)


def test_a_restarted_client_starts_with_an_empty_memory_and_says_so(caplog):
    book = Book()
    vanished = []

    def disturb(round, node, reply):
        return [reply]

    grid = apps.Faulty(apps.app(book.step), NODES, disturb)
    strategy = AirAvg("common_k", ratio=0.5, **QUIET)

    def look(round, arrays):
        if round == 3:
            vanished.append(strategy._state.nodes[13].weight * memory_of(grid, strategy, 13))
            grid.restart(13)

    strategy.start(grid, apps.record(MODEL), 6, evaluate_fn=look)
    assert [report.restarted for report in strategy.rounds] == [(), (), (), (13,), (), ()]
    assert "round 4: node 13 restarted, its error memory is empty" in caplog.text
    conserved(grid, strategy, book, vanished=vanished[0])


def test_a_client_that_joins_later_or_returns_after_many_rounds():
    """Node 14 joins in round 3, is away from round 5 to 8, and comes back with what it had."""
    book = Book()
    grid = apps.LocalGrid(apps.app(book.step), NODES)
    everybody = dict(grid.contexts)
    strategy = AirAvg("common_k", ratio=0.5, min_train_nodes=3, **QUIET)

    def look(round, arrays):
        away = round + 1 < 3 or 5 <= round + 1 <= 8
        grid.contexts = {n: c for n, c in everybody.items() if not (away and n == 14)}

    strategy.start(grid, apps.record(MODEL), 10, evaluate_fn=look)
    assert [14 in report.heard for report in strategy.rounds] == [r in (3, 4, 9, 10) for r in range(1, 11)]
    assert strategy.rounds[2].joined == (14,)
    assert not any(report.restarted for report in strategy.rounds)


@pytest.mark.parametrize("heard", [True, False])
def test_a_client_with_a_file_that_comes_back_as_another_node_is_known_again(tmp_path, heard):
    """A SuperNode has a new id after a restart; whether its last signal was heard, it learns all the same."""
    book = Book()
    fault = lambda round, node, reply: [] if node == 12 and round == 3 and not heard else [reply]  # noqa: E731
    grid = apps.Faulty(apps.app(book.step), NODES, fault)
    for node, context in grid.contexts.items():
        context.node_config["airfeel-memory"] = str(tmp_path / f"{node}.npz")
    strategy = AirAvg("common_k", 0.5, **QUIET)

    def look(round, arrays):
        if round == 3:
            grid.restart(12)
            grid.contexts[99] = grid.contexts.pop(12)

    strategy.start(grid, apps.record(MODEL), 6, evaluate_fn=look)
    assert strategy.rounds[3].returned == (99,)
    assert [len(report.joined) for report in strategy.rounds] == [4, 0, 0, 0, 0, 0]
    assert strategy._state.nodes[99].device == 1 and len(strategy._state.nodes) == 4
    conserved(grid, strategy, book, nodes=[11, 99, 13, 14])


@pytest.mark.parametrize("policy", [500.0, LongTermPower(500.0)])
def test_a_newcomer_has_saved_no_energy(policy):
    grid = apps.LocalGrid(apps.app(Book().step), NODES)
    everybody = dict(grid.contexts)
    strategy = AirAvg("common_k", 0.5, "gaussian", power=policy, min_train_nodes=3, **QUIET)

    def look(round, arrays):
        grid.contexts = {n: c for n, c in everybody.items() if n != 14 or round >= 4}

    strategy.start(grid, apps.record(MODEL), 6, evaluate_fn=look)
    ledger = strategy._state.ledger
    assert ledger.rounds == 6
    assert ledger.spent[3] >= 4 * 500  # its account was opened as if it had spent what was due
    assert (ledger.spent <= 6 * 500 * (1 + 1e-9)).all()


def test_with_fading_who_was_silent_keeps_everything():
    book = Book()
    grid = apps.LocalGrid(apps.app(book.step), NODES)
    strategy = AirAvg("common_k", 0.5, FadingMAC(noise_var=0.0, threshold=0.8), **QUIET)
    strategy.start(grid, apps.record(MODEL), 12)
    assert sum(len(report.silent) for report in strategy.rounds) > 5
    conserved(grid, strategy, book)


@pytest.mark.parametrize("exchange", ["one", "two"])
def test_fewer_than_the_minimum_skip_the_round(exchange, caplog):
    book = Book()
    fault = lambda round, node, reply: [] if round in (2, 3) and node > 11 else [reply]  # noqa: E731
    grid = apps.Faulty(apps.app(book.step), NODES, fault)
    channel = None if exchange == "one" else FadingMAC(noise_var=0.0, threshold=1e-6)
    strategy = AirAvg("common_k", 0.5, channel, exchange=exchange, minimum=2, **QUIET)
    course = []
    strategy.start(
        grid, apps.record(MODEL), 5, evaluate_fn=lambda r, arrays: course.append(arrays["w"].numpy())
    )
    assert [bool(report.skipped) for report in strategy.rounds] == [False, True, True, False, False]
    assert "round 2: skipped, 1 usable replies, and 2 needed" in caplog.text
    assert np.array_equal(course[1], course[3])
    assert [report.heard for report in strategy.rounds[1:3]] == [(), ()]
    conserved(grid, strategy, book)


def test_a_round_in_which_nobody_is_heard_is_decoded_and_leaves_the_model():
    """What waits at the clients grows older, and momentum does not carry the model on."""
    lost = lambda round, node, reply: [] if round == 2 else [reply]  # noqa: E731
    grid = apps.Faulty(apps.app(Book().step), NODES, lost)
    strategy = AirAvg("scheduled", 0.5, optimizer=GradientDescent(momentum=0.9), **QUIET)
    course = []
    strategy.start(
        grid, apps.record(MODEL), 2, evaluate_fn=lambda r, arrays: course.append(arrays["w"].numpy())
    )
    assert [len(report.heard) for report in strategy.rounds] == [4, 0]
    assert sorted(set(strategy._state.scheme.age)) == [1, 2]
    assert np.array_equal(course[1], course[2]) and not np.array_equal(course[0], course[1])


def test_the_second_message_may_be_lost_too():
    """Announced, told to transmit, never arrived: its weight counts, its update waits."""
    book = Book()

    def fault(round, node, reply):
        second = "airfeel-signal" in reply.content
        return [] if second and node == 12 and round == 3 else [reply]

    grid = apps.Faulty(apps.app(book.step), NODES, fault)
    channel = FadingMAC(noise_var=0.0, threshold=1e-6)
    strategy = AirAvg("common_k", 0.5, channel, exchange="two", **QUIET)
    strategy.start(grid, apps.record(MODEL), 5)
    assert strategy.rounds[2].missing == (12,)
    conserved(grid, strategy, book)


def test_two_messages_and_one_give_equal_results():
    found = []
    for exchange in ("one", "two"):
        grid = apps.LocalGrid(apps.app(Book().step), NODES)
        strategy = AirAvg("tsa_ga", 0.5, FadingMAC(noise_var=0.5), exchange=exchange, **QUIET)
        strategy.start(grid, apps.record(MODEL), 6)
        found.append((strategy._state.theta, strategy._state.ledger.spent, strategy.rounds[-1].silent))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)
    assert found[0][2] == found[1][2]


def test_a_client_answers_a_round_of_a_session_once():
    """A request that is delivered twice is not trained and counted twice."""
    memory = ClientMemory(9, "t", "s", 5, *({"error": np.full(2, float(value))} for value in range(3)))
    same = wire.Announcement("t", "s", 5, "dense", "{}", "arrays", "")
    with pytest.raises(ValueError, match="round 5 is asked again: round 5 was answered"):
        memory.at(same, heard=4)


def test_what_is_in_a_memory_after_all_that_can_happen():
    memory = ClientMemory(9, "t", "s", 5, *({"error": np.full(2, float(value))} for value in range(3)))

    def at(round, heard, session="s"):
        return memory.at(wire.Announcement("t", session, round, "dense", "{}", "arrays", ""), heard)["error"][
            0
        ]

    assert at(6, heard=5) == 1  # heard
    assert at(6, heard=3) == 2  # not heard
    assert at(40, heard=5) == 1  # heard long ago
    assert at(5, heard=4, session="other") == 0  # the server began this round again
    assert at(3, heard=2, session="other") == 0  # or went back further


def test_packing_and_unpacking():
    draw = np.random.default_rng(1)
    for share in (0.0, 0.05, 0.5, 1.0):
        signal = np.where(draw.random(1003) < share, draw.standard_normal(1003), 0).astype(np.float32)
        assert np.array_equal(wire.unpack(wire.pack(signal), 1003), signal)
    packed = wire.pack(np.eye(1, 80, dtype=np.float32)[0])
    for wrong in ({"values": packed["values"][:0]}, {"places": packed["places"][:3]}):
        with pytest.raises(ValueError, match="its signal"):
            wire.unpack({**packed, **wrong}, 80)


@pytest.mark.parametrize(
    "array",
    [
        np.array(7),
        np.zeros((0, 3)),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
        np.array([True, False]),
        np.array(["text", "more"]),
        np.arange(300) + 1j,
    ],
)
def test_arrays_are_read_as_flower_reads_them(array):
    record = wire.to_record({"it": array})
    for _ in range(2):  # the second time the header is known
        (found,) = wire.from_record(record).values()
        theirs = record["it"].numpy()
        assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape)
        assert np.array_equal(found, theirs)


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
    question = Question(1, 2, 3, Layout(()), "num-examples", asked=(4, 5))
    assert sort([apps.Message(apps.RecordDict(), reply_to=request)], question).refused == {
        3: "it was not asked"
    }


def test_a_policy_that_chooses_among_devices_is_refused():
    """Clients learn whether they were heard, not in what part."""
    from airfeel.radio.choosing import LeastError, Selection

    for policy in (LeastError(500.0), Selection(500.0)):
        with pytest.raises(
            ValueError, match=r"power = .*must be a number or a policy that treats all devices"
        ):
            AirAvg(channel="gaussian", power=policy)
