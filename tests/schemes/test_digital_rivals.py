"""Eight bits without a memory, and signs with one: what is read, what stays, and what is refused."""

import numpy as np
import pytest

from airfeel.schemes.eight_bit import BLOCK, LEVELS, EightBit
from airfeel.schemes.sign_memory import SignMemory
from airfeel.uplink.scheme import Heard, Setting, placed

SHAPES = {"weights": (30, 20), "bias": (20,)}
SIZE = 620
BOTH = [EightBit(), SignMemory()]
BYTES = [620 + 2 * 3, 78 + 4 * 2]


def updates(rows=4, dtype=np.float32):
    return (np.random.default_rng(1).standard_normal((rows, SIZE)) ** 3).astype(dtype)


def plan(scheme, rows=4):
    return placed(scheme, scheme.plan(scheme.init(SHAPES, Setting(rows, 5)), 3, 1), range(rows), rows)


def one(scheme):
    """Return the plan and the message of the first client, and the signal it stands for."""
    told = placed(scheme, plan(scheme), [0], 4)
    sent = scheme.encode(told, {"error": np.zeros((1, SIZE), np.float32)}, updates(1))
    return told, scheme.pack(sent), sent.signal[0]


@pytest.mark.parametrize(
    ("scheme", "size"), list(zip(BOTH, BYTES, strict=True)), ids=["eight_bit", "sign_memory"]
)
def test_a_message_is_the_signal_in_so_many_bytes(scheme, size):
    told, message, signal = one(scheme)
    assert sum(array.nbytes for array in message.values()) == size
    np.testing.assert_array_equal(scheme.unpack(told, message, SIZE), signal)


def test_eight_bits_err_by_less_than_a_step_and_are_right_in_the_mean():
    scheme, rows = EightBit(), np.tile(updates(1), (400, 1))
    signal = scheme.encode(plan(scheme, 400), {}, rows).signal
    blocks = np.split(np.abs(rows[0]), range(BLOCK, SIZE, BLOCK))
    steps = np.concatenate([np.full(len(block), block.max() / LEVELS) for block in blocks])
    assert (np.abs(signal - rows) <= 1.01 * steps).all()
    assert (np.abs(signal.mean(axis=0) - rows[0]) <= 5 * steps * 0.5 / np.sqrt(400)).all()
    estimate, _ = scheme.decode(SIZE, {}, Heard(0.25 * signal[0], 0.0, share=0.25))
    np.testing.assert_allclose(estimate.mean, signal[0], rtol=1e-6)


def test_signs_have_the_mean_size_of_their_tensor_and_the_rest_stays():
    scheme, rows = SignMemory(), updates(dtype=np.float64)
    memory = {"error": updates(dtype=np.float64)[::-1]}
    sent = scheme.encode(plan(scheme), memory, rows)
    there = rows + memory["error"]
    for part in (slice(0, 600), slice(600, SIZE)):
        scale = np.abs(there[:, part]).mean(axis=1, keepdims=True)
        np.testing.assert_allclose(sent.signal[:, part], scale * np.sign(there[:, part]), rtol=1e-6)
    left = scheme.settle(plan(scheme), memory, rows, sent, np.ones(4))["error"]
    np.testing.assert_allclose(left + sent.signal, there, atol=1e-12)


@pytest.mark.parametrize("scheme", BOTH, ids=["eight_bit", "sign_memory"])
@pytest.mark.parametrize("name", ["counts", "signs", "scales"])
@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a.astype(np.float64), lambda a: a[None]])
def test_arrays_of_another_form_are_refused(scheme, name, change):
    told, message, _ = one(scheme)
    name = name if name in message else next(iter(message))
    with pytest.raises(ValueError, match=r"its signal is .*: must be .* of shape"):
        scheme.unpack(told, {**message, name: change(message[name])}, SIZE)
    with pytest.raises(ValueError, match=r"its signal has the arrays \['other'\]: must be"):
        scheme.unpack(told, {"other": message[name]}, SIZE)


@pytest.mark.parametrize(
    ("scheme", "scale"),
    [(BOTH[0], np.uint16(0x7F80)), (BOTH[0], np.uint16(0x7FC0)), (BOTH[0], np.uint16(0xBF80))]
    + [(BOTH[1], np.float32(value)) for value in (np.nan, np.inf, -1.0)],
)
def test_scales_that_are_none_are_refused(scheme, scale):
    told, message, _ = one(scheme)
    scales = message["scales"].copy()
    scales[1] = scale
    with pytest.raises(ValueError, match="its signal has a scale that is not"):
        scheme.unpack(told, {**message, "scales": scales}, SIZE)


@pytest.mark.parametrize("ends", [[], [SIZE + 1], [700, SIZE], [0, SIZE], [600, 10**15]])
def test_tensors_that_are_not_those_of_the_model_are_refused(ends):
    with pytest.raises(ValueError, match="ends = .*: must rise to 620, the number of parameters"):
        SignMemory().compress({"ends": np.array(ends)}, updates())
