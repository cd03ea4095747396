"""The yardsticks against dense algebra, and the receiver between them."""

import numpy as np
import pytest

import airfeel as af
from airfeel.bounds import genie_least_squares, lmmse
from airfeel.streams import stream
from modeldata import Model, run, stream_of
from oracles import dense
from oracles import lmmse as dense_lmmse


def test_genie_is_dense_least_squares():
    rng = stream(0, "genie")
    for operator in (af.PartialDCT(60, 30, seed=1, signs=True), af.GaussianMatrix(60, 30, seed=1)):
        support = rng.random(60) < 0.3
        y = rng.standard_normal(30)
        expected = np.zeros(60)
        expected[support] = np.linalg.lstsq(dense(operator)[:, support].astype(float), y, rcond=None)[0]
        assert np.allclose(genie_least_squares(y, operator, support), expected, atol=1e-5)


def test_genie_without_support_and_bad_input():
    operator = af.PartialDCT(10, 4, seed=0)
    assert (genie_least_squares(np.ones(4), operator, np.zeros(10, bool)) == 0).all()
    for rows, support, rule in (
        (4, np.arange(10) < 5, "support = 5: must hold at most rows = 4"),
        (4, np.arange(10), "must be a boolean mask of length 10"),
        (5, np.zeros(10, bool), "observation has shape"),
    ):
        with pytest.raises(ValueError, match=rule):
            genie_least_squares(np.ones(rows), operator, support)


def test_lmmse_is_dense():
    operator = af.PartialDCT(40, 15, seed=2, signs=True)
    y = stream(2, "lmmse").standard_normal(15)
    mean, error = lmmse(y, operator, 0.3, 1.7)
    expected, covariance = dense_lmmse(dense(operator), y, 0.3, np.zeros(40), 1.7)
    assert np.allclose(mean, expected)
    assert error == pytest.approx(np.trace(covariance) / 40)
    with pytest.raises(ValueError, match="rows must be orthonormal"):
        lmmse(y, af.GaussianMatrix(40, 15, seed=0), 0.3, 1.7)
    with pytest.raises(ValueError, match="signal_var = 0"):
        lmmse(y, operator, 0.3, 0.0)
    with pytest.raises(ValueError, match="noise_var = -1"):
        lmmse(y, operator, -1.0, 1.0)


def test_the_receiver_lies_between_the_yardsticks():
    model = Model(size=4000, ratio=0.4, activity=0.05, snr_db=25)
    heard, signals, support, _ = stream_of(model, seed=1, rounds=3)
    memoryless = run(af.TurboCS(model.activity, variance=1.0), heard, signals)
    for t, reception in enumerate(heard):
        power = model.activity * model.variance
        linear, _ = lmmse(reception.observation, reception.operator, model.noise_var, power)
        genie = genie_least_squares(reception.observation, reception.operator, support[t])
        level = [np.sum((estimate - signals[t]) ** 2) for estimate in (genie, linear)]
        assert level[0] < memoryless.error[t] < 0.1 * level[1]
