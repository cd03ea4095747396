"""Several receive antennas with one combiner."""

import numpy as np
import pytest
from scipy import stats

from airfeel.radio import antennas as antennas_module
from airfeel.radio.antennas import Antennas, fair, principal
from airfeel.radio.fading import FadingMAC
from airfeel.radio.gains import complex_normal

SIGNIFICANCE = 1e-4


def channels(devices, antennas, seed):
    return complex_normal((devices, antennas), seed, "test", 0)


def least(channels, combiner):
    return float((np.abs(channels @ combiner.conj()) ** 2).min())


@pytest.mark.parametrize("rician", [0.0, 3.0])
def test_one_antenna_is_fading_in_distribution(rician):
    """Seeds differ, so that the draws do: activity as often, costs of the same law."""
    one, flat = Antennas(antennas=1, rician=rician), FadingMAC(rician=rician)
    costs, silent = [], []
    for channel, seed in ((one, 1), (flat, 2)):
        links = [channel.link(20, 4, seed, t) for t in range(1, 151)]
        costs.append(np.concatenate([link.cost[link.active] for link in links]))
        silent.append(np.mean([~link.active for link in links]))
        assert all((link.gain[link.active] - 1).max() < 1e-12 for link in links)
    assert stats.ks_2samp(*costs).pvalue > SIGNIFICANCE
    assert abs(silent[0] - silent[1]) < 5 * np.sqrt(2 * max(silent) / 3000)


@pytest.mark.parametrize("antennas", [1, 2, 4, 16])
@pytest.mark.parametrize("combiner", [fair, principal])
def test_alone_a_device_of_unit_modulus_gains_a_factor_of_r(antennas, combiner):
    for seed in range(5):
        h = np.exp(1j * np.random.default_rng(seed).uniform(0, 2 * np.pi, (1, antennas)))
        a = combiner(h)
        assert np.linalg.norm(a) == pytest.approx(1)
        assert 10 * np.log10(least(h, a)) == pytest.approx(10 * np.log10(antennas), abs=1e-6)


@pytest.mark.parametrize("antennas", [4, 16])
def test_the_weakest_of_25_is_near_the_best_of_many_restarts_and_below_the_bound(antennas, monkeypatch):
    gains, bests = [], []
    for seed in range(4):
        h = channels(25, antennas, seed)
        gains.append(least(h, fair(h)))
        # No combiner can do better than the largest mean gain of all.
        assert gains[-1] <= np.linalg.eigvalsh(h.T @ h.conj())[-1] / 25
        monkeypatch.setattr(antennas_module, "STARTS", 150)
        monkeypatch.setattr(antennas_module, "STEPS", 200)
        bests.append(least(h, fair(h, seed=1)))
        monkeypatch.undo()
    assert (10 * np.log10(np.array(bests) / gains) < 1).all()
    assert np.mean(gains) < (1 + np.sqrt(antennas / 25)) ** 2
    # The principal vector serves the mean, and starves somebody.
    drawn = [channels(25, antennas, seed) for seed in range(4)]
    assert np.mean([least(h, principal(h)) for h in drawn]) < 0.5 * np.mean(gains)


def test_more_antennas_help_the_weakest():
    """Mean over seeds of the least gain; one antenna leaves 1/25 of a mean gain of one."""
    mean = [
        np.mean([least(h, fair(h)) for h in (channels(25, r, s) for s in range(6))]) for r in (1, 2, 4, 8, 16)
    ]
    assert (np.diff(mean) > 0).all() and mean[0] < 0.2 and mean[-1] > 1.2


def test_devices_invert_what_the_combiner_makes_of_their_channels():
    channel = Antennas(antennas=4, threshold=0.2)
    link, h = channel.link(6, 9, 3, 2), channel.channels(6, 3, 2)
    gain = np.abs(h @ fair(h).conj())
    np.testing.assert_array_equal(link.active, gain >= 0.2)
    np.testing.assert_allclose(link.cost[link.active], 1 / gain[link.active] ** 2)
    wrong = Antennas(antennas=4, threshold=0.2, csi_error=0.1).link(6, 9, 3, 2)
    assert np.iscomplexobj(wrong.gain) and np.abs(wrong.gain[wrong.active] - 1).max() > 1e-3


def test_lines_of_sight_keep_their_directions():
    channel = Antennas(antennas=8, rician=1e6)
    first, later = channel.channels(5, 1, 1), channel.channels(5, 1, 9)
    np.testing.assert_allclose(first, later, atol=0.01)
    np.testing.assert_allclose(np.abs(first), 1, atol=0.01)
    steps = first[:, 1:] / first[:, :-1]
    np.testing.assert_allclose(steps, steps[:, :1].repeat(7, axis=1), atol=0.02)  # a plane wave


@pytest.mark.parametrize(
    "wrong",
    [
        {"antennas": 0},
        {"combiner": "best"},
        {"threshold": 0.0},
        {"rician": -1.0},
        {"csi_error": -1.0},
        {"noise_var": -1.0},
    ],
)
def test_bad_parameters_are_named(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} = "):
        Antennas(**wrong)
