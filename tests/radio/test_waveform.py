"""Symbols as OFDM samples: frames there and back, impairments by their definitions, and the channel."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from airfeel.radio import impairments
from airfeel.radio.frame import Frame, FrameMissing
from airfeel.radio.link import energy_of
from airfeel.radio.power import EqualPower
from airfeel.radio.response import Response
from airfeel.radio.waveform import Waveform
from airfeel.registry import SCHEMES
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting

IDEAL = Waveform(
    csi_error=0.0, timing_error=0.0, carrier_error=0.0, phase_drift=0.0, clipping_db=300.0, bits=0
)
SIGNIFICANCE = 1e-4


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def noise(length, variance=1.0, seed=1):
    parts = drawn(2, length, seed=seed)
    return np.sqrt(variance) * (parts[0] + 1j * parts[1])


def heard(samples, before=100, after=50):
    return np.pad(samples, (before, after))


@pytest.mark.parametrize("symbols", [1, 2, 359, 785])
@pytest.mark.parametrize("shape", [{}, {"subcarriers": 64, "used": 48, "pilots": 4, "prefix": 16}])
def test_symbols_come_back_from_samples(symbols, shape):
    frame, signals = Frame(symbols, **shape), drawn(3, symbols)
    samples = frame.modulate(signals)
    assert samples.shape == (3, frame.length)
    reading = frame.demodulate(heard(samples.sum(axis=0)))
    np.testing.assert_allclose(reading.symbols, signals.sum(axis=0), atol=1e-12)
    assert reading.start == pytest.approx(100, abs=1e-9) and reading.noise_var < 1e-25


def test_samples_are_the_sum_of_their_subcarriers_as_it_is_defined():
    """Written down without a transform, from the layout that the docs state."""
    frame, signals = Frame(32, subcarriers=32, used=20, pilots=4, prefix=6), drawn(1, 32)
    used = [k for k in range(-10, 11) if k]
    pilots = [used[place] for place in (2, 7, 12, 17)]
    pairs = iter([complex(*pair) for pair in signals.reshape(-1, 2)])
    strength = np.sqrt(np.sum(signals**2) / 16)
    known = {k: strength * np.exp(-1j * np.pi * i**2 / 20) for i, k in enumerate(used)}
    row = {k: known[k] if k in pilots else next(pairs) for k in used}
    expected = [
        sum(value * np.exp(2j * np.pi * k * n / 32) for k, value in each.items()) / np.sqrt(32)
        for each in (known, known, row)
        for n in range(-6, 32)
    ]
    np.testing.assert_allclose(frame.modulate(signals)[0], expected, atol=1e-12)


def test_a_symbol_of_energy_one_is_samples_of_energy_one():
    frame, signals = Frame(720), drawn(2, 720)
    rows = frame.modulate(signals, np.zeros(2)).reshape(2, frame.rows, frame.step)
    energy = np.sum(np.abs(rows[:, :, frame.prefix :]) ** 2, axis=(1, 2))
    np.testing.assert_allclose(energy, np.sum(signals**2, axis=1))
    np.testing.assert_array_equal(rows[:, :, : frame.prefix], rows[:, :, -frame.prefix :])
    known = frame.modulate(signals).reshape(2, frame.rows, frame.step)[:, 0, frame.prefix :]
    np.testing.assert_allclose(np.sum(np.abs(known) ** 2, axis=1) / frame.used, 2 * energy / 720)


def test_noise_in_samples_is_noise_in_symbols_and_edges_tell_how_much():
    frame = Frame(20_000)
    signal = 10 * drawn(1, 20_000)
    samples = heard(frame.modulate(signal)[0])
    reading = frame.demodulate(samples + noise(len(samples), 0.25))
    error = reading.symbols - signal[0]
    assert reading.noise_var == pytest.approx(0.25, rel=4 / np.sqrt(frame.rows * len(frame.edges)))
    # Pilots turn rows by a little: that is a share of the signal, not of the noise.
    assert stats.kstest(error, stats.norm(scale=np.std(error)).cdf).pvalue > SIGNIFICANCE
    assert np.var(error) == pytest.approx(0.25, rel=0.05)
    assert reading.snr_db == pytest.approx(10 * np.log10(100 / 0.25), abs=0.2)


@pytest.mark.parametrize(("delay", "hertz", "phase"), [(3.0, 900.0, 0.5), (-2.4, -5000.0, 2.0)])
def test_what_is_common_to_all_is_found_and_corrected(delay, hertz, phase):
    frame, signals = Frame(785), drawn(1, 785)
    samples = impairments.delayed(heard(frame.modulate(signals)[0])[None], np.array([delay]))
    samples = impairments.turned(samples, np.array([phase]), np.array([hertz / frame.sample_rate]))[0]
    reading = frame.demodulate(samples)
    np.testing.assert_allclose(reading.symbols, signals[0], atol=0.01)
    assert reading.start == pytest.approx(100 + delay, abs=0.01)
    assert reading.offset_hz == pytest.approx(hertz, abs=1.0)


def test_paths_within_the_prefix_are_a_gain_of_every_subcarrier():
    frame, taps = Frame(785), noise(5, seed=3)[None]
    signals = drawn(1, 785)
    gain = frame.response(impairments.echoed(frame.preamble[None], taps))
    np.testing.assert_allclose(gain, np.fft.fft(taps, 256)[:, frame.carriers], atol=1e-12)
    samples = impairments.echoed(frame.modulate(signals, inverse=1 / gain), taps)[0]
    np.testing.assert_allclose(frame.demodulate(heard(samples)).symbols, signals[0], atol=1e-10)


def test_noise_alone_is_no_frame_and_neither_is_half_of_one():
    frame = Frame(10)
    for seed in range(100):
        with pytest.raises(FrameMissing, match="no preamble in 2000 samples: the best fit is "):
            frame.demodulate(noise(2000, seed=seed))
    with pytest.raises(FrameMissing, match="959 samples are fewer than the 960 of a frame"):
        frame.demodulate(frame.modulate(drawn(1, 10))[0, 1:])
    with pytest.raises(FrameMissing, match="no preamble"):
        frame.demodulate(np.zeros(2000, complex))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"used": 191}, "used = 191: must be even, and leave 3 of 256"),
        ({"used": 254}, "used = 254: must be even, and leave 3 of 256"),
        ({"pilots": 192}, "pilots = 192: must be below 192"),
        ({"prefix": 256}, "prefix = 256: must be below 256"),
        ({"subcarriers": 10**7}, "subcarriers = 10000000: must be a whole number >= 4 and <= 65536"),
        ({"sample_rate": 0.0}, "sample_rate = 0"),
        ({"taps": 33}, "taps = 33: must be at most half the prefix, 32"),
        ({"bits": 33}, "bits = 33"),
    ],
)
def test_what_is_no_frame_is_one_sentence(options, rule):
    with pytest.raises(ValueError, match=f"^{rule}"):
        Waveform(**options)


def test_impairments_do_what_they_are_called_after():
    samples = np.pad(noise(200, seed=5).reshape(2, 100), ((0, 0), (20, 20)))
    np.testing.assert_allclose(
        impairments.delayed(samples, np.array([3.0, -2.0])),
        [np.roll(samples[0], 3), np.roll(samples[1], -2)],
        atol=1e-12,
    )
    half = impairments.delayed(impairments.delayed(samples, np.full(2, 0.5)), np.full(2, -0.5))
    np.testing.assert_allclose(half, samples, atol=0.05)
    taps = noise(6, seed=6).reshape(2, 3)
    for row, gains, found in zip(samples, taps, impairments.echoed(samples, taps), strict=True):
        np.testing.assert_allclose(found, np.convolve(row, gains))
    most = np.sqrt(10**0.3 * np.mean(np.abs(samples) ** 2, axis=1, keepdims=True))
    limited = impairments.clipped(samples, 3.0)
    np.testing.assert_allclose(np.abs(limited), np.minimum(np.abs(samples), most))
    np.testing.assert_allclose(np.angle(limited), np.angle(samples), atol=1e-12)
    np.testing.assert_allclose(
        impairments.turned(samples, np.array([0.1, 0.2]), np.array([0.01, 0.0]))[0, 30],
        samples[0, 30] * np.exp(1j * (0.1 + 2 * np.pi * 0.3)),
    )


@pytest.mark.parametrize("bits", [1, 3, 12])
def test_converters_have_so_many_levels(bits):
    samples = noise(20_000, seed=7)[None]
    told = impairments.quantised(samples, bits)
    peak = max(np.abs(samples.real).max(), np.abs(samples.imag).max())
    assert len(np.unique(told.real)) <= 2**bits and np.abs(told.real).max() < peak
    assert np.abs(told.real - samples.real).max() <= peak / 2**bits * (1 + 1e-9)
    np.testing.assert_array_equal(impairments.quantised(np.zeros((1, 4), complex), bits), np.zeros((1, 4)))


def aggregate(channel, updates, power=5e4, round=1, **options):
    devices, size = updates.shape
    scheme = SCHEMES.get("common_k").build({})
    state = begin(scheme, {"theta": (size,)}, Setting(devices, size))
    radio = Radio(channel, EqualPower(power))
    return carry(scheme, radio, state, updates, np.full(devices, 1 / devices), seed=3, round=round, **options)


def as_response(channel):
    """The channel that has the same gains of elements, and no samples."""

    def source(devices, elements, seed, round):
        frame = channel.frame(2 * elements)
        return channel.gains(devices, seed, round)[0][:, frame.element_carriers]

    return Response(source)


def test_without_impairments_and_noise_samples_are_symbols():
    for t in (1, 2):
        exact, _ = aggregate(replace(IDEAL, noise_var=0.0), drawn(25, 785), round=t)
        assert exact.nmse < 1e-20


@pytest.mark.long
def test_without_impairments_the_error_is_that_of_symbols():
    ratio = []
    for t in range(1, 41):
        by_samples, by_symbols = (
            aggregate(channel, drawn(25, 785), round=t)[0] for channel in (IDEAL, as_response(IDEAL))
        )
        ratio.append(by_samples.nmse / (785 * by_symbols.noise_var / np.sum(by_symbols.truth**2)))
    assert 10 * np.log10(np.mean(ratio)) == pytest.approx(0, abs=0.1)


def test_power_is_accounted_as_the_samples_have_it():
    symbols = 720  # whole rows
    frame, devices = IDEAL.frame(symbols), np.arange(6)
    link = IDEAL.link(6, symbols, 3, 1)
    signals = np.where(link.active, drawn(6, symbols), 0)
    rows = IDEAL.samples(frame, signals, devices, 3, 1).reshape(6, frame.rows, frame.step)
    inverse = rows[:, 0, frame.prefix :]  # the preamble, of which a part goes to the pilots
    pilots = np.fft.fft(inverse, norm="ortho")[:, frame.carriers[frame.places[0]]]
    spent = np.sum(np.abs(rows[:, 2:, frame.prefix :]) ** 2, axis=(1, 2))
    spent -= (frame.rows - 2) * np.sum(np.abs(pilots) ** 2, axis=1)
    np.testing.assert_allclose(spent, energy_of(signals, link.cost), rtol=1e-9)


@pytest.mark.parametrize(
    "impairment",
    [
        {"csi_error": 0.01},
        {"phase_error": 0.2},
        {"timing_error": 0.2},
        {"carrier_error": 0.01},
        {"phase_drift": 10.0},
        {"clipping_db": 6.0},
        {"bits": 4},
    ],
    ids=lambda o: next(iter(o)),
)
def test_every_impairment_shows_and_more_of_it_shows_more(impairment):
    ((name, size),) = impairment.items()
    less, updates = {"clipping_db": 9.0, "bits": 8}.get(name, size / 4), drawn(6, 785)
    few, many = (
        np.mean(
            [
                aggregate(replace(IDEAL, noise_var=0.0, **{name: value}), updates, round=t)[0].nmse
                for t in (1, 2, 3)
            ]
        )
        for value in (less, size)
    )
    assert 1e-12 < 3 * few < many < 0.3


def test_small_angles_err_by_their_squares():
    """A phase error of sigma leaves sigma^2 of a signal, less what is common to all."""
    turned = replace(IDEAL, noise_var=0.0, taps=1, phase_error=0.1, threshold=0.01)
    found, _ = aggregate(turned, np.diag(np.ones(400)))  # every device has a symbol of its own
    assert found.nmse == pytest.approx(0.1**2, rel=4 * np.sqrt(2 / 400))


def test_devices_send_the_same_whoever_else_does():
    channel, updates = Waveform(), drawn(6, 300)
    some = np.array([False, True, True, False, True, False])
    frame, chosen = channel.frame(300), np.flatnonzero(some)
    every = channel.samples(frame, updates, np.arange(6), 1, 2)
    np.testing.assert_array_equal(channel.samples(frame, updates[some], chosen, 1, 2), every[some])
    quiet = replace(channel, noise_var=0.0, bits=0)
    whole = quiet.propagate(frame, every, np.arange(6), 1, 2)
    parts = [quiet.propagate(frame, every[who], np.flatnonzero(who), 1, 2) for who in (some, ~some)]
    np.testing.assert_allclose(sum(parts), whole, atol=1e-12)
    result, _ = aggregate(channel, updates, computing=some, round=2)
    np.testing.assert_array_equal(result.active, some)


def test_the_same_seed_gives_the_same_bytes():
    one, two = (aggregate(Waveform(), drawn(4, 300))[0] for _ in range(2))
    assert one.mean.tobytes() == two.mean.tobytes() and one.noise_var == two.noise_var


def test_a_round_whose_preamble_is_not_found_is_lost():
    updates = drawn(3, 300)
    result, state = aggregate(Waveform(), updates, power=0.01)
    assert result.alpha is None and not result.active.any() and not result.mean.any()
    assert result.energy.max() == pytest.approx(0.01)
    np.testing.assert_allclose(state.memory["error"], updates)
