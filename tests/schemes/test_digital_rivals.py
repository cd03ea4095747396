"""Rivals whose signals are messages: what is read of them, how far it errs, what stays, what is refused."""

import numpy as np
import pytest

from airfeel.schemes.eden import Eden
from airfeel.schemes.eight_bit import BLOCK, LEVELS, EightBit
from airfeel.schemes.sign_memory import SignMemory
from airfeel.schemes.stc import Stc
from airfeel.schemes.top_k_coded import TopKCoded
from airfeel.uplink.packing import pack_sparse, unpack_sparse
from airfeel.uplink.scheme import Heard, Setting, placed
from rounds import spiky

SHAPES = {"weights": (30, 20), "bias": (20,)}
SIZE = 620
WHOLE = [EightBit(), SignMemory()]
SPARSE = [Stc(0.1), TopKCoded(0.1), Stc(1.0), TopKCoded(1.0), Stc(0.001)]
ALL = [*WHOLE, Eden(), Eden(bits=2), Eden(bits=4), *SPARSE]
NAMES = [f"{type(scheme).__name__}-{next(iter(vars(scheme).values()), '')}" for scheme in ALL]
every_scheme = pytest.mark.parametrize("scheme", ALL, ids=NAMES)


def updates(rows=4, dtype=np.float32):
    return spiky(rows, SIZE, dtype=dtype)


def plan(scheme, rows=4):
    return placed(scheme, scheme.plan(scheme.init(SHAPES, Setting(rows, 5)), 3, 1), range(rows), rows)


def one(scheme, given=None):
    """Return the plan and the message of the first client, and the signal it stands for."""
    told = placed(scheme, plan(scheme), [0], 4)
    row = updates(1) if given is None else given
    sent = scheme.encode(told, {"error": np.zeros((1, SIZE), np.float32)}, row)
    return told, scheme.pack(sent), sent.signal[0]


@pytest.mark.parametrize("scheme", ALL[2:], ids=NAMES[2:])
@pytest.mark.parametrize("size", [1.0, 0.0, 1e-38, 1e30])
def test_a_message_is_the_signal(scheme, size):
    told, message, signal = one(scheme, updates(1) * np.float32(size))
    np.testing.assert_array_equal(scheme.unpack(told, message, SIZE), signal)
    assert np.isfinite(signal).all()


@pytest.mark.parametrize(
    ("scheme", "least", "most"),
    [
        (EightBit(), 620 + 2 * 3, 620 + 2 * 3),
        (SignMemory(), 78 + 4 * 2, 78 + 4 * 2),
        (Eden(), 0, 4 + 128),
        (Eden(bits=2), 0, 4 + 256),
        (Eden(bits=4), 0, 4 + 512),
        (Stc(0.1), 0, 4 + 62 * 6.0 / 8),
        (TopKCoded(0.1), 0, 4 + 62 * 13.0 / 8),
        (Stc(1.0), 0, 4 + 2 * 620 / 8),
    ],
)
def test_a_message_is_the_signal_in_so_many_bytes(scheme, least, most):
    """Places at one in ten take 4.7 bits by entropy, and less than 5 here."""
    told, message, signal = one(scheme)
    size = sum(array.nbytes for array in message.values())
    assert (least or 0.8 * most) <= size <= (least or most + 1)
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


def test_signs_have_the_mean_size_of_their_tensor():
    scheme, rows = SignMemory(), updates(dtype=np.float64)
    memory = {"error": updates(dtype=np.float64)[::-1]}
    sent = scheme.encode(plan(scheme), memory, rows)
    there = rows + memory["error"]
    for part in (slice(0, 600), slice(600, SIZE)):
        scale = np.abs(there[:, part]).mean(axis=1, keepdims=True)
        np.testing.assert_allclose(sent.signal[:, part], scale * np.sign(there[:, part]), rtol=1e-6)


@pytest.mark.parametrize(("bits", "error"), [(1, np.pi / 2 - 1), (2, 0.1175 / 0.8825), (4, 0.0095 / 0.9905)])
def test_eden_errs_as_its_paper_says_and_is_right_in_the_mean(bits, error):
    """Of a block of 1024, with the error D / (1 - D), 620 are there: their share."""
    error *= SIZE / 1024
    scheme, rows = Eden(bits=bits), np.tile(updates(1), (400, 1))
    signal = scheme.encode(plan(scheme, 400), {}, rows).signal
    energy = np.sum(rows[0] ** 2)
    assert 0.93 < np.mean(np.sum((signal - rows) ** 2, axis=1)) / energy / error < 1.03
    assert np.sum((signal.mean(axis=0) - rows[0]) ** 2) / energy < error / 40
    estimate, _ = scheme.decode(SIZE, {}, Heard(0.25 * signal[0], 0.0, share=0.25))
    np.testing.assert_allclose(estimate.mean, signal[0], rtol=1e-6)


