"""What every registered channel must hold; noise, fading and offsets by their laws."""

import numpy as np
import pytest
from scipy import stats

from airfeel.radio.channels import FadingMAC, GaussianMAC, Offsets
from airfeel.radio.link import Link, superpose
from airfeel.radio.power import EqualPower
from airfeel.registry import CHANNELS, SCHEMES
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting

NAMES, DEVICES = CHANNELS.names(), 6
RAYLEIGH = np.random.default_rng(0).standard_normal((2, 3, DEVICES, 30))
NEEDS = {"response": {"source": RAYLEIGH[0] + 1j * RAYLEIGH[1]}}
OPTIONS = [{}, {"phase_error": 0.1, "timing_error": 0.2, "carrier_error": 0.001}]
ROUNDS = 4000
SIGNIFICANCE = 1e-4  # of each test of a law
MANY = 4000
IDEAL = dict.fromkeys(("csi_error", "timing_error", "carrier_error", "phase_drift", "bits"), 0)
STILL = {
    "response": {"source": np.ones((1, 6, 4), np.complex64)},
    "waveform": {**IDEAL, "clipping_db": 300.0},
}
OFFSETS = [{"phase_error": 0.3}, {"timing_error": 0.4}, {"carrier_error": 0.01}]


def build(name, **options):
    return CHANNELS.get(name).build({**NEEDS.get(name, {}), **options})


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "offsets"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("symbols", [1, 40, 41])
def test_a_link_has_one_entry_per_device_or_per_symbol(name, options, symbols):
    for t in (1, 2, 5):
        link = build(name, **options).link(DEVICES, symbols, seed=3, round=t)
        for values in (link.active, link.cost, link.gain):
            assert values.shape in ((DEVICES,), (DEVICES, symbols))
        assert link.active.dtype == np.bool_ and np.shape(link.noise_var) in ((), (symbols,))
        assert np.isfinite(link.cost).all() and (link.cost >= 0).all()
        assert np.isfinite(link.gain).all() and np.min(link.noise_var) >= 0
        active = link.active if link.active.ndim == link.cost.ndim else link.active[:, None]
        assert (link.cost[np.broadcast_to(active, link.cost.shape)] > 0).all()


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "offsets"])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_round_is_the_same_air_and_others_differ(name, options):
    channel, again = build(name, **options), build(name, **options)
    one, two = channel.link(DEVICES, 20, 3, 4), again.link(DEVICES, 20, 3, 4)
    for a, b in zip((one.active, one.cost, one.gain), (two.active, two.cost, two.gain), strict=True):
        assert a.tobytes() == b.tobytes()
    other = channel.link(DEVICES, 20, 3, 5)
    if name != "gaussian" or options:
        assert one.cost.tobytes() != other.cost.tobytes() or one.gain.tobytes() != other.gain.tobytes()


def test_a_cell_is_a_ring_and_responses_are_of_rounds_devices_and_elements():
    for name, option, value in (("cell", "nearest", 500.0), ("response", "source", np.ones(3))):
        with pytest.raises(ValueError, match=f"^{option} = "):
            build(name, **{option: value})


@pytest.mark.parametrize("name", NAMES)
def test_adding_devices_leaves_the_others_their_air(name):
    if name == "antennas":
        return  # one combiner serves all
    channel = (
        build(name, csi_error=0.1, phase_error=0.1) if name != "gaussian" else build(name, phase_error=0.1)
    )
    few, many = channel.link(3, 5, 1, 1), channel.link(DEVICES, 5, 1, 1)
    np.testing.assert_array_equal(few.gain, many.gain[:3])
    np.testing.assert_array_equal(few.cost, many.cost[:3])


def links(channel, devices=2, rounds=ROUNDS, seed=5):
    drawn = [channel.link(devices, 10, seed, t) for t in range(1, rounds + 1)]
    return Link(
        *(
            np.array([getattr(link, name) for link in drawn])
            for name in ("active", "cost", "gain", "noise_var")
        )
    )


