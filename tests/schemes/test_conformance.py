"""What every registered scheme must hold, whoever wrote it."""

import dataclasses
import pickle

import numpy as np
import pytest

from airfeel.radio.gaussian import GaussianMAC
from airfeel.radio.power import EqualPower
from airfeel.registry import SCHEMES
from airfeel.schemes.a_dsgd import ADsgd
from airfeel.uplink.arrive import Air
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Heard, Setting, size_of

SHAPES = {"weights": (12, 20), "bias": (20,), "kernel": (4, 2, 3, 3)}
SIZE = size_of(SHAPES)
DEVICES, SYMBOLS, ROUNDS = 5, 83, 6
SETTING = Setting(DEVICES, SYMBOLS, power=500.0, noise_var=0.0, rounds=ROUNDS)
WEIGHTS = np.array([4.0, 1.0, 2.0, 2.0, 1.0]) / 10
QUIET, NOISY = (Air(GaussianMAC(v), EqualPower(500.0)) for v in (0.0, 1.0))
NAMES = SCHEMES.names()


def build(name):
    return SCHEMES.get(name).build({})


def updates(rounds=ROUNDS, seed=1):
    """Updates that drift: what is large stays large for a while."""
    rng = np.random.default_rng(seed)
    common, drawn = rng.standard_normal(SIZE) ** 3, []
    for _ in range(rounds):
        common = 0.9 * common + 0.3 * rng.standard_normal(SIZE) ** 3
        drawn.append(common + 0.3 * rng.standard_normal((DEVICES, SIZE)))
    return np.array(drawn, dtype=np.float32)


def course(scheme, air=NOISY, state=None, first=1, last=ROUNDS, sending=None):
    """Return the results of some rounds and the state after them."""
    state, results = begin(scheme, SHAPES, SETTING) if state is None else state, []
    for t in range(first, last + 1):
        mask = None if sending is None else sending[t - 1]
        result, state = carry(scheme, air, state, updates()[t - 1], WEIGHTS, seed=7, round=t, sending=mask)
        results.append(result)
    return results, state


def arrays(value):
    """Return every array in a state."""
    if isinstance(value, np.ndarray):
        return [value]
    if dataclasses.is_dataclass(value):
        return [a for f in dataclasses.fields(value) for a in arrays(getattr(value, f.name))]
    return [a for item in value for a in arrays(item)] if isinstance(value, tuple) else []


@pytest.mark.parametrize("name", NAMES)
def test_rows_one_by_one_equal_all_rows_at_once(name):
    scheme = build(name)
    state = scheme.init(SHAPES, SETTING)
    rows = updates()[0]
    plan = scheme.plan(state, seed=7, round=1)
    together = scheme.compress(plan, rows)
    # BLAS adds up a product with one vector in another order than one with several: a few units of rounding.
    rounding = 1e-6 * np.abs(together.signal).max() if isinstance(scheme, ADsgd) else 0.0
    for m in range(DEVICES):
        alone = scheme.compress(plan, rows[m : m + 1])
        np.testing.assert_allclose(alone.signal[0], together.signal[m], rtol=0, atol=rounding)
        np.testing.assert_array_equal(alone.remainder[0], together.remainder[m])


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_is_small_plain_and_all_that_a_device_needs(name):
    """A device half sees neither the state nor the other rows: a fresh object with the plan does the same."""
    scheme, stranger = build(name), build(name)
    plan = scheme.plan(scheme.init(SHAPES, SETTING), seed=7, round=1)
    for key, value in plan.items():
        assert isinstance(key, str)
        assert isinstance(value, int | float | str | np.ndarray | np.generic)
        assert not isinstance(value, np.ndarray) or value.dtype.kind in "fiu"
    rows = updates()[0]
    travelled = pickle.loads(pickle.dumps(dict(plan)))  # our own bytes: as if it had gone through a message
    np.testing.assert_array_equal(
        stranger.compress(travelled, rows).signal, scheme.compress(plan, rows).signal
    )


@pytest.mark.parametrize("name", NAMES)
def test_arguments_stay_as_they_are_and_repetition_gives_the_same_bytes(name):
    scheme = build(name)
    _, state = course(scheme, last=3)
    before = [array.copy() for array in arrays(state)]
    (first,), after = course(scheme, state=state, first=4, last=4)
    (again,), later = course(scheme, state=state, first=4, last=4)
    for array, kept in zip(arrays(state), before, strict=True):
        np.testing.assert_array_equal(array, kept)
    assert first.mean.tobytes() == again.mean.tobytes()
    assert [a.tobytes() for a in arrays(after)] == [a.tobytes() for a in arrays(later)]


@pytest.mark.parametrize("name", [n for n in NAMES if SCHEMES.get(n).target.exact])
def test_what_was_accumulated_is_estimated_or_remembered(name):
    """Without noise: weighted mean of updates + memory = estimate + weighted mean of the next memories."""
    sending = np.random.default_rng(3).random((ROUNDS, DEVICES)) < 0.7
    scheme = build(name)
    state = begin(scheme, SHAPES, SETTING)
    for t in range(1, ROUNDS + 1):
        g = updates()[t - 1].astype(np.float64)
        result, after = carry(scheme, QUIET, state, g, WEIGHTS, seed=7, round=t, sending=sending[t - 1])
        accumulated = WEIGHTS @ (g + state.memory["error"])
        np.testing.assert_allclose(result.mean + WEIGHTS @ after.memory["error"], accumulated, atol=1e-9)
        state = after


@pytest.mark.parametrize("name", NAMES)
def test_a_silent_device_keeps_everything(name):
    sending = np.ones((2, DEVICES), bool)
    sending[:, 2] = False
    _, state = course(build(name), last=2, sending=sending)
    np.testing.assert_array_equal(state.memory["error"][2], updates()[0, 2] + updates()[1, 2])


@pytest.mark.parametrize("name", NAMES)
def test_a_state_survives_the_file_in_mid_run(name, tmp_path):
    from airfeel.experiments.runs import checkpoint

    scheme = build(name)
    _, state = course(scheme, last=3)
    checkpoint.save(tmp_path / "state.npz", state, {})
    restored, _ = checkpoint.load(tmp_path / "state.npz")
    (one, *_), end = course(scheme, state=state, first=4)
    (two, *_), again = course(scheme, state=restored, first=4)
    assert one.mean.tobytes() == two.mean.tobytes()
    assert [a.tobytes() for a in arrays(end)] == [a.tobytes() for a in arrays(again)]


@pytest.mark.parametrize("name", NAMES)
def test_estimates_have_the_right_length_and_are_finite_whatever_is_heard(name):
    scheme = build(name)
    state = scheme.init(SHAPES, SETTING)
    rng = np.random.default_rng(2)
    for t in range(1, 4):
        plan = scheme.plan(state, seed=7, round=t)
        width = scheme.compress(plan, updates()[0, :1]).signal.shape[1]
        observation = rng.standard_normal(width) * 10.0 ** rng.integers(-6, 6)
        estimate, state = scheme.decode(state, plan, Heard(observation, 0.1))
        assert estimate.mean.shape == (SIZE,)
        assert np.isfinite(estimate.mean).all()


@pytest.mark.parametrize("name", NAMES)
def test_options_have_help_and_the_name_a_summary(name):
    part = SCHEMES.get(name)
    assert part.summary and part.revision >= 1
    assert all(option.help for option in part.options)
    assert isinstance(part.target.exact, bool) and isinstance(part.target.uses_radio, bool)
