"""A vote of signs: the majority decides, and what a step does not say stays with the devices."""

import numpy as np
import pytest

from airfeel.radio.channels import GaussianMAC
from airfeel.radio.power import EqualPower
from airfeel.schemes.common_k import CommonK, SignVote, chosen_by
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting
from rounds import QUIET, spiky

DEVICES, SIZE, SYMBOLS = 7, 60, 25
SHAPES, SETTING = {"theta": (SIZE,)}, Setting(DEVICES, SYMBOLS)
WEIGHTS = np.array([30, 20, 11, 11, 10, 10, 9]) / 101  # an odd sum: no vote ends in a tie


def updates(seed):
    return spiky(DEVICES, SIZE, seed=seed)


def chosen(scheme):
    return chosen_by(scheme.plan(scheme.init(SHAPES, SETTING), 3, 1), SIZE)


def first_round(scheme, rows, weights=WEIGHTS, air=QUIET):
    return carry(scheme, air, begin(scheme, SHAPES, SETTING), rows, weights, seed=3, round=1)[0]


@pytest.mark.parametrize("weights", [WEIGHTS, np.full(DEVICES, 1 / DEVICES)], ids=["weighted", "equal"])
@pytest.mark.parametrize("seed", range(5))
def test_without_noise_the_estimate_is_the_side_of_the_majority(seed, weights):
    scheme, g = SignVote(step=0.25), updates(seed)
    result = first_round(scheme, g, weights)
    for_it = np.array([weights[g[:, n] > 0].sum() for n in range(SIZE)])
    told = np.zeros(SIZE, bool)
    told[chosen(scheme)] = True
    expected = np.where(told, np.where(for_it > 0.5, 0.25, -0.25), 0.0)
    np.testing.assert_array_equal(result.mean, expected)


def test_the_coordinates_are_those_of_common_k_and_everybody_spends_by_its_weight_alone():
    scheme, state = SignVote(), CommonK().init(SHAPES, SETTING)
    for t in (1, 2):
        assert scheme.plan(state, 3, t) == CommonK().plan(state, 3, t)
    assert scheme.plan(state, 3, 1) != scheme.plan(state, 3, 2)
    result = first_round(scheme, updates(1))
    np.testing.assert_allclose(result.energy, 500.0 * (WEIGHTS / WEIGHTS.max()) ** 2)
    assert result.channel_uses == SYMBOLS


@pytest.mark.parametrize("feedback", [True, False])
def test_a_device_keeps_what_its_step_does_not_say_or_forgets(feedback):
    scheme, g = SignVote(step=0.5, feedback=feedback), updates(2)
    g[0, :] = 0.0
    plan = scheme.plan(scheme.init(SHAPES, SETTING), 3, 1)
    sent = scheme.compress(plan, g)
    assert set(np.unique(sent.signal)) == {-1.0, 1.0} and (sent.signal[0] == 1).all()
    said = np.zeros_like(g)
    said[:, chosen(scheme)] = 0.5 * sent.signal
    np.testing.assert_array_equal(sent.remainder, g - said if feedback else 0 * g)


def test_with_feedback_the_votes_of_one_device_have_the_right_mean():
    """Said so far plus memory is all that was computed, so the mean of T rounds is right to step / T."""
    rounds, step = 200, 0.5
    scheme = SignVote(step=step)
    g = np.random.default_rng(4).uniform(-0.4, 0.4, (1, SIZE))
    state, total = begin(scheme, SHAPES, Setting(devices=1, symbols=SIZE)), np.zeros(SIZE)
    for t in range(1, rounds + 1):
        result, state = carry(scheme, QUIET, state, g, np.ones(1), seed=3, round=t)
        total += result.mean
    np.testing.assert_allclose(total / rounds, g[0], atol=1.01 * step / rounds)


@pytest.mark.parametrize("noise_var", [0.0, 1e4])
def test_noise_turns_votes_but_does_not_change_their_worth(noise_var):
    scheme, air = SignVote(step=0.25), Radio(GaussianMAC(noise_var), EqualPower(1.0))
    result = first_round(scheme, updates(5), air=air)
    np.testing.assert_array_equal(np.abs(result.mean[chosen(scheme)]), 0.25)
