"""D-DSGD: every message fits in the bits there are and can be read back exactly."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airfeel.radio.channels import FadingMAC
from airfeel.radio.power import EqualPower, LongTermPower
from airfeel.schemes.d_dsgd import DDsgd, capacity
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting
from rounds import NOISY, WEIGHTS, spiky

SHAPES = {"theta": (40, 10)}
SETTING = Setting(devices=5, symbols=200, power=500.0, noise_var=1.0)


def written(row, keep):
    """Write a row as a device would: the number of its subset, a sign, 32 bits of magnitude."""
    places = np.flatnonzero(row)
    assert len(places) == keep and len(set(row[places])) == 1
    number = sum(math.comb(int(place), i + 1) for i, place in enumerate(places))
    value = np.float32(row[places[0]])
    assert value == row[places[0]]
    bits = (math.comb(len(row), keep) - 1).bit_length()
    magnitude = int(np.abs(value).view(np.uint32))
    return bits + 33, (number << 33) | (int(value < 0) << 32) | magnitude


def read(message, size, keep):
    """Read such a message as the server would, knowing N and q."""
    row, number = np.zeros(size), message >> 33
    value = float(np.uint32(message & (2**32 - 1)).view(np.float32))
    place = size
    for i in range(keep, 0, -1):
        place = next(p for p in range(place - 1, -1, -1) if math.comb(p, i) <= number)
        number -= math.comb(place, i)
        row[place] = -value if message >> 32 & 1 else value
    return row


def updates(seed=0, dtype=np.float32):
    return spiky(5, 400, seed=seed, dtype=dtype)


@settings(max_examples=200)
@given(
    st.integers(1, 60),
    st.integers(1, 4000),
    st.floats(-3, 6),
    st.floats(-6, 4),
    st.integers(1, 3000),
    st.floats(0.01, 1.0),
)
def test_bits_are_never_above_capacity_and_no_entry_more_would_fit(
    devices, symbols, power, noise, size, margin
):
    setting, most = Setting(devices, symbols, 10**power, 10**noise), max(1, size // 2)
    bits = symbols / (2 * devices) * math.log2(1 + margin * devices * 10**power / (symbols * 10**noise))

    def exact(keep):
        return (math.comb(size, keep) - 1).bit_length() + 33

    keep = fitted(DDsgd(margin), size, setting)
    assert keep <= most
    assert keep == 0 or exact(keep) <= bits * (1 + 1e-12)
    # One bit is lost where the number of subsets is a power of two, as it cannot be told from one more.
    assert keep == most or exact(keep + 1) + 1 > bits * (1 - 1e-9)


def fitted(scheme, size, setting):
    """Return how many entries a message holds; 0 where the scheme is refused for that reason."""
    with contextlib.suppress(ValueError):
        return scheme.init({"theta": (size,)}, setting).keep
    with pytest.raises(ValueError, match=f"bits for each of .* for one of {size} entries"):
        scheme.init({"theta": (size,)}, setting)
    return 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_a_message_can_be_read_back_exactly_and_fits(seed, dtype):
    scheme = DDsgd()
    state = scheme.init(SHAPES, SETTING)
    assert state.keep > 3
    sent = scheme.compress(scheme.plan(state, 1, 1), updates(seed=seed, dtype=dtype))
    for row in sent.signal:
        bits, message = written(row, state.keep)
        assert message.bit_length() <= bits <= capacity(40, 500.0, 1.0)
        np.testing.assert_array_equal(read(message, 400, state.keep), row)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_group_whose_mean_is_farther_from_zero_is_sent_as_its_mean(sign):
    row = sign * np.array([[5.0, -6.0, 4.0, -1.0, 0.5, 0.0, 3.0, -2.0]])
    sent = DDsgd().compress({"keep": 3}, row)  # 5, 4, 3 have the mean 4; -6, -2, -1 have -3
    np.testing.assert_array_equal(sent.signal, sign * np.array([[4.0, 0, 4, 0, 0, 0, 4, 0]]))
    np.testing.assert_array_equal(sent.remainder + sent.signal, row)


def test_what_no_single_precision_holds_stays_in_the_memory():
    row = np.array([[1 / 3, 0.0, 0.0, 0.0]])
    sent = DDsgd().compress({"keep": 1}, row)
    third = float(np.float32(1 / 3))
    assert (sent.signal[0, 0], sent.remainder[0, 0]) == (third, 1 / 3 - third) and third != 1 / 3
    huge = DDsgd().compress({"keep": 1}, np.array([[1e300, 0.0]]))
    assert np.isfinite(huge.signal).all() and huge.remainder[0, 0] == 1e300 - huge.signal[0, 0]


def test_everybody_spends_all_its_power_in_s_channel_uses_and_the_mean_is_exact():
    scheme, g = DDsgd(), updates(dtype=np.float64)
    sending, given = np.array([True, True, False, True, True]), (begin(scheme, SHAPES, SETTING), g, WEIGHTS)
    result, state = carry(scheme, NOISY, *given, seed=3, round=1, sending=sending)
    assert result.channel_uses == 200 and result.noise_var == 0
    np.testing.assert_array_equal(result.energy, np.where(sending, 500.0, 0.0))
    np.testing.assert_array_equal(state.ledger.spent, result.energy)
    signal = scheme.compress(scheme.plan(state.scheme, 3, 1), g).signal
    np.testing.assert_allclose(result.mean, (WEIGHTS * sending) @ signal, rtol=1e-12)


@pytest.mark.parametrize("policy", [EqualPower(500.0), LongTermPower(500.0)], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("margin", [1.0, 0.1])
def test_a_device_with_a_weak_link_is_silent_and_keeps_everything(policy, margin):
    scheme, air = DDsgd(margin), Radio(FadingMAC(threshold=0.2), policy)
    setting = Setting(devices=5, symbols=300, power=500.0, noise_var=0.1)
    state, heard = begin(scheme, SHAPES, setting), 0
    for t in range(1, 21):
        before, g = state, updates(seed=t)
        link = air.channel.link(5, 300, 7, t)
        result, state = carry(scheme, air, state, g, WEIGHTS, seed=7, round=t)
        granted = before.ledger.available(500.0) if isinstance(policy, LongTermPower) else 500.0
        able = link.active & (margin * 500.0 * link.cost <= granted)
        np.testing.assert_array_equal(result.active, able)
        np.testing.assert_allclose(result.energy, np.where(able, margin * 500.0 * link.cost, 0.0))
        np.testing.assert_array_equal(state.memory["error"][~able], (before.memory["error"] + g)[~able])
        heard += able.sum()
    chance = math.exp(-max(margin, 0.04))  # a Rayleigh gain's power is above margin and threshold
    spread = math.sqrt(100 * chance * (1 - chance))
    if type(policy) is EqualPower:
        assert abs(heard - 100 * chance) < 4.5 * spread
    else:
        assert heard > 100 * chance - 4.5 * spread


def test_those_that_compute_in_a_round_share_it():
    fifth = Setting(25, 200, 500.0, 1.0, computing=5)
    assert DDsgd().init(SHAPES, fifth) == DDsgd().init(SHAPES, SETTING)
    with pytest.raises(ValueError, match="bits for each of 25 devices in a round"):
        DDsgd().init(SHAPES, Setting(25, 200, 500.0, 1.0))


def test_mistakes_are_sentences():
    with pytest.raises(ValueError, match=r"^symbols = 10: D-DSGD has 14.3\d bits for each of 2 devices"):
        DDsgd().init({"theta": (1000,)}, Setting(2, 10, 260.0, 1.0))
    for setting in (Setting(2, 10, None, 1.0), Setting(2, 10, 1.0, None)):
        with pytest.raises(ValueError, match="= None: d_dsgd must know power and noise"):
            DDsgd().init({"theta": (1000,)}, setting)
    with pytest.raises(ValueError, match="margin = 1.5: must be a finite number > 0 and <= 1"):
        DDsgd(margin=1.5)
