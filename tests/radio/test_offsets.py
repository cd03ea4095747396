"""Phase, delay and frequency that synchronisation leaves, for all channels."""

import numpy as np
import pytest

from airfeel.radio.fading import FadingMAC
from airfeel.radio.gains import Offsets
from airfeel.radio.gaussian import GaussianMAC
from airfeel.radio.link import superpose
from airfeel.radio.power import EqualPower
from airfeel.registry import CHANNELS, SCHEMES
from airfeel.uplink.arrive import Radio
from airfeel.uplink.result import begin
from airfeel.uplink.round import carry
from airfeel.uplink.scheme import Setting

MANY = 4000
NEEDS = {"response": {"source": np.ones((1, 6, 4), np.complex64)}}
OFFSETS = [{"phase_error": 0.3}, {"timing_error": 0.4}, {"carrier_error": 0.01}]


def test_a_delay_turns_over_the_subcarriers_and_not_in_their_middle():
    turned = Offsets(timing_error=0.5, subcarriers=9).rotation(5, 27, 1, 1)
    angle = np.unwrap(np.angle(turned[:, :9]), axis=1)
    np.testing.assert_allclose(np.diff(angle, n=2, axis=1), 0, atol=1e-9)  # a straight line
    np.testing.assert_allclose(angle[:, 4], 0, atol=1e-9)
    np.testing.assert_allclose(turned[:, 9:18], turned[:, :9])  # alike in all OFDM symbols
    delay = np.diff(angle, axis=1)[:, 0] * 9 / (2 * np.pi)
    assert delay.std() > 0.05


def test_a_frequency_offset_turns_from_ofdm_symbol_to_ofdm_symbol():
    turned = Offsets(carrier_error=0.01, subcarriers=4).rotation(5, 12, 1, 1)
    np.testing.assert_allclose(turned[:, :4], 1)  # right at the start of the round
    np.testing.assert_allclose(turned[:, 8:], turned[:, 4:8] ** 2)
    single = Offsets(carrier_error=0.01, timing_error=0.3, subcarriers=1).rotation(5, 12, 1, 1)
    np.testing.assert_allclose(single[:, 1:], single[:, :1] * turned[:, 4:5] ** np.arange(1, 12))


def test_angles_have_their_deviation():
    for options, angle in (
        ({"phase_error": 0.2}, lambda r: np.angle(r)),
        ({"timing_error": 0.1, "subcarriers": 2}, lambda r: np.angle(r[:, 1]) / np.pi * 2),
        ({"carrier_error": 0.05, "subcarriers": 1}, lambda r: np.angle(r[:, 1]) / (2 * np.pi)),
    ):
        drawn = angle(Offsets(**options).rotation(MANY, 4, 3, 1))
        assert drawn.std() == pytest.approx(next(iter(options.values())), rel=4 / np.sqrt(2 * MANY))


def test_the_plain_channel_turns_pairs_of_symbols():
    channel = GaussianMAC(0.0, phase_error=0.4)
    signals = np.random.default_rng(0).standard_normal((3, 8))
    heard = superpose(channel.link(3, 8, 2, 1), signals, 2, 1)
    pairs = signals[:, 0::2] + 1j * signals[:, 1::2]
    expected = channel.rotation(3, 4, 2, 1) @ pairs
    np.testing.assert_allclose(heard[0::2] + 1j * heard[1::2], expected)


def test_fading_keeps_the_real_part_of_every_symbol():
    exact, channel = FadingMAC(threshold=0.1), FadingMAC(threshold=0.1, carrier_error=0.02, subcarriers=2)
    link = channel.link(4, 10, 2, 1)
    assert link.gain.shape == (4, 10) and not np.iscomplexobj(link.gain)
    expected = channel.rotation(4, 10, 2, 1).real * exact.link(4, 10, 2, 1).active[:, None]
    np.testing.assert_allclose(link.gain, expected, atol=1e-12)


@pytest.mark.parametrize("kind", CHANNELS.names())
@pytest.mark.parametrize("offsets", OFFSETS, ids=lambda o: next(iter(o)))
def test_every_channel_has_them_and_they_show_in_the_error(kind, offsets):
    scheme = SCHEMES.get("common_k").build({})
    g = np.random.default_rng(1).standard_normal((6, 300))
    part = CHANNELS.get(kind)
    errors = []
    for given in ({}, offsets):
        air = Radio(part.build({"noise_var": 0.0, **NEEDS.get(kind, {}), **given}), EqualPower(500.0))
        state = begin(scheme, {"theta": (300,)}, Setting(6, 300))
        result, _ = carry(scheme, air, state, g, np.full(6, 1 / 6), seed=3, round=1)
        errors.append(result.nmse)
    assert errors[0] < 1e-20 and errors[1] > 1e-6


@pytest.mark.parametrize("name", ["phase_error", "timing_error", "carrier_error", "subcarriers"])
@pytest.mark.parametrize("kind", CHANNELS.names())
def test_bad_offsets_are_named(kind, name):
    with pytest.raises(ValueError, match=f"{name} = -1"):
        CHANNELS.get(kind).build({**NEEDS.get(kind, {}), name: -1})
