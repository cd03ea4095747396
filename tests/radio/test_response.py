"""Responses measured or computed elsewhere, from arrays, functions and files."""

import re

import numpy as np
import pytest

from airfeel.radio.channels import FadingMAC
from airfeel.radio.response import Response


def draw(rounds=3, devices=4, elements=10, seed=0, spread=0.0):
    """Rayleigh gains in every element, the devices' mean gains over ``spread`` decibel."""
    re, im = np.random.default_rng(seed).standard_normal((2, rounds, devices, elements))
    level = 10 ** (-np.linspace(0, spread, devices) / 20) if spread else np.ones(devices)
    return ((re + 1j * im) / np.sqrt(2) * level[:, None]).astype(np.complex64)


def test_two_symbols_share_an_element_and_weak_elements_are_silent():
    h = draw()
    channel = Response(h, threshold=0.5, reference_db=0.0)
    link = channel.link(4, 19, seed=1, round=2)
    assert link.active.shape == link.cost.shape == (4, 19)
    strength = np.sqrt(np.mean(np.abs(h[1].astype(complex)) ** 2, axis=1))
    for f in range(19):
        gain = np.abs(h[1, :, f // 2])
        active = gain >= 0.5 * strength
        np.testing.assert_array_equal(link.active[:, f], active)
        np.testing.assert_allclose(link.cost[:, f], np.where(active, 1 / gain**2, 0), rtol=1e-5)
    assert not np.iscomplexobj(link.gain) and (link.gain[link.active] == 1).all()
    assert 0.05 < np.mean(~link.active) < 0.5


def test_rounds_and_elements_come_round_again():
    h = draw(rounds=3, elements=10)
    channel = Response(h)
    np.testing.assert_array_equal(channel.responses(4, 10, 1, 4), h[0])
    longer = channel.responses(2, 25, 1, 2)
    np.testing.assert_array_equal(longer[:, 20:], h[1, :2, :5])


def test_levels_refer_to_the_mean_loss_or_to_a_given_one():
    h = 1e-4 * draw(elements=400, spread=40.0)
    gains = np.mean(np.abs(h.astype(complex)) ** 2, axis=(0, 2))
    channel = Response(h)
    np.testing.assert_allclose(channel.path_gains(), gains, rtol=1e-5)
    assert channel.reference_loss_db == pytest.approx(-10 * np.log10(gains).mean(), abs=1e-3)
    costs = [Response(h, reference_db=ref).link(4, 800, 1, 1).cost for ref in (100.0, 110.0)]
    np.testing.assert_allclose(costs[0], 10 * costs[1], rtol=1e-9)
    level = Response(h, equalise=True)
    spread = np.mean(np.abs(np.array([level.responses(4, 400, 1, t) for t in (1, 2, 3)])) ** 2, axis=(0, 2))
    np.testing.assert_allclose(spread, 1, rtol=1e-5)


def test_a_function_draws_round_by_round():
    fading = FadingMAC()

    def flat(num_devices, elements, seed, round):
        return np.repeat(fading.gains(num_devices, seed, round)[:, None], elements, axis=1)

    channel = Response(flat, threshold=1e-9)
    link, plain = channel.link(5, 8, 1, 3), FadingMAC(threshold=1e-9).link(5, 8, 1, 3)
    np.testing.assert_allclose(link.cost, np.repeat(plain.cost[:, None], 8, axis=1))
    with pytest.raises(ValueError, match=r"must return finite responses of shape \(5, 4\), not \(4,\)"):
        Response(lambda m, e, seed, t: np.ones(e)).link(5, 8, 1, 1)
    with pytest.raises(ValueError, match="has no mean gains"):
        channel.path_gains()


def test_what_devices_misjudge_turns_pairs_of_symbols():
    h = draw(devices=3)
    channel = Response(h, csi_error=0.05, threshold=0.1)
    link = channel.link(3, 20, 1, 1)
    assert np.iscomplexobj(link.gain) and np.abs(link.gain[link.active] - 1).max() > 1e-3
    wide = Response(draw(devices=3, elements=4000), csi_error=0.05, threshold=0.5).link(3, 8000, 1, 1)
    error = (wide.gain - 1)[wide.active] / np.sqrt(wide.cost[wide.active])  # (h - h^) times a constant
    assert np.mean(np.abs(error) ** 2) == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ({"a": np.ones((1, 2, 3)), "b": np.ones((1, 2, 3))}, "must hold one array, or one named responses"),
        ({"h": np.ones((2, 3))}, r"must hold numbers \(rounds, devices, elements\)"),
        ({"h": np.ones((0, 2, 3))}, "at least one of each"),
        ({"h": np.full((1, 2, 3), np.nan)}, "finite numbers only"),
        ({"h": np.full((1, 2, 3), "x")}, "must hold numbers"),
        ({"h": np.array([[[1.0], [0.0]]])}, "nothing but zeros for device 1"),
    ],
)
def test_files_that_hold_no_responses_are_refused(tmp_path, content, rule):
    path = str(tmp_path / "wrong.npz")
    np.savez(path, **content)
    with pytest.raises(ValueError, match=f"source = '{re.escape(path)}': .*{rule}"):
        Response(path).link(1, 4, 1, 1)


def test_what_is_no_file_of_arrays_is_refused(tmp_path):
    (tmp_path / "text.npz").write_text("not an archive")
    np.savez(tmp_path / "pickled.npz", h=np.array([{"a": 1}], dtype=object))
    for name in ("text.npz", "pickled.npz", "missing.npz", "."):
        with pytest.raises(ValueError, match="source = "):
            Response(str(tmp_path / name)).link(1, 4, 1, 1)


def test_more_devices_than_were_recorded_are_refused():
    with pytest.raises(ValueError, match="has responses of 4 devices, and there are 5"):
        Response(draw()).link(5, 4, 1, 1)
    with pytest.raises(ValueError, match="equalise = True: must be false"):
        Response(lambda m, e, seed, t: np.ones((m, e)), equalise=True)
