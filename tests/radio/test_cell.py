"""A cell: who is where, what that costs, and how gains drift."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import j0

import airfeel as af
from airfeel.radio.cell import Cell
from airfeel.radio.fading import FadingMAC
from airfeel.radio.gains import drifting

MANY = 4000
SIGNIFICANCE = 1e-4


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


def test_the_path_is_the_same_in_all_rounds_and_for_fewer_devices():
    cell = Cell()
    np.testing.assert_array_equal(cell.path_gains(3, 7), cell.path_gains(9, 7)[:3])
    assert not np.array_equal(cell.path_gains(3, 7), cell.path_gains(3, 8))
    few, many = cell.link(3, 10, 7, 2), cell.link(9, 10, 7, 2)
    np.testing.assert_array_equal(few.cost, many.cost[:3])


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


def test_by_default_rounds_are_independent():
    h = np.array([Cell().gains(MANY, 5, t) for t in (1, 2)])
    assert abs(np.mean(h[0].conj() * h[1])) < 5 / np.sqrt(MANY)


def test_a_long_way_back_is_forgotten():
    """Draws older than those that count are left out, and the power stays one."""
    late = drifting((MANY,), 1, "fading", 400, 0.5)
    assert np.mean(np.abs(late) ** 2) == pytest.approx(1, abs=5 / np.sqrt(MANY))
    before = drifting((MANY,), 1, "fading", 399, 0.5)
    assert np.mean(before.conj() * late) == pytest.approx(0.5, abs=5 / np.sqrt(MANY))


def test_what_devices_misjudge_turns_and_scales_their_symbols():
    cell = Cell(losses_db=(90.0,) * 3, csi_error=0.05, threshold=0.2)
    link, h = cell.link(3, 8, 1, 1), cell.gains(3, 1, 1)
    assert np.iscomplexobj(link.gain)
    np.testing.assert_allclose(np.abs(link.gain[link.active]) ** 2, (np.abs(h) ** 2 * link.cost)[link.active])


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_var": -1.0},
        {"radius": 0.0},
        {"nearest": 500.0},
        {"threshold": 0.0},
        {"loss_db": math.nan},
        {"doppler": -0.1},
        {"losses_db": (1.0, math.inf)},
        {"shadowing_db": -3.0},
        {"reference_db": 1e9},
    ],
)
def test_bad_parameters_are_named(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        Cell(**wrong)


def test_a_list_of_losses_has_one_for_each_device():
    with pytest.raises(ValueError, match=r"losses_db = \[90.0\]: must have one entry for each of 2 devices"):
        Cell(losses_db=(90.0,)).link(2, 4, 1, 1)


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
