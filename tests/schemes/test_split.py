"""One bit for a coefficient, split among the clients: who sends what, what is read, and what it weighs."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from airfeel.schemes.split import BYTES, Split, coefficients, symbols_within
from airfeel.uplink.packing import BLOCK, lengthen, rotate, shorten
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Heard, Setting, placed
from rounds import NOISY

CLIENTS, SIZE = 7, 1500
SHAPES = {"theta": (SIZE,)}
WEIGHTS = np.array([4.0, 1.0, 2.0, 2.0, 1.0, 3.0, 2.0]) / 15


def plan(symbols, places=range(CLIENTS), asked=CLIENTS, round=1):
    scheme = Split()
    state = scheme.init(SHAPES, Setting(asked, symbols))
    return placed(scheme, scheme.plan(state, seed=3, round=round), places, asked)


def updates(seed=1, spread=3):
    return (np.random.default_rng(seed).standard_normal((CLIENTS, SIZE)) ** spread).astype(np.float32)


def senders(told):
    """Return who sends which coefficient, (clients, N)."""
    found = np.zeros((told["asked"], SIZE), bool)
    for place in range(told["asked"]):
        found[place, coefficients(told, place, SIZE)] = True
    return found


@pytest.mark.parametrize("symbols", [1, 100, SIZE // CLIENTS, 500, 1499, SIZE])
def test_every_coefficient_has_its_number_of_senders_and_every_client_about_s(symbols):
    sent = senders(plan(symbols))
    share, number = symbols * CLIENTS / SIZE, sent.sum(axis=0)
    assert set(number) <= {int(share), int(share) + 1}
    assert abs(number.mean() - share) <= 4 * np.sqrt(0.25 / SIZE)
    assert np.abs(sent.sum(axis=1) - symbols).max() <= 5 * np.sqrt(symbols * (1 - symbols / SIZE)) + 1e-9
    other = senders(plan(symbols, round=2))
    assert symbols == SIZE or not np.array_equal(sent, other)


def test_a_rotation_is_the_hadamard_matrix_and_undoes_itself():
    blocks = np.random.default_rng(2).standard_normal((5, BLOCK)).astype(np.float32)
    np.testing.assert_allclose(rotate(blocks), blocks @ hadamard(BLOCK) / 16, atol=1e-5)
    np.testing.assert_allclose(rotate(rotate(blocks)), blocks, atol=1e-5)
    assert rotate(blocks[:0]).shape == (0, BLOCK)


@pytest.mark.parametrize("symbols", [300, SIZE])
def test_what_is_read_has_the_length_of_what_was_sent_in_its_direction(symbols):
    """sigma = |z|_2^2 / |z|_1 makes <x, x^> = |x|^2 in every whole block; signs alone tell the rest."""
    told, rows = plan(symbols), updates()
    signal = Split().encode(told, {}, rows).signal
    for place, (row, read) in enumerate(zip(rows, signal, strict=True)):
        chosen = coefficients(told, place, SIZE)
        assert not np.delete(read, chosen).any()
        whole = chosen[: len(chosen) // BLOCK * BLOCK].reshape(-1, BLOCK)
        np.testing.assert_allclose((row[whole] * read[whole]).sum(1), (row[whole] ** 2).sum(1), rtol=0.005)
        error = ((row[chosen] - read[chosen]) ** 2).sum() / (row[chosen] ** 2).sum()
        assert 0.3 < error < 0.9  # pi / 2 - 1 = 0.57 for normal numbers


@pytest.mark.parametrize(("spread", "bias"), [(1, 0.02), (3, 0.05), (5, 0.2)])
def test_with_many_clients_errors_cancel_as_each_has_a_rotation_of_its_own(spread, bias):
    """One update at 200 clients: the mean of their messages is far nearer to it; spikes keep a bias."""
    row = updates(spread=spread)[0]
    told = plan(SIZE, range(200), 200)
    signal = Split().encode(told, {}, np.tile(row, (200, 1))).signal
    alone, together = (np.sum((found - row) ** 2) / np.sum(row**2) for found in (signal[0], signal.mean(0)))
    assert alone > 0.3 and together < bias


@pytest.mark.parametrize("symbols", [150, 500, SIZE])
@pytest.mark.parametrize("absent", [(), (2,), (0, 3, 4), (0, 1, 2, 3, 4, 5)])
def test_each_coefficient_is_divided_by_the_weight_of_those_heard_who_sent_it(symbols, absent):
    scheme, rows = Split(), updates()
    state = begin(scheme, SHAPES, Setting(CLIENTS, symbols))
    sending = np.isin(np.arange(CLIENTS), absent, invert=True)
    found, _ = carry(scheme, NOISY, state, rows, WEIGHTS, seed=3, round=1, sending=sending)
    told = plan(symbols)
    sent, signal = senders(told) & sending[:, None], scheme.encode(told, {}, rows).signal
    weight = WEIGHTS @ sent
    mean = np.divide((WEIGHTS * sending) @ signal, weight, out=np.zeros(SIZE), where=sent.any(axis=0))
    np.testing.assert_allclose(found.mean, mean / min(1, symbols * CLIENTS / SIZE), rtol=1e-9, atol=1e-12)
    assert found.channel_uses == 0 and found.downlink == 4  # seed, s, K, place


def test_only_some_are_asked_and_their_places_are_among_these():
    scheme, rows, computing = Split(), updates(), np.array([1, 0, 1, 1, 0, 0, 1], bool)
    state = begin(scheme, SHAPES, Setting(CLIENTS, 400))
    found, _ = carry(scheme, NOISY, state, rows, WEIGHTS, seed=3, round=1, computing=computing)
    told = plan(400, range(4), 4)
    heard = Heard(np.zeros(SIZE), 0.0, 1.0, each=WEIGHTS[computing] / WEIGHTS[computing].sum())
    heard = Heard(heard.each @ scheme.encode(told, {}, rows[computing]).signal, 0.0, each=heard.each)
    estimate, _ = scheme.decode(state.scheme, told, heard)
    np.testing.assert_allclose(found.mean, estimate.mean, rtol=1e-9)


def test_over_rounds_the_estimate_is_the_mean_however_little_a_client_sends():
    """With sK/N < 1 a coefficient counts for the rounds in which nobody sent it."""
    scheme, rows, rounds = Split(), updates(spread=1), 600
    state = begin(scheme, SHAPES, Setting(CLIENTS, 60))
    total = sum(
        carry(scheme, NOISY, state, rows, WEIGHTS, seed=5, round=t)[0].mean for t in range(1, rounds + 1)
    )
    mean = rows.mean(axis=0)  # each client is as often alone with a coefficient as the others
    slope = (total / rounds) @ mean / (mean @ mean)
    assert slope == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("symbols", [700, SIZE])
def test_a_message_is_the_signal_in_34_bytes_a_block(symbols):
    scheme, rows = Split(), updates()
    for place in range(CLIENTS):
        told, row = plan(symbols, [place]), rows[place : place + 1]
        sent = scheme.encode(told, {}, row)
        message = scheme.pack(sent)
        np.testing.assert_array_equal(scheme.message(told, row)["blocks"], message["blocks"])
        blocks = -(-len(coefficients(told, place, SIZE)) // BLOCK)
        assert {name: array.nbytes for name, array in message.items()} == {"blocks": blocks * BYTES}
        np.testing.assert_array_equal(scheme.unpack(told, message, SIZE), sent.signal[0])
    with_zeros = scheme.encode(plan(700, [0]), {}, np.zeros((1, SIZE), np.float32))
    assert not scheme.unpack(plan(700, [0]), scheme.pack(with_zeros), SIZE).any()


def spoiled(message, scale):
    message = message.copy()
    message[1, -2:] = np.array([scale], "<u2").view(np.uint8)
    return message


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda m: {"blocks": spoiled(m, 0x7FC0)}, "a scale that is not between 0 and 1e36"),
        (lambda m: {"blocks": spoiled(m, 0x7F80)}, "a scale that is not between 0 and 1e36"),
        (lambda m: {"blocks": spoiled(m, 0xBF80)}, "a scale that is not between 0 and 1e36"),
        (lambda m: {"blocks": m[:-1]}, r"its signal is uint8 of shape \(\d, 34\): must be uint8 of shape"),
        (lambda m: {"blocks": np.vstack((m, m))}, r"must be uint8 of shape \(3, 34\)"),
        (lambda m: {"blocks": m.reshape(-1)}, r"must be uint8 of shape \(3, 34\)"),
        (lambda m: {"blocks": m.astype(np.float64)}, "its signal is float64 of shape"),
        (lambda m: {"signal": m}, r"its signal has the arrays \['signal'\]: must be blocks"),
        (lambda m: {}, r"its signal has the arrays \[\]: must be blocks"),
    ],
)
def test_a_message_that_no_client_can_have_sent_is_refused(spoil, reason):
    scheme, told = Split(), plan(700, [2])
    message = scheme.pack(scheme.encode(told, {}, updates()[:1]))["blocks"]
    with pytest.raises(ValueError, match=reason):
        scheme.unpack(told, spoil(message), SIZE)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"symbols": 10**12}, "symbols = 1000000000000: must be a whole number >= 1 and <= 1500"),
        ({"symbols": 0.5}, "symbols = 0.5: must be a whole number"),
        ({"asked": 10**18}, "asked = 1000000000000000000: must be a whole number >= 1"),
        ({"asked": 2}, "places = 6: must be a whole number >= 0 and <= 1"),
        ({"seed": -1}, "seed = -1: must be a whole number >= 0"),
    ],
)
def test_a_plan_that_no_server_can_have_made_is_refused(entries, reason):
    with pytest.raises(ValueError, match=reason):
        Split().encode({**plan(700, [6]), **entries}, {}, updates()[:1])


def test_a_scale_of_16_bits_is_near_over_the_whole_range():
    values = np.float32(10) ** np.linspace(-37, 38, 1001, dtype=np.float32)
    read = lengthen(shorten(values))
    assert np.isfinite(read).all() and np.abs(read / values - 1).max() <= 2**-8
    np.testing.assert_array_equal(shorten(read), shorten(values))
    assert lengthen(shorten(np.zeros(1, np.float32)))[0] == 0
    assert np.isnan(lengthen(shorten(np.full(1, np.nan, np.float32)))[0])


@pytest.mark.parametrize("size", [10, 256, 7850, 20466, 10**6])
@pytest.mark.parametrize("limit", [1.0, 34.0, 200.0, 2720.0, 1e6])
def test_messages_stay_within_the_bytes_they_were_allowed(size, limit):
    symbols = symbols_within(size, limit)
    assert 1 <= symbols <= size
    room = max(1, limit // BYTES) * BLOCK
    assert symbols <= room and (symbols == size or symbols >= room - 2 * np.sqrt(room))
