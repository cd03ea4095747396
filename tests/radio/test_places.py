"""A cell and several antennas: who is where, what that costs, who is served; and example scripts."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import j0

import airfeel as af
from airfeel.radio import antennas as antennas_module
from airfeel.radio.antennas import Antennas, fair, principal
from airfeel.radio.cell import Cell
from airfeel.radio.channels import FadingMAC, complex_normal, drifting
from airfeel.radio.response import Response

MANY = 4000
SIGNIFICANCE = 1e-4
EXAMPLES = Path(__file__).parents[2] / "examples"


def drawn_channels(devices, antennas, seed):
    return complex_normal((devices, antennas), seed, "test", 0)


def test_a_path_computed_by_hand():
    """34 dB at 1 m and 3.53 decades: 104.6 dB at 100 m, 115.2 dB at 200 m."""
    cell = Cell(nearest=100.0, radius=100.0, shadowing_db=0.0)
    np.testing.assert_allclose(cell.path_gains(3, 1), 10 ** (-104.6 / 10), rtol=1e-12)
    assert Cell().reference_gain == pytest.approx(10 ** (-(34 + 35.3 * math.log10(200)) / 10))
    # A device at the edge with |h| = 1 pays 1 per unit; one with 20 dB less loss a hundredth.
    cell = Cell(losses_db=(120.0, 100.0), reference_db=120.0, threshold=1e-3)
    gains, link = cell.gains(2, 1, 1), cell.link(2, 10, 1, 1)
    np.testing.assert_allclose(link.cost * np.abs(gains) ** 2, [1.0, 0.01])
    assert Cell(losses_db=(80.0, 100.0)).reference_gain == pytest.approx(1e-10)


def test_devices_lie_evenly_in_the_ring_with_shadows_of_their_own():
    still = Cell(nearest=20.0, radius=300.0, shadowing_db=0.0)
    loss = -10 * np.log10(still.path_gains(MANY, 3))
    distance = 10 ** ((loss - still.loss_db) / (10 * still.exponent))
    area = (distance**2 - 20.0**2) / (300.0**2 - 20.0**2)
    assert stats.kstest(area, stats.uniform.cdf).pvalue > SIGNIFICANCE
    shadowed = -10 * np.log10(Cell(nearest=20.0, radius=300.0, shadowing_db=6.0).path_gains(MANY, 3))
    assert stats.kstest(shadowed - loss, stats.norm(scale=6.0).cdf).pvalue > SIGNIFICANCE
    for cell in (still, Cell(nearest=200.0)):  # positions alone, shadows alone
        assert not np.array_equal(cell.path_gains(3, 3), cell.path_gains(3, 4))


def test_without_path_loss_it_is_fading():
    cell = Cell(losses_db=(100.0,) * 6, reference_db=100.0, rician=2.0)
    for t in (1, 2, 3):
        flat, link = FadingMAC(rician=2.0).link(6, 8, 1, t), cell.link(6, 8, 1, t)
        np.testing.assert_array_equal(link.active, flat.active)
        np.testing.assert_allclose(link.cost, flat.cost)
        np.testing.assert_allclose(link.gain, flat.gain)


@pytest.mark.parametrize("doppler", [0.0, 0.05, 0.3])
def test_rounds_are_correlated_as_jakes_says(doppler):
    cell, rounds = Cell(doppler=doppler), 12
    h = np.array([cell.gains(MANY, 5, t) for t in range(1, rounds + 1)])
    for t in (0, rounds - 1):
        assert stats.kstest(np.abs(h[t]) ** 2, stats.expon.cdf).pvalue > SIGNIFICANCE
    rho = j0(2 * np.pi * doppler)
    for lag in (1, 3):
        found = np.mean(h[lag:].conj() * h[:-lag], axis=1)
        np.testing.assert_allclose(found, rho**lag, atol=5 / np.sqrt(MANY))


def test_a_long_way_back_is_forgotten():
    """Draws older than those that count are left out, and the power stays one."""
    late = drifting((MANY,), 1, "fading", 400, 0.5)
    assert np.mean(np.abs(late) ** 2) == pytest.approx(1, abs=5 / np.sqrt(MANY))
    before = drifting((MANY,), 1, "fading", 399, 0.5)
    assert np.mean(before.conj() * late) == pytest.approx(0.5, abs=5 / np.sqrt(MANY))


def test_a_configuration_names_cell_and_policy():
    keys = {
        "channel": {"kind": "cell", "losses_db": [80.0, 100], "doppler": 0.1},
        "uplink": {"policy": "mse"},
    }
    config = af.load_config(None, keys)
    assert config.channel.losses_db == (80.0, 100.0)
    with pytest.raises(ValueError, match=r"channel.losses_db"):
        af.load_config(None, {"channel": {"kind": "cell", "losses_db": ["far"]}})
    with pytest.raises(ValueError, match="uplink.policy = 'msee'"):
        af.load_config(None, {"uplink": {"policy": "msee"}})


def test_a_list_of_losses_has_one_for_each_device():
    with pytest.raises(ValueError, match=r"losses_db = \[90.0\]: must have one entry for each of 2 devices"):
        Cell(losses_db=(90.0,)).link(2, 4, 1, 1)


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
        h = drawn_channels(25, antennas, seed)
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
    drawn = [drawn_channels(25, antennas, seed) for seed in range(4)]
    assert np.mean([least(h, principal(h)) for h in drawn]) < 0.5 * np.mean(gains)


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


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sionna_writes_responses_that_a_channel_reads(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sionna", reason="needs Sionna (pip install sionna-no-rt)")
    path = tmp_path / "street.npz"
    monkeypatch.setattr("sys.argv", ["sionna_responses.py", str(path), "--devices", "4", "--rounds", "2"])
    load("sionna_responses").main()
    assert "(2, 4, 1680)" in capsys.readouterr().out
    channel = Response(str(path))
    gains = 10 * np.log10(channel.path_gains())
    assert (gains > -200).all() and (gains < -40).all()  # a street, in decibel
    first, second = (channel.responses(4, 1680, 1, t) for t in (1, 2))
    assert not np.allclose(first, second)
    link = channel.link(4, 785, 1, 1)
    assert link.active.shape == (4, 785) and link.active.mean() > 0.5
