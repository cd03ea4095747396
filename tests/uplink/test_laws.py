"""What every scheme must hold on every channel, whoever wrote it: one list of schemes, one of channels.

Beside the registered schemes there are two that have no error memory: one carries a mean and a counter of
different widths and types, the other nothing at all.
"""

import dataclasses
import pickle

import numpy as np
import pytest

from airfeel.lab import rundir
from airfeel.radio.power import EqualPower, LeastError, Ledger
from airfeel.registry import CHANNELS, SCHEMES
from airfeel.schemes.a_dsgd import ADsgd
from airfeel.uplink.arrive import Radio, Senders, transmission
from airfeel.uplink.round import Uplink, begin, carry
from airfeel.uplink.scheme import ErrorFeedback, Heard, Setting, placed
from rounds import NOISY, SHAPES, SIZE, WEIGHTS, FirstOnes, Tracking, drifting

DEVICES, SYMBOLS, ROUNDS = 5, 83, 6
SETTING = Setting(DEVICES, SYMBOLS, power=500.0, noise_var=0.0, rounds=ROUNDS)
LIST = {**{name: SCHEMES.get(name).build({}) for name in SCHEMES.names()}}
LIST |= {"tracking": Tracking(), "first_ones": FirstOnes()}
FEEDBACK = [name for name, scheme in LIST.items() if isinstance(scheme, ErrorFeedback)]
FADING = np.random.default_rng(0).standard_normal((2, 3, DEVICES, 30))
FADING[..., ::7] = 1e-9  # nobody sends these
QUIET = {
    "gaussian": {},
    "fading": {"threshold": 0.7},
    "cell": {"reference_db": 90.0},
    "antennas": {"threshold": 0.4},
    "response": {"source": FADING[0] + 1j * FADING[1], "threshold": 0.7},
}
AIRS = {
    name: Radio(CHANNELS.get(name).build({**options, "noise_var": 0.0}), EqualPower(500.0))
    for name, options in QUIET.items()
}
AIRS["chosen"] = Radio(CHANNELS.get("cell").build({"reference_db": 90.0}), LeastError(500.0))

every_scheme = pytest.mark.parametrize("name", LIST)
every_channel = pytest.mark.parametrize("channel", AIRS)


def pairs(names):
    """Return schemes with channels; AMP takes no noise that differs from symbol to symbol."""
    found = [(name, channel) for name in names for channel in AIRS]
    return [pair for pair in found if not (isinstance(LIST[pair[0]], ADsgd) and pair[1] == "response")]


def updates(dtype=np.float32):
    return drifting(ROUNDS, dtype=dtype)


def course(scheme, air=NOISY, state=None, first=1, last=ROUNDS, dtype=np.float32, **masks):
    """Return the results of some rounds and the state after them."""
    state, results = begin(scheme, SHAPES, SETTING) if state is None else state, []
    for t in range(first, last + 1):
        own = {key: mask[t - 1] for key, mask in masks.items()}
        given = updates(dtype=dtype)[t - 1], WEIGHTS
        result, state = carry(scheme, air, state, *given, seed=7, round=t, **own)
        results.append(result)
    return results, state


def half_way(scheme, dtype=np.float32):
    """Return plan, memories and updates of a round in the middle of a training."""
    _, state = course(scheme, last=2, dtype=dtype)
    plan = placed(scheme, scheme.plan(state.scheme, seed=7, round=3), range(DEVICES), DEVICES)
    return plan, state.memory, updates(dtype=dtype)[2], state


def arrays(value):
    """Return every array in a state."""
    if isinstance(value, np.ndarray):
        return [value]
    if dataclasses.is_dataclass(value):
        return [a for f in dataclasses.fields(value) for a in arrays(getattr(value, f.name))]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return [a for item in items for a in arrays(item)]


def sometimes(share=0.7):
    return np.random.default_rng(3).random((ROUNDS, DEVICES)) < share


@every_scheme
def test_rows_one_by_one_equal_all_rows_at_once(name):
    scheme = LIST[name]
    plan, memory, rows, _ = half_way(scheme)
    delivered = np.array([1.0, 0.0, 1.0, 0.25, 1.0])
    together = scheme.encode(plan, memory, rows)
    after = scheme.settle(plan, memory, rows, together, delivered)
    # BLAS adds up a product with one vector in another order than one with several: a few units of rounding.
    rounding = 1e-6 * np.abs(together.signal).max() if isinstance(scheme, ADsgd) else 0.0
    for m in range(DEVICES):
        one, own = slice(m, m + 1), {key: part[m : m + 1] for key, part in memory.items()}
        plan = placed(scheme, plan, [m], DEVICES)
        alone = scheme.encode(plan, own, rows[one])
        np.testing.assert_allclose(alone.signal[0], together.signal[m], rtol=0, atol=rounding)
        settled = scheme.settle(plan, own, rows[one], alone, delivered[one])
        assert settled.keys() == after.keys() == memory.keys()
        for key, part in settled.items():
            np.testing.assert_array_equal(part[0], after[key][m])


