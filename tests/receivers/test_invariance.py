"""What must not matter: units, the order of coefficients, repetition; and what must not be touched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

import airfeel as af
from airfeel.storage import pack as pack_state
from airfeel.streams import stream
from modeldata import Model, estimates, stream_of

MODEL = Model(size=240, ratio=0.5, activity=0.15, p01=0.05, beta=0.05, snr_db=15.0)
HEARD = stream_of(MODEL, seed=0, rounds=8)[0]
RECEIVERS = {
    "tsaga": af.TSAGA(activity=0.1, learn_from=3),
    "expansion": af.TSAGA(activity=0.1, learn_from=3, amplitude_message="expansion"),
    "moments": af.TSAGA(activity=0.1, learn_from=3, amplitude_message="moments"),
    "turbo_cs": af.TurboCS(0.15),
    "amp": af.AMP(activity=0.15),
    "amp mmse": af.AMP(activity=0.15, denoiser="mmse"),
}


def gaussian_heard():
    """The same signals through a Gaussian matrix, which AMP wants."""
    operator = af.GaussianMatrix(MODEL.size, MODEL.rows, seed=0)
    rng = stream(1, "gaussian")
    signals = stream_of(MODEL, seed=0, rounds=8)[1]
    noise = (0.05 * rng.standard_normal(MODEL.rows) for _ in signals)
    return [af.Reception(operator @ x + n, operator, 0.0025) for x, n in zip(signals, noise, strict=True)]


GAUSSIAN_HEARD = gaussian_heard()


def heard_by(name):
    return GAUSSIAN_HEARD if name.startswith("amp") else HEARD


def means(receiver, heard):
    return np.array([estimate.mean for estimate in estimates(receiver, heard)])


def scaled(reception, c):
    return af.Reception(c * reception.observation, reception.operator, c * c * reception.noise_var)


@pytest.mark.parametrize("name", RECEIVERS)
@settings(max_examples=12, deadline=None)
@given(exponent=st.floats(-12, 12))
def test_units_do_not_matter(name, exponent):
    c = 10.0**exponent
    plain = means(RECEIVERS[name], heard_by(name))
    found = means(RECEIVERS[name], [scaled(r, c) for r in heard_by(name)])
    assert np.abs(found / c - plain).max() <= 1e-6 * np.abs(plain).max()


def test_a_given_variance_is_in_the_users_units():
    for c in (1e-9, 1.0, 3e7):
        receiver = af.TSAGA(activity=0.15, variance=2.0 * c * c)
        found = means(receiver, [scaled(r, c) for r in HEARD[:3]])
        if c == 1e-9:
            reference = found / c
        assert np.abs(found / c - reference).max() <= 1e-6 * np.abs(reference).max()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("name", ["tsaga", "turbo_cs"])
def test_the_order_of_coefficients_does_not_matter(name, seed):
    rng = stream(seed, "order")
    order = rng.permutation(60)
    plain, permuted = [], []
    for _ in range(5):
        basis, _ = np.linalg.qr(rng.standard_normal((60, 60)))
        matrix = basis[:, :30].T
        x = np.where(np.arange(60) < 8, 1.0 + rng.random(60), 0.0)
        y = matrix @ x + 0.01 * rng.standard_normal(30)
        plain.append(af.Reception(y, aslinearoperator(matrix.copy()), 1e-4))
        permuted.append(af.Reception(y, aslinearoperator(matrix[:, order].copy()), 1e-4))
    expected = means(RECEIVERS[name], plain)[:, order]
    # Sums run in another order: rounding differs, and a loop stopped by a tolerance could differ by a step.
    assert np.allclose(means(RECEIVERS[name], permuted), expected, atol=1e-7)


def raw_bytes(estimate, state):
    arrays = pack_state(state)
    named = [(key, arrays[key].tobytes()) for key in sorted(arrays)]
    return estimate.mean.tobytes(), estimate.variance.tobytes(), estimate.info, named


@pytest.mark.parametrize("name", RECEIVERS)
def test_same_state_and_reception_give_the_same_bytes(name):
    receiver, heard = RECEIVERS[name], heard_by(name)
    state = receiver.init(MODEL.size)
    for reception in heard:
        first = receiver.receive(state, reception)
        receiver.receive(receiver.init(MODEL.size), heard[3])  # something else in between
        second = receiver.receive(state, reception)
        assert raw_bytes(*first) == raw_bytes(*second)
        state = first[1]


@pytest.mark.parametrize("name", RECEIVERS)
def test_inputs_are_never_changed(name):
    receiver, heard = RECEIVERS[name], heard_by(name)
    state = receiver.init(MODEL.size)
    for reception in heard:
        before = raw_bytes(af.Estimate(reception.observation, reception.observation, None), state)
        reception.observation.flags.writeable = False
        for array in pack_state(state).values():
            array.flags.writeable = False
        _, after = receiver.receive(state, reception)
        reception.observation.flags.writeable = True
        assert raw_bytes(af.Estimate(reception.observation, reception.observation, None), state) == before
        state = after


def test_estimates_do_not_share_memory_with_the_state():
    receiver = RECEIVERS["tsaga"]
    state = receiver.init(MODEL.size)
    for reception in HEARD[:4]:
        estimate, state = receiver.receive(state, reception)
        kept = {key: array.copy() for key, array in pack_state(state).items()}
        estimate.mean[:] = np.nan
        estimate.variance[:] = np.nan
        assert all(np.array_equal(kept[key], array) for key, array in pack_state(state).items())
