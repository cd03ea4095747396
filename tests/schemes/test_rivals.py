"""Rivals that superpose, each against what defines it: FAIR-k, SCAFCOM and ScaleCom."""

import numpy as np
import pytest

from airfeel.schemes.common_k import CommonK, chosen_by
from airfeel.schemes.fair_k import FairK, FairKState
from airfeel.schemes.scafcom import Scafcom
from airfeel.schemes.scalecom import ScaleCom
from airfeel.uplink import memory as blocks
from airfeel.uplink.round import Uplink, begin, carry
from airfeel.uplink.scheme import Setting
from rounds import QUIET, WEIGHTS, spiky

DEVICES, SIZE, SYMBOLS = 5, 60, 12
SHAPES, SETTING = {"theta": (SIZE,)}, Setting(DEVICES, SYMBOLS)


def updates(rounds):
    return spiky(rounds, DEVICES, SIZE)


def course(scheme, rounds, sending=None, state=None):
    """Yield update, plan, result and state of every round, without noise."""
    state = begin(scheme, SHAPES, SETTING)
    for t, g in enumerate(rounds, 1):
        own = {} if sending is None else {"sending": sending[t - 1]}
        plan = scheme.plan(state.scheme, 3, t)
        result, after = carry(scheme, QUIET, state, g, WEIGHTS, seed=3, round=t, **own)
        yield g, plan, result, state, after
        state = after


@pytest.mark.parametrize("importance", [0.0, 0.25, 1.0])
def test_fair_k_takes_the_largest_of_what_it_heard_and_then_the_oldest(importance):
    rng = np.random.default_rng(2)
    stale, age = rng.standard_normal(SIZE), rng.permutation(SIZE).astype(np.int32)
    by_size = round(importance * SYMBOLS)
    chosen = FairK(importance=importance).plan(FairKState(SYMBOLS, stale, age), 1, 1)["chosen"]
    large = np.argsort(-np.abs(stale))[:by_size]
    others = np.setdiff1d(np.arange(SIZE), large)
    old = others[np.argsort(-age[others])][: SYMBOLS - by_size]
    assert set(chosen) == set(large) | set(old) and len(chosen) == SYMBOLS


def test_fair_k_goes_on_with_stale_values_and_carries_nothing_at_the_devices():
    expected = np.zeros(SIZE)
    for g, plan, result, before, after in course(FairK(), updates(12)):
        expected[plan["chosen"]] = (WEIGHTS @ g)[plan["chosen"]]
        np.testing.assert_allclose(result.mean, expected, atol=1e-12)
        renewed = np.where(np.isin(np.arange(SIZE), plan["chosen"]), 0, before.scheme.age + 1)
        np.testing.assert_array_equal(after.scheme.age, renewed)
        assert not after.memory
    assert (after.scheme.age < 12).all()


def test_fair_k_takes_those_heard_for_all_and_a_silent_round_for_no_step():
    sending = np.ones((3, DEVICES), bool)
    sending[1, :3], sending[2] = False, False
    rounds = list(course(FairK(), updates(3), sending))
    g, plan, result, *_ = rounds[1]
    mean = (WEIGHTS[3:] @ g[3:]) / WEIGHTS[3:].sum()
    np.testing.assert_allclose(result.mean[plan["chosen"]], mean[plan["chosen"]], atol=1e-12)
    assert not rounds[2][2].mean.any() and (rounds[2][4].scheme.stale == rounds[1][4].scheme.stale).all()


@pytest.mark.parametrize("fade", [1.0, 0.9])
def test_scafcom_is_controlled_averaging_of_momenta(fade):
    """v = (1-b) v + b g; delta = v - c_m; x = c + mean of delta; c_m += delta; c = mean of all c_m."""
    scheme, sending = Scafcom(newest=0.3, fade=fade), np.random.default_rng(5).random((15, DEVICES)) < 0.6
    sending[4] = False
    momentum = control = np.zeros((DEVICES, SIZE))
    for t, (g, plan, result, _, after) in enumerate(course(scheme, updates(15), sending)):
        chosen, heard = chosen_by(plan, SIZE), sending[t]
        momentum, control = 0.7 * momentum + 0.3 * g, fade * control
        delta = np.zeros_like(control)
        delta[:, chosen] = (momentum - control)[:, chosen]
        share = WEIGHTS[heard].sum()
        expected = WEIGHTS @ control + WEIGHTS[heard] @ delta[heard] / (share or 1)
        np.testing.assert_allclose(result.mean, expected if heard.any() else 0 * expected, atol=1e-12)
        control = control + heard[:, None] * delta
        np.testing.assert_allclose(after.memory["control"], control, atol=1e-12)
        np.testing.assert_allclose(after.scheme.control, WEIGHTS @ control, atol=1e-12)
        np.testing.assert_array_equal(chosen, chosen_by(CommonK().plan(after.scheme.shape, 3, t + 1), SIZE))


def test_scafcom_knows_the_mean_of_all_controls_when_a_device_returns():
    scheme, computing = Scafcom(fade=0.9), np.random.default_rng(6).random((20, DEVICES)) < 0.5
    state = begin(scheme, SHAPES, SETTING)
    for t, g in enumerate(updates(20), 1):
        given = {"seed": 3, "round": t, "computing": computing[t - 1]}
        _, state = carry(scheme, QUIET, state, g, WEIGHTS, **given)
        faded = 0.9 ** (t - state.memory["faded"])
        np.testing.assert_allclose(
            state.scheme.control, WEIGHTS @ (faded * state.memory["control"]), atol=1e-12
        )


@pytest.mark.parametrize("newest", [1.0, 0.1])
@pytest.mark.parametrize("height", [DEVICES, 2])
def test_scalecom_sends_where_the_leader_is_largest_and_filters_memories(newest, height, monkeypatch):
    """Leaders take turns (among the first devices where not all fit); m <- m + beta (g - sent)."""
    monkeypatch.setattr(blocks, "BLOCK", height * SIZE)
    scheme, memory = ScaleCom(newest=newest), np.zeros((DEVICES, SIZE))
    state, first = begin(scheme, SHAPES, SETTING), 5 if height == DEVICES else 2
    for t, g in enumerate(updates(7), 1):
        uplink = Uplink(scheme, QUIET, state, WEIGHTS, seed=3, round=t)
        for devices in uplink.blocks:
            uplink.encode(devices, g[devices])
        assert uplink.arrive() == []
        result, state = uplink.decode()
        accumulated = memory + g
        chosen = np.sort(np.argsort(-np.abs(accumulated[t % first]))[:SYMBOLS])
        sent = np.zeros_like(g)
        sent[:, chosen] = accumulated[:, chosen]
        memory = memory + newest * (g - sent)
        np.testing.assert_allclose(result.mean, WEIGHTS @ sent, atol=1e-12)
        np.testing.assert_allclose(state.memory["error"], memory, atol=1e-12)
        assert result.downlink == SYMBOLS  # the leader's positions


@pytest.mark.flower
def test_a_scheme_whose_devices_lead_is_refused_where_nobody_can_speak_first():
    from airfeel.flower import AirAvg

    with pytest.raises(ValueError, match="scheme = 'ScaleCom': needs a message of one client before"):
        AirAvg("scalecom", 0.5)
