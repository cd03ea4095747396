"""State evolution where noise and signal change: between measurements, and from round to round."""

from dataclasses import replace

import numpy as np
import pytest

import airfeel as af
from airfeel.lab.studies.planning import EVERYBODY, UNHEARD, draw_air
from airfeel.learning.training import Participation
from airfeel.radio.cell import Cell
from airfeel.radio.channels import FadingMAC, GaussianMAC
from airfeel.radio.power import EqualPower, LeastError, Ledger, LongTermPower, Selection
from airfeel.radio.response import Response
from airfeel.theory.planner import LinkBudget, LinkPlan, Method
from airfeel.theory.scalar import linear_variance, unequal_variance
from airfeel.units import decibel
from airfeel.uplink.arrive import Radio, Senders, Superposed
from modeldata import Model, sample_chains

CHAIN = af.ChainParams(activity=0.05, p01=0.01, beta=0.01)
QUICK = {"rounds": 3, "samples": 8000}
DEVICES = 25


def arrived(air, senders, signals, ledger, seed, round):
    """Return what arrives of signals that are mixtures."""
    on_air = Superposed(air, senders, senders.accounts(ledger), False, seed, round)
    on_air.put(slice(None), signals)
    return on_air.arrive()


def test_equal_noise_is_the_known_formula():
    v = np.array([[0.3], [0.01]])
    for ratio, noise in ((0.1, 1e-3), (1.0, 0.2)):
        found = unequal_variance(v, v, ratio, np.full((1, 7), noise))
        assert found == pytest.approx(linear_variance(v, ratio, noise))


def test_unequal_noise_is_what_the_receiver_s_own_step_says():
    """N / sum(u) - v, which dense LMMSE also gives for a signal without structure."""
    size, rows, v = 60, 20, 0.7
    noise_var = np.geomspace(1e-3, 1.0, rows)
    u = 1 / (v + noise_var)
    found = unequal_variance(np.array([[v]]), np.array([[v]]), rows / size, noise_var[None])
    assert found[0, 0] == pytest.approx(size / u.sum() - v)
    operator = af.PartialDCT(size, rows, seed=1) @ np.eye(size)
    dense = v - v**2 * np.diag(operator.T @ np.linalg.inv(v * np.eye(rows) + np.diag(noise_var)) @ operator)
    assert 1 / (1 / dense.mean() - 1 / v) == pytest.approx(found[0, 0])


def test_what_stands_for_the_same_air_gives_the_same_numbers():
    number = af.state_evolution(CHAIN, 0.2, 5e-4, **QUICK)
    for noise_var in (np.full(4, 5e-4), np.full((3, 1), 5e-4), np.full((3, 4), 5e-4)):
        assert (af.state_evolution(CHAIN, 0.2, noise_var, **QUICK).nmse == number.nmse).all()
    same = af.state_evolution(CHAIN, 0.2, 5e-4, **QUICK, sent=np.ones(3), arriving=np.ones(3))
    assert (same.nmse == number.nmse).all()
    louder = af.state_evolution(CHAIN, 0.2, 4 * 5e-4, rounds=1, samples=8000, sent=np.full(1, 2.0))
    assert louder.nmse[0] == pytest.approx(number.nmse[0], rel=0.05)  # only the prior's scale is off


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"noise_var": np.ones((2, 3))}, r"noise_var has shape \(2, 3\): must be a number"),
        ({"noise_var": [1.0, -1.0]}, "noise_var: every entry must be finite and >= 0"),
        ({"sent": np.ones(2)}, r"sent has shape \(2,\)"),
    ],
)
def test_mistakes(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        af.state_evolution(CHAIN, **QUICK, **given)


def test_amp_is_not_followed_through_changing_air():
    plan = LinkPlan(CHAIN, Method(denoiser="soft"), rounds=2, air=draw_air(FadingMAC(), 5, 100, 2))
    with pytest.raises(ValueError, match="denoiser = 'soft': AMP is not followed"):
        plan.predict(LinkBudget())


def test_air_without_fading_costs_nothing():
    air = draw_air(FadingMAC(rician=1e12), DEVICES, 100, 4)(LinkBudget())
    assert air.noise == pytest.approx(1, rel=1e-4) and air.sent.all() and air.arriving == pytest.approx(1)
    with pytest.raises(ValueError, match="no device could send in 1000 rounds"):
        draw_air(FadingMAC(threshold=50.0), 2, 100, 1)


@pytest.mark.parametrize("policy", [EqualPower, LongTermPower, Selection, LeastError])
@pytest.mark.parametrize("kind", ["cell", "response"])
@pytest.mark.parametrize("taking_part", [EVERYBODY, Participation(0.5, 0.2)], ids=["all", "some"])
def test_the_planner_s_devices_do_what_those_of_a_run_do(kind, policy, taking_part):
    """Equal devices with equal signals through the air of a run, round by round."""
    rng = np.random.default_rng(7)
    level = 10 ** (-np.linspace(0, 40, DEVICES) / 20)
    responses = rng.standard_normal((3, DEVICES, 30, 2)).view(complex)[..., 0] * level[:, None]
    cell = Cell(losses_db=tuple(np.linspace(80.0, 120.0, DEVICES)), reference_db=100.0)
    channel = cell if kind == "cell" else Response(responses)
    link, rounds = LinkBudget(size=600, rows=60, devices=DEVICES, power=40.0), 6
    given = {"seed": 3, "draws": 1, "policy": policy(1.0), "participation": taking_part}
    told = draw_air(channel, DEVICES, 60, rounds, **given)(link)
    signal = np.where(rng.random(60) < 0.5, -1.0, 1.0)  # all symbols alike, as they are in the mean
    signals, weights = np.tile(signal, (DEVICES, 1)), np.full(DEVICES, 1 / DEVICES)
    reference = 60 / (DEVICES**2 * link.power)
    air, ledger, sent, noise = Radio(channel, policy(link.power)), Ledger.open(DEVICES), [], []
    for t in range(rounds):
        computing, sending = taking_part.draw(DEVICES, 3, t + 1)
        senders = Senders.of(weights, computing, sending)
        came = arrived(air, senders, signals[computing], ledger, 3, t + 1)
        ledger = ledger.charge(senders.everywhere(came.energy), link.power)
        sent.append(came.delivered.sum() / computing.sum())
        noise.append(np.broadcast_to(came.noise_var, 60) / reference)
    usual = np.mean(sent) if policy in (Selection, LeastError) else 1.0
    assert told.sent[0] * usual == pytest.approx(sent)
    expected = np.minimum(noise, UNHEARD) if kind == "response" else np.array(noise)[:, 0]
    assert told.noise[0] * usual**2 == pytest.approx(expected, rel=1e-6)
    assert told.usual == pytest.approx(usual)


def test_half_of_the_devices_are_a_link_of_half_as_many():
    """13 of 25 compute: the noise is that of 13 devices, and nothing of the sum is missing."""
    everybody, link = LinkPlan(CHAIN, **QUICK), LinkBudget(600, 60, DEVICES, 40.0)
    air = draw_air(GaussianMAC(), DEVICES, 60, 3, draws=1, participation=Participation(0.5))
    assert air(link).noise == pytest.approx((DEVICES / 13) ** 2) and air(link).sent == pytest.approx(1)
    fewer = everybody.predict(replace(link, devices=13)).nmse
    assert replace(everybody, air=air).predict(link).nmse == pytest.approx(fewer)
    assert (fewer > everybody.predict(link).nmse).all()


def test_who_drops_out_is_missing_in_the_sum():
    drawn = draw_air(GaussianMAC(), DEVICES, 60, 200, draws=1, participation=Participation(dropout=0.3))
    air = drawn(LinkBudget())
    assert air.noise == pytest.approx(1) and air.sent.mean() == pytest.approx(0.7, abs=0.02)
    with pytest.raises(ValueError, match="no device could send in 1000 rounds"):
        draw_air(GaussianMAC(), 2, 60, 1, participation=Participation(dropout=1.0))


def test_what_turns_single_symbols_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"gain = .*set channel.csi_error, phase_error.* folder of the run"):
        draw_air(Cell(phase_error=0.1), 5, 10, 2)
    assert (
        draw_air(FadingMAC(phase_error=0.1), 5, 10, 2)(LinkBudget()).arriving.max() < 1
    )  # the real part is kept


