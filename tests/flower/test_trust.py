"""Clients and servers that are broken or mean harm: refused by name, bounded, and nothing is spoiled."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

import flower_apps as apps
from airfeel.flower import AirAvg, air_mod, trust
from airfeel.flower.replies import Replies, Reply
from airfeel.flower.state import Layout
from flower_hostile import (
    BAD,
    DENSE,
    HOSTILE,
    MODEL,
    QUIET,
    SCHEMES,
    exact,
    facts,
    left,
    loud,
    towards,
    train,
)


@pytest.mark.parametrize("given", SCHEMES, ids=lambda given: "-".join(map(str, given.values())))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_whatever_one_client_sends_the_others_learn(given):
    """One kind in every round, in all schemes."""
    kinds = list(HOSTILE.values())

    def fault(round, node, reply):
        if node == BAD and round > 1 and not reply.has_error():
            kinds[round - 2](reply)
        return [reply]

    rounds = 1 + len(kinds)
    honest = train(rounds=rounds, **given)[1]
    strategy, found = train(fault, rounds=rounds, **given)
    harmless(strategy, found, honest, 0.15, rounds)


def harmless(strategy, found, honest, more, rounds):
    heard = [len(report.heard) for report in strategy.rounds]
    assert min(heard) >= 11, (heard, [report.refused for report in strategy.rounds])
    assert left(found) < left(honest) + more
    assert np.abs(found["running_mean"] - rounds).max() < 20 and abs(int(found["n"]) - 2 * rounds) < 60
    for report in strategy.rounds:
        assert all("\n" not in why and 0 < len(why) <= 200 for why in report.refused.values())


def test_without_the_clip_one_client_spoils_what_it_wants():
    def fault(round, node, reply):
        if node == BAD:
            loud(reply, -1000.0)
        return [reply]

    assert left(train(fault)[1]) < 0.5 < left(train(fault, clip=None)[1])
    strategy, _ = train(fault)
    assert all(report.clipped == (BAD,) for report in strategy.rounds)


@pytest.mark.parametrize("factor", [-1.0, -1000.0], ids=["reversed", "reversed and long"])
@pytest.mark.parametrize(
    "given",
    [DENSE, SCHEMES[-1], *(pytest.param(s, marks=pytest.mark.long) for s in SCHEMES[:4])],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_who_lies_about_its_weight_and_works_against_the_others_only_slows_them(given, factor):
    def fault(round, node, reply):
        if node == BAD:
            facts("metrics", num_examples=10**9)(reply)
            loud(reply, factor)
        return [reply]

    strategy, found = train(fault, rounds=30, **given)
    assert left(found) < 0.1
    assert all(BAD in report.clipped or BAD in report.refused for report in strategy.rounds)


def replies(*clients):
    """Return replies of clients with these weights and lengths, in a random direction each."""
    draw, made = np.random.default_rng(4), []
    for node, (weight, length) in enumerate(clients):
        signal = draw.standard_normal(50)
        signal = (length / np.linalg.norm(signal) * signal).astype(np.float32)
        energy = float(np.sum(signal.astype(np.float64) ** 2))
        made.append(Reply(node, node, node, weight, energy, False, apps.RecordDict(), signal, {}, None))
    return Replies(made)


def bounded(*clients):
    found = replies(*clients)
    after, changed = trust.bounded(found, trust.limits(found.usable, 3.0, [], {}, {}), {})
    return [(reply.weight, float(np.linalg.norm(reply.signal))) for reply in after.usable], changed


def test_a_client_may_be_heavy_or_long_but_not_both():
    others = [(1.0, 1.0)] * 24
    for heavy_or_long in ((10.0, 0.99), (5.0, 1.9), (3.3, 2.99), (0.1, 2.99)):
        assert bounded(heavy_or_long, *others)[1] == []
    for both, weight, length in (((10.0, 3.0), 10, 1), ((1e9, 1e9), 10, 1), ((5.0, 9.0), 5, 2)):
        found, changed = bounded(both, *others)
        assert changed == [0] and found[0] == pytest.approx((weight, length), rel=1e-5)


def test_nobody_weighs_more_than_half_of_the_others_where_these_are_few():
    assert bounded((1e9, 1.0), *[(1.0, 1.0)] * 11)[0][0] == pytest.approx((5.5, 1.0), rel=1e-5)
    assert bounded((10.0, 1.0), (20.0, 1.0), (30.0, 1.0))[1] == []  # a few clients may be unequal
    assert bounded((9.0, 1.0), (1.0, 1.0), (1.0, 1.0))[0][0][0] == 3


def test_what_is_scaled_down_has_no_more_energy_than_is_told():
    """Power is granted for the energy that is told, before the signal is there."""
    for length in np.linspace(3.01, 40, 30):
        found = replies((1.0, length), *[(1.0, 1.0)] * 4)
        limit = trust.limits(found.usable, 3.0, [], {}, {})
        scaled = trust.bounded(found, limit, {})[0].usable[0]
        assert np.sum(scaled.signal.astype(np.float64) ** 2) <= scaled.energy


def test_an_honest_training_is_not_touched():
    for given in SCHEMES:
        strategy, found = train(**given)
        _, free = train(**given, clip=None)
        assert not any(report.clipped for report in strategy.rounds)
        assert all(np.array_equal(found[name], free[name]) for name in found)


def test_a_weight_that_was_announced_once_freezes_nothing():
    """Weight 1e9 in the first round, then only replies that are refused."""

    def fault(round, node, reply):
        if node == BAD:
            facts("metrics", num_examples=10**9)(reply) if round == 1 else exact(other=np.zeros(1))(reply)
        return [reply]

    strategy, found = train(fault, rounds=14)
    assert left(found) < 0.1
    assert strategy._state.nodes[BAD].weight <= trust.CAP * 70 and strategy._state.nodes[BAD].absent == 13


@pytest.mark.parametrize("why", ["mod", "lost", "minimum"])
def test_three_rounds_without_anybody_are_an_error(why):
    fault = lambda round, node, reply: [] if round > 1 and why == "lost" else [reply]  # noqa: E731
    strategy = AirAvg("dense", 1.0, minimum=9 if why == "minimum" else 1, **QUIET)
    grid = apps.Faulty(apps.app(towards, mod=None if why == "mod" else air_mod), 4, fault)
    rounds, reason = {
        "mod": ("1 to 3", "its reply is not from air_mod"),
        "lost": ("2 to 4", "0 usable replies, and 1 needed"),
        "minimum": ("1 to 3", "4 usable replies, and 9 needed"),
    }[why]
    with pytest.raises(ValueError, match=f"nobody was heard in rounds {rounds}: {reason}"):
        strategy.start(grid, apps.record(MODEL), 10)


def test_all_weights_zero_are_a_sentence_not_a_crash():
    fault = lambda round, node, reply: [facts("metrics", num_examples=0)(reply) or reply]  # noqa: E731
    with pytest.raises(ValueError, match="nobody was heard in rounds 1 to 3: all weights are zero"):
        train(fault)


@pytest.mark.parametrize(
    "entry",
    [
        {"symbols": 2 * 10**8},
        {"symbols": True},
        {"chosen": np.zeros(5000, np.int32)},
    ],
)
def test_sizes_are_held_against_the_model_before_anything_is_allocated(entry):
    with pytest.raises(ValueError, match=r"the plan (asks for|has) .*model"):
        trust.require_plan(entry, Layout.of({"w": np.zeros(54, np.float32)}, []))