def test_gaussian_mac_adds_signals_and_noise_of_the_right_law():
    channel = GaussianMAC(noise_var=0.25)
    signals = np.arange(6.0).reshape(3, 2).repeat(5000, axis=1)
    link = channel.link(3, 10_000, seed=1, round=7)
    assert link.active.all()
    noise = superpose(link, signals, seed=1, round=7) - signals.sum(axis=0)
    assert stats.kstest(noise, stats.norm(scale=0.5).cdf).pvalue > SIGNIFICANCE
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / np.sqrt(len(noise))


@pytest.mark.parametrize("rician", [0.0, 3.0])
def test_the_strength_of_fading_has_its_law(rician):
    channel = FadingMAC(rician=rician)
    gains = np.array([channel.gains(2, 5, t) for t in range(ROUNDS)])
    # |h| is Rice distributed with line of sight nu and scatter b^2 per real dimension; nu^2 + 2 b^2 = 1.
    b = np.sqrt(1 / (2 * (1 + rician)))
    law = stats.rice(np.sqrt(2 * rician), scale=b)
    for device in range(2):
        assert stats.kstest(np.abs(gains[:, device]), law.cdf).pvalue > SIGNIFICANCE
    assert abs(np.corrcoef(np.abs(gains.T))[0, 1]) < 4 / np.sqrt(ROUNDS)
    assert np.mean(np.abs(gains) ** 2) == pytest.approx(1, abs=4 / np.sqrt(2 * ROUNDS))


def test_truncated_inversion_with_perfect_knowledge():
    channel = FadingMAC(threshold=0.5)
    link = links(channel)
    gains = np.array([channel.gains(2, 5, t) for t in range(1, ROUNDS + 1)])
    np.testing.assert_array_equal(link.active, np.abs(gains) >= 0.5)
    np.testing.assert_allclose(link.gain[link.active], 1, rtol=1e-12)
    np.testing.assert_allclose(link.cost[link.active], 1 / np.abs(gains[link.active]) ** 2, rtol=1e-12)
    assert link.cost.max() <= 4
    assert (link.gain[~link.active] == 0).all()
    silent, expected = np.mean(~link.active), 1 - np.exp(-0.25)  # P(|h| < h_min) of Rayleigh fading
    assert abs(silent - expected) < 4 * np.sqrt(expected * (1 - expected) / (2 * ROUNDS))


def test_imperfect_knowledge_scales_by_the_ratio_of_gains():
    variance, threshold = 0.04, 0.4
    link = links(FadingMAC(threshold=threshold, csi_error=variance))
    known = 1 / np.sqrt(link.cost[link.active])
    assert known.min() >= threshold
    # |h^| is Rayleigh with power 1 + variance, cut at the threshold.
    power = 1 + variance
    law = lambda r: 1 - np.exp(-(np.asarray(r) ** 2 - threshold**2) / power)  # noqa: E731
    assert stats.kstest(known, law).pvalue > SIGNIFICANCE
    # h given h^ is Gaussian around h^/(1 + variance), so Re(h/h^) is so with variance v/(2 (1 + v) |h^|^2).
    residual = (link.gain[link.active] - 1 / power) * known / np.sqrt(variance / (2 * power))
    assert stats.kstest(residual, stats.norm.cdf).pvalue > SIGNIFICANCE


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
    errors = []
    for given in ({}, offsets):
        air = Radio(build(kind, **{"noise_var": 0.0, **STILL.get(kind, {}), **given}), EqualPower(500.0))
        state = begin(scheme, {"theta": (300,)}, Setting(6, 300))
        result, _ = carry(scheme, air, state, g, np.full(6, 1 / 6), seed=3, round=1)
        errors.append(result.nmse)
    assert errors[0] < 1e-20 and errors[1] > 1e-6