def test_signs_of_the_largest_have_their_mean_size():
    scheme, rows = Stc(0.1), updates(dtype=np.float64)
    memory = {"error": updates(dtype=np.float64)[::-1]}
    sent, there = scheme.encode(plan(scheme), memory, rows), rows + memory["error"]
    for signal, row in zip(sent.signal, there, strict=True):
        kept = np.argsort(-np.abs(row))[:62]
        assert set(np.flatnonzero(signal)) == set(kept)
        np.testing.assert_allclose(signal[kept], np.abs(row[kept]).mean() * np.sign(row[kept]), rtol=1e-6)


def test_the_largest_err_by_half_a_step():
    scheme, rows = TopKCoded(0.1), updates(dtype=np.float64)
    memory = {"error": np.zeros_like(rows)}
    sent = scheme.encode(plan(scheme), memory, rows)
    for signal, row in zip(sent.signal, rows, strict=True):
        kept = np.argsort(-np.abs(row))[:62]
        assert set(np.flatnonzero(signal)) <= set(kept)
        assert np.abs(signal[kept] - row[kept]).max() <= 0.501 * np.abs(row).max() / 127


@pytest.mark.parametrize("count", [1, 2, 7, 100, 619, 620])
def test_places_are_what_they_were(count):
    draw = np.random.default_rng(count)
    for chosen in (draw.permutation(SIZE)[:count], np.arange(count), SIZE - 1 - np.arange(count)):
        places, values = np.sort(chosen), draw.integers(2, size=(count, 3))
        scale, found, where = unpack_sparse(pack_sparse(2.5, values, places, SIZE), 3, count, SIZE)
        assert scale == 2.5 and np.array_equal(found, values) and np.array_equal(where, places)


@every_scheme
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[:-1],
        lambda a: a[:3],
        lambda a: np.append(a, a),
        lambda a: a.astype(np.float64),
        lambda a: a[None],
    ],
)
def test_arrays_of_another_form_are_refused(scheme, change):
    told, message, _ = one(scheme)
    for name, array in message.items():
        if np.shape(change(array)) == array.shape and change(array).dtype == array.dtype:
            continue  # of three scales, the first three
        with pytest.raises(
            ValueError, match="its signal is .*: must be .* of |its signal has .* places: must"
        ):
            scheme.unpack(told, {**message, name: change(array)}, SIZE)
        with pytest.raises(ValueError, match=r"its signal has the arrays \['other'\]: must be"):
            scheme.unpack(told, {"other": array}, SIZE)


@every_scheme
@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0, 1e38])
def test_scales_that_are_none_are_refused(scheme, scale):
    told, message, _ = one(scheme)
    name = "scales" if "scales" in message else "message"
    spoiled, wrong = message[name].copy(), np.array([scale], "<f4")
    if name == "message":
        spoiled[:4] = wrong.view(np.uint8)
    else:  # a number in single precision, or the 16 bits that it begins with
        spoiled[1] = wrong[0] if spoiled.dtype == np.float32 else wrong.view("<u2")[1]
    if scheme == WHOLE[1] and scale == 1e38:
        return  # which a mean of sizes can be
    with pytest.raises(ValueError, match="its signal has a scale that is not"):
        scheme.unpack(told, {**message, name: spoiled}, SIZE)


@pytest.mark.parametrize("scheme", SPARSE, ids=NAMES[5:])
def test_bytes_drawn_by_chance_are_read_or_refused_in_a_sentence(scheme):
    told, message, _ = one(scheme)
    draw = np.random.default_rng(2)
    said = []
    for _ in range(200):
        spoiled = draw.integers(256, size=message["message"].size, dtype=np.uint8)
        spoiled[:4] = 0
        try:
            assert scheme.unpack(told, {"message": spoiled}, SIZE).shape == (SIZE,)
        except ValueError as error:
            said.append(str(error))
    assert all("its signal has" in sentence for sentence in said)


@pytest.mark.parametrize("ends", [[], [SIZE + 1], [700, SIZE], [0, SIZE], [600, 10**15]])
def test_tensors_that_are_not_those_of_the_model_are_refused(ends):
    with pytest.raises(ValueError, match="ends = .*: must rise to 620, the number of parameters"):
        SignMemory().compress({"ends": np.array(ends)}, updates())