def carried(model, link, channel, policy, seed, rounds, usual):
    """Return the mean NMSE of late rounds of equal devices through the air of a run, parameters known."""
    support, amplitude = sample_chains(model, rounds, np.random.default_rng(seed))
    receiver = model.known(amplitude_message="joint")
    state, errors, ledger = receiver.init(model.size), [], Ledger.open(DEVICES)
    air, senders = Radio(channel, policy(link.power)), Senders.of(np.full(DEVICES, 1 / DEVICES))
    for t, x in enumerate(support * amplitude):
        operator = af.PartialDCT(model.size, model.rows, seed=1000 * seed + t)
        signals = np.tile(operator @ x, (DEVICES, 1))
        came = arrived(air, senders, signals, ledger, seed, t + 1)
        ledger = ledger.charge(senders.everywhere(came.energy), link.power)
        sent = x * came.delivered.sum() / DEVICES / usual
        reception = af.Reception(came.observation / usual, operator, came.noise_var / usual**2)
        estimate, state = receiver.receive(state, reception)
        errors.append(np.sum((estimate.mean - sent) ** 2) / np.sum(sent**2))
    return np.mean(errors[-rounds // 2 :])


def airs():
    """Return fading with equal power, and a cell and responses over 40 dB with every policy."""
    misjudged = FadingMAC(threshold=0.5, csi_error=0.01, phase_error=0.1)
    fading = [(channel, EqualPower) for channel in (FadingMAC(), FadingMAC(rician=5.0), misjudged)]
    level = 10 ** (-np.linspace(-20, 20, DEVICES) / 20)
    responses = np.random.default_rng(7).standard_normal((40, DEVICES, 500, 2)).view(complex)[..., 0]
    cell = Cell(losses_db=tuple(np.linspace(80.0, 120.0, DEVICES)), reference_db=100.0)
    over = cell, Response(responses * level[:, None], reference_db=0.0)
    policies = EqualPower, LongTermPower, Selection, LeastError
    return fading + [(channel, policy) for channel in over for policy in policies]


@pytest.mark.slow
@pytest.mark.parametrize(("channel", "policy"), airs())
def test_changing_air_is_predicted_within_half_a_decibel(channel, policy):
    model, rounds, seeds = Model(size=10_000), 40, 2
    link = LinkBudget(model.size, model.rows, DEVICES, power=1000 * model.rows / DEVICES**2)
    told = draw_air(
        channel, DEVICES, model.rows, rounds, draws=seeds, policy=policy(1.0)
    )  # of the same seeds
    usual = told(link).usual
    found = [carried(model, link, channel, policy, seed, rounds, usual) for seed in range(seeds)]
    predicted = LinkPlan(CHAIN, rounds=rounds, air=told).predict(link).nmse[-rounds // 2 :].mean()
    assert abs(decibel(float(np.mean(found))) - decibel(float(predicted))) < 0.5