@every_scheme
def test_the_plan_is_small_plain_and_all_that_a_device_needs(name):
    """A device half sees neither the state nor the other rows: a fresh object with the plan does the same."""
    scheme, stranger = LIST[name], dataclasses.replace(LIST[name])
    plan, memory, rows, _ = half_way(scheme)
    for key, value in plan.items():
        assert isinstance(key, str)
        assert isinstance(value, int | float | str | np.ndarray | np.generic)
        assert not isinstance(value, np.ndarray) or value.dtype.kind in "fiu"
    travelled = pickle.loads(pickle.dumps(dict(plan)))  # our own bytes: as if it had gone through a message
    one, two = stranger.encode(travelled, memory, rows), scheme.encode(plan, memory, rows)
    np.testing.assert_array_equal(one.signal, two.signal)


@every_scheme
def test_arguments_stay_as_they_are_and_repetition_gives_the_same_bytes(name):
    scheme = LIST[name]
    _, state = course(scheme, last=3)
    before = [array.copy() for array in arrays(state)]
    (first,), after = course(scheme, state=state, first=4, last=4)
    (again,), later = course(scheme, state=state, first=4, last=4)
    for array, kept in zip(arrays(state), before, strict=True):
        np.testing.assert_array_equal(array, kept)
    assert first.mean.tobytes() == again.mean.tobytes()
    assert [a.tobytes() for a in arrays(after)] == [a.tobytes() for a in arrays(later)]


@pytest.mark.parametrize(("name", "channel"), pairs(LIST))
def test_a_state_survives_the_file_in_mid_run(name, channel, tmp_path):
    scheme, air, masks = LIST[name], AIRS[channel], {"computing": sometimes(0.8)}
    _, state = course(scheme, air, last=3, **masks)
    rundir.save_checkpoint(tmp_path / "state.npz", state, {})
    restored, _ = rundir.load_checkpoint(tmp_path / "state.npz", trusted=[__name__])
    (one, *_), end = course(scheme, air, state, first=4, **masks)
    (two, *_), again = course(scheme, air, restored, first=4, **masks)
    assert one.mean.tobytes() == two.mean.tobytes()
    assert [a.tobytes() for a in arrays(end)] == [a.tobytes() for a in arrays(again)]


@pytest.mark.parametrize("name", [name for name, scheme in LIST.items() if scheme.linear])
def test_a_linear_scheme_adds_up(name):
    """Signals of a sum are the sum of signals, so devices may be added in the air or under encryption."""
    scheme = LIST[name]
    plan, memory, rows, _ = half_way(scheme, np.float64)
    first, second = (scheme.encode(plan, _rows(memory, m), rows[m : m + 1]).signal for m in (0, 1))
    joint = {key: 3 * part[:1] - 2 * part[1:2] for key, part in memory.items()}
    both = scheme.encode(plan, joint, 3 * rows[:1] - 2 * rows[1:2]).signal
    np.testing.assert_allclose(both, 3 * first - 2 * second, atol=1e-9 * np.abs(both).max())


def _rows(memory, m):
    return {key: part[m : m + 1] for key, part in memory.items()}


@every_scheme
def test_common_support_says_that_all_devices_tell_the_same_numbers(name):
    """What the server can find lies in one space of s dimensions, whatever the devices have; or in many."""
    scheme = LIST[name]
    plan, _, _, state = half_way(scheme)
    rows = np.random.default_rng(2).standard_normal((SYMBOLS + 20, SIZE)).astype(np.float32)
    memory = {key: np.repeat(part[:1], len(rows), axis=0) for key, part in state.memory.items()}
    signals = scheme.encode(placed(scheme, plan, [0] * len(rows), DEVICES), memory, rows).signal
    signals = np.append(signals, np.zeros((1, signals.shape[1]), signals.dtype), axis=0)
    *found, known = (scheme.decode(state.scheme, plan, Heard(signal, 0.0))[0].mean for signal in signals)
    found = np.array(found) - known  # what the server adds of its own is the same whatever they tell
    dimensions = np.linalg.matrix_rank(found, tol=1e-5 * np.abs(found).max())
    width = signals.shape[1]
    assert dimensions <= width if scheme.common_support else width == SIZE or dimensions > width


@every_scheme
def test_a_stateless_scheme_carries_nothing_and_others_do(name):
    scheme = LIST[name]
    assert scheme.stateless == (not scheme.memory(SHAPES))
    _, state = course(scheme, last=2)
    assert {key: part.shape for key, part in state.memory.items()} == {
        key: (DEVICES, *row.shape) for key, row in scheme.memory(SHAPES).items()
    }


