"""TSA-GA over several rounds against Algorithm 1 written out by hand, and its states and options."""

from typing import get_args

import numpy as np
import pytest
from scipy.special import expit, logit

import airfeel as af
from airfeel.beliefs import spike_slab
from airfeel.beliefs.chains import AmplitudeMessage
from modeldata import Model, estimates, run, stream_of
from oracles import dense_partial_dct, turbo_loop

SMALL = Model(size=300, ratio=0.5, activity=0.15, p01=0.1, beta=0.1, snr_db=25.0)


def algorithm_1(model, heard, message):
    """All rounds with known parameters; one list per coefficient kind for the joint message."""
    p01, p10 = model.p01, model.activity * model.p01 / (1 - model.activity)
    a, q = 1 - model.beta, model.beta * (2 - model.beta) * model.variance
    lam = np.full(model.size, model.activity)
    mu, v = np.zeros(model.size), np.full(model.size, model.variance)
    idle_mu, idle_v = mu, v
    estimates = []
    for reception in heard:
        matrix = dense_partial_dct(reception.operator)
        pi, m1, v1, z, tau = turbo_loop(matrix, reception.observation, reception.noise_var, lam, mu, v)
        estimates.append(pi * m1)
        if message == "expansion":  # to first order in eps: N(z, tau / w)
            w = expit(logit(lam) + z**2 / (2 * tau))
            vq = 1 / (1 / v + w / tau)
            mu, v = a * vq * (mu / v + z * w / tau), a**2 * vq + q
        elif message == "moments":
            mq = pi * m1 + (1 - pi) * mu
            second = pi * (v1 + m1**2) + (1 - pi) * (v + mu**2)
            mu, v = a * mq, a**2 * (second - mq**2) + q
        else:
            on = np.array([pi * (1 - p01), (1 - pi) * p10])
            off = np.array([pi * p01, (1 - pi) * (1 - p10)])
            means, squares = np.array([m1, idle_mu]), np.array([v1 + m1**2, idle_v + idle_mu**2])
            on, off = on / on.sum(axis=0), off / off.sum(axis=0)
            mean, idle_mean = (on * means).sum(axis=0), (off * means).sum(axis=0)
            mu, v = a * mean, a**2 * ((on * squares).sum(axis=0) - mean**2) + q
            idle_mu = a * idle_mean
            idle_v = a**2 * ((off * squares).sum(axis=0) - idle_mean**2) + q
        lam = p10 * (1 - pi) + (1 - p01) * pi
    return np.array(estimates)


@pytest.mark.parametrize("message", get_args(AmplitudeMessage))
def test_every_round_is_algorithm_1(message):
    heard, _, _, _ = stream_of(SMALL, seed=3, rounds=6)
    exactly = {"doubt": False, "tolerance": 1e-13, "max_iterations": 300}
    receiver = SMALL.known(learn=False, amplitude_message=message, **exactly)
    if message == "expansion":  # the paper's own receiver is just that
        options = {"p01": SMALL.p01, "beta": SMALL.beta, "variance": SMALL.variance, "learn": False}
        assert receiver == af.TSAGA.paper(SMALL.activity, **options | exactly)
    found = estimates(receiver, heard)
    assert {estimate.info.status for estimate in found} == {"converged"}
    # The expansion is compared with its first order in eps = 1e-7.
    tolerance = 1e-5 if message == "expansion" else 1e-8
    assert np.allclose([e.mean for e in found], algorithm_1(SMALL, heard, message), atol=tolerance)


def test_without_both_chains_every_round_is_turbo_cs():
    heard, _, _, _ = stream_of(SMALL, seed=1, rounds=4)
    receiver = SMALL.known(learn=False, support_chain=False, amplitude_chain=False)
    single = af.TurboCS(SMALL.activity, variance=SMALL.variance)
    for found, alone in zip(estimates(receiver, heard), estimates(single, heard), strict=True):
        assert np.allclose(found.mean, alone.mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"amplitude_message": "expansion"}, {"support_chain": False}])
def test_float32_follows_float64(options):
    model = Model(size=2000, ratio=0.3)
    heard, signals, _, _ = stream_of(model, seed=5, rounds=20)
    double = run(model.known(**options), heard, signals)
    single = run(model.known(precision="float32", **options), heard, signals)
    assert np.abs(single.nmse_db[5:] - double.nmse_db[5:]).mean() < 0.05


@pytest.mark.parametrize(
    "options", [{"fast": True}, {"signs": True}, {"block": 2000}, {"block": 1400, "signs": True}]
)
def test_operator_options_recover_as_well(options):
    model = Model(size=3970, ratio=0.2)
    heard, signals, _, _ = stream_of(model, seed=7, rounds=25)
    plain = run(model.known(), heard, signals).nmse_db[15:].mean()
    heard, _, _, _ = stream_of(model, seed=7, rounds=25, **options)
    assert run(model.known(), heard, signals).nmse_db[15:].mean() < plain + 0.5


def test_turbo_cs_believes_its_prior():
    """A prior far too narrow for the reception is kept: without memory there is nothing to doubt."""
    heard, _, _, _ = stream_of(SMALL, seed=0, rounds=1)
    narrow = af.TurboCS(SMALL.activity, variance=1e-4 * SMALL.variance, max_iterations=1)
    estimate, _ = narrow.receive(narrow.init(SMALL.size), heard[0])
    gain = SMALL.size / SMALL.rows
    expected = (gain - 1) * SMALL.activity * 1e-4 * SMALL.variance + gain * SMALL.noise_var
    assert estimate.info.tau == pytest.approx(expected) and not estimate.info.surprised
    doubting = af.TSAGA(SMALL.activity, variance=1e-4 * SMALL.variance, max_iterations=1)
    again, _ = doubting.receive(doubting.init(SMALL.size), heard[0])
    assert again.info.surprised and again.info.tau > 10 * expected


@pytest.mark.parametrize("message", get_args(AmplitudeMessage))
def test_large_problems_are_worked_on_in_tiles(monkeypatch, message):
    """Neither the tiles of the denoiser nor the padding of a block may show in the result."""
    model = Model(size=1500, ratio=0.4)
    heard, _, _, _ = stream_of(model, seed=3, rounds=12, block=400)
    receiver = af.TSAGA(activity=0.05, amplitude_message=message, learn_from=3)
    found = []
    for tile in (1 << 14, 100):
        monkeypatch.setattr(spike_slab, "TILE", tile)
        found.append(estimates(receiver, heard)[-1].mean)
    assert np.allclose(found[0], found[1], rtol=1e-6, atol=1e-9)
