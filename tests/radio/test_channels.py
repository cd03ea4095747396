import numpy as np
import pytest
from scipy import stats

from airfeel.radio.fading import FadingMAC
from airfeel.radio.gaussian import GaussianMAC
from airfeel.radio.link import Link, superpose

ROUNDS = 4000
SIGNIFICANCE = 1e-4  # of each test of a law


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


def test_all_schemes_of_a_seed_meet_the_same_noise_and_rounds_differ():
    channel, signals = GaussianMAC(), np.zeros((3, 50))
    first = superpose(channel.link(3, 50, 1, 1), signals, seed=1, round=1)
    np.testing.assert_array_equal(first, superpose(channel.link(3, 50, 1, 1), signals, seed=1, round=1))
    assert not np.array_equal(first, superpose(channel.link(3, 50, 1, 2), signals, seed=1, round=2))
    louder = GaussianMAC(4.0)
    np.testing.assert_allclose(superpose(louder.link(3, 50, 1, 1), signals, 1, 1), 2 * first)


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


def test_residual_phase_scales_by_its_cosine():
    link = links(FadingMAC(threshold=0.1, phase_error=0.3))
    arriving = link.gain[link.active]
    assert arriving.max() <= 1 + 1e-12
    spread = 4 * arriving.std() / np.sqrt(len(arriving))
    assert abs(arriving.mean() - np.exp(-(0.3**2) / 2)) < spread  # E cos(phi)


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


def test_adding_a_device_leaves_the_others_fading():
    channel = FadingMAC(csi_error=0.1, phase_error=0.1)
    few, many = channel.link(3, 5, 1, 1), channel.link(8, 5, 1, 1)
    np.testing.assert_array_equal(few.gain, many.gain[:3])
    np.testing.assert_array_equal(few.cost, many.cost[:3])


def test_fading_receives_the_scaled_sum():
    channel = FadingMAC(noise_var=0.0, csi_error=0.2, phase_error=0.5)
    link = channel.link(4, 6, 3, 1)
    signals = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_allclose(superpose(link, signals, 3, 1), link.gain @ signals.astype(float))


@pytest.mark.parametrize(
    "wrong",
    [{"noise_var": -1}, {"threshold": 0}, {"rician": -0.1}, {"csi_error": -1}, {"phase_error": np.nan}],
)
def test_bad_parameters_are_named(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} = "):
        FadingMAC(**wrong)


def test_noise_must_not_be_negative():
    with pytest.raises(ValueError, match="noise_var = -1"):
        GaussianMAC(-1)