@pytest.mark.parametrize("channel", QUIET)
@pytest.mark.parametrize("name", [n for n, scheme in LIST.items() if scheme.uses_radio and scheme.superposes])
def test_air_without_noise_is_a_digital_mean_of_what_was_delivered(name, channel):
    scheme, sending = LIST[name], sometimes()[0]
    plan, memory, rows, state = half_way(scheme, np.float64)
    for t in (1, 2, 3):
        uplink = Uplink(scheme, AIRS[channel], state, WEIGHTS, seed=t, round=3, sending=sending)
        uplink.plan = plan
        for devices in uplink.blocks:
            uplink.encode(devices, rows[devices])
        assert uplink.arrive() == []
        arrival = uplink.arrival
        np.testing.assert_allclose(
            arrival.observation, arrival.clean, atol=1e-9 * np.abs(arrival.clean).max()
        )
        if arrival.delivered.ndim == 1:
            heard = Senders.of(WEIGHTS, None, arrival.delivered > 0)
            digital = transmission(scheme, None, plan, heard, Ledger.open(DEVICES), 7, 3)
            if channel != "response" or scheme.symbols_are_coordinates:
                digital.put(slice(0, DEVICES), scheme.encode(uplink.plan, memory, rows).signal)
                expected = digital.arrive()
                np.testing.assert_allclose(arrival.clean, expected.observation, atol=1e-9)
                assert np.all(arrival.share == expected.share)


@pytest.mark.parametrize(("name", "channel"), pairs(name for name in FEEDBACK if name != "sign_vote"))
def test_what_left_and_what_stays_is_what_was_there(name, channel):
    """With error feedback, over any air: weighted mean of update + memory = truth + that of the next ones."""
    scheme = LIST[name]
    state = begin(scheme, SHAPES, SETTING)
    for t in range(1, ROUNDS + 1):
        g = updates(dtype=np.float64)[t - 1]
        options = {"seed": 7, "round": t, "sending": sometimes()[t - 1]}
        result, after = carry(scheme, AIRS[channel], state, g, WEIGHTS, **options)
        there = WEIGHTS @ (g + state.memory["error"])
        np.testing.assert_allclose(result.truth + WEIGHTS @ after.memory["error"], there, atol=1e-9)
        if scheme.exact and channel != "chosen":  # and without noise it is found
            np.testing.assert_allclose(result.mean, result.truth, atol=1e-9)
        state = after


@pytest.mark.parametrize(("name", "channel"), pairs(FEEDBACK))
def test_with_error_feedback_a_silent_device_keeps_everything(name, channel):
    sending = np.ones((2, DEVICES), bool)
    sending[:, 2] = False
    _, state = course(LIST[name], AIRS[channel], last=2, sending=sending)
    np.testing.assert_array_equal(state.memory["error"][2], updates()[0, 2] + updates()[1, 2])


@every_channel
def test_a_mean_of_updates_is_the_mean_whoever_is_heard(channel):
    """The invariant of the scheme with two memories: a device carries the mean of its own updates."""
    computing = sometimes()
    _, state = course(Tracking(), AIRS[channel], computing=computing, dtype=np.float64)
    assert state.memory["rounds"].dtype == np.int64
    np.testing.assert_array_equal(state.memory["rounds"][:, 0], computing.sum(axis=0))
    for m in range(DEVICES):
        own = updates(dtype=np.float64)[computing[:, m], m]
        np.testing.assert_allclose(state.memory["mean"][m], own.mean(axis=0), atol=1e-9)


@every_scheme
def test_devices_that_do_not_compute_keep_their_rows(name):
    scheme, computing = LIST[name], sometimes(0.5)
    _, state = course(scheme, last=3, computing=computing)
    _, after = course(scheme, state=state, first=4, last=4, computing=computing)
    for key, part in state.memory.items():
        np.testing.assert_array_equal(after.memory[key][~computing[3]], part[~computing[3]])


@every_scheme
def test_a_round_in_which_nobody_is_heard_is_decoded_too(name):
    scheme = LIST[name]
    plan, memory, rows, state = half_way(scheme)
    width = scheme.encode(plan, memory, rows).signal.shape[1]
    estimate, after = scheme.decode(state.scheme, plan, Heard(np.zeros(width), np.inf, 0.0))
    assert estimate.mean.shape == (SIZE,) and not estimate.mean.any()
    assert type(after) is type(state.scheme)
    for nobody in ({"sending": np.zeros(DEVICES, bool)}, {"computing": np.zeros(DEVICES, bool)}):
        result, later = carry(scheme, NOISY, state, rows, WEIGHTS, seed=7, round=3, **nobody)
        assert result.alpha is None and result.nmse is None and not result.mean.any()
        assert [a.tobytes() for a in arrays(later.scheme)] == [a.tobytes() for a in arrays(after)]


@every_scheme
def test_estimates_have_the_right_length_and_are_finite_whatever_is_heard(name):
    scheme = LIST[name]
    state = scheme.init(SHAPES, SETTING)
    rng, memory = np.random.default_rng(2), begin(scheme, SHAPES, SETTING).memory
    for t in range(1, 4):
        plan = placed(scheme, scheme.plan(state, seed=7, round=t), range(DEVICES), DEVICES)
        width = scheme.encode(plan, memory, updates()[0]).signal.shape[1]
        observation = rng.standard_normal(width) * 10.0 ** rng.integers(-6, 6)
        estimate, state = scheme.decode(state, plan, Heard(observation, 0.1))
        assert estimate.mean.shape == (SIZE,)
        assert np.isfinite(estimate.mean).all()
