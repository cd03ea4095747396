"""What the channel's noise guarantees: conversions, and the norm limit that it rests on, by simulation."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from airfeel.cli import main
from airfeel.radio.antennas import Antennas
from airfeel.radio.cell import Cell
from airfeel.radio.channels import FadingMAC, GaussianMAC
from airfeel.radio.power import FixedAlpha
from airfeel.registry import SCHEMES
from airfeel.theory import privacy
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting

POWER, WEIGHTS = 20.0, np.array([3.0, 1.0, 2.0, 2.0, 1.0, 4.0, 1.0]) / 14
CHANNELS = [GaussianMAC(), FadingMAC(), Cell(losses_db=tuple(range(80, 115, 5))), Antennas()]


@pytest.mark.parametrize("power", [1e-4, 0.007, 0.1, 10.0, 500.0])
@pytest.mark.parametrize("rounds", [1, 300])
def test_epsilon_is_that_of_the_exact_curve_or_more(power, rounds):
    """Of a Gaussian mechanism the chance delta that belongs to epsilon is known exactly."""
    found, mu = privacy.epsilon(power, rounds), math.sqrt(rounds * power)
    exact = norm.cdf(mu / 2 - found / mu) - math.exp(found + norm.logcdf(-mu / 2 - found / mu))
    assert exact <= privacy.DELTA
    assert privacy.power_for(found, rounds) == pytest.approx(power)
    assert privacy.epsilon(power * 4, rounds, noise_var=4.0) == pytest.approx(found)


def rounds(name, channel, limit, sending=None):
    """Yield rounds of devices whose updates differ in length by a factor of a thousand."""
    rng, scheme = np.random.default_rng(1), SCHEMES.get(name).build({})
    air = Radio(channel, FixedAlpha(POWER, limit))
    state = begin(scheme, {"theta": (30, 10)}, Setting(7, 90, power=POWER, rounds=6))
    for t in range(1, 7):
        updates = rng.standard_normal((7, 300)) * 10.0 ** rng.uniform(-2, 1, (7, 1))
        found, state = carry(scheme, air, state, updates, WEIGHTS, seed=4, round=t, sending=sending)
        yield t, found


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("name", ["scheduled", "common_k", "low_rank", "tsa_ga", "sign_vote"])
def test_nobody_spends_or_arrives_with_more_than_p_and_alpha_never_moves(name, channel):
    most = 0.0
    for t, found in rounds(name, channel, limit=2.0):
        if found.alpha is None:
            continue
        cost = channel.link(7, found.channel_uses, 4, t).cost
        arrived = np.divide(found.energy, cost, out=np.zeros(7), where=found.energy > 0)
        assert found.alpha == pytest.approx(POWER / 2.0**2)
        assert max(found.energy.max(), arrived.max()) <= POWER * (1 + 1e-9)
        most = max(most, found.energy.max(), arrived.max())
    assert most == pytest.approx(POWER)  # somebody was limited


@pytest.mark.parametrize("device", range(7))
def test_without_a_device_what_the_server_sees_moves_by_no_more_than_the_root_of_p(device):
    """With the same noise: a round of ``common_k`` is y, divided by M sqrt(alpha)."""
    _, whole = next(rounds("common_k", GaussianMAC(), 0.5))
    _, without = next(rounds("common_k", GaussianMAC(), 0.5, np.arange(7) != device))
    moved = 7 * math.sqrt(whole.alpha) * float(np.linalg.norm(whole.mean - without.mean))
    assert 0 < moved <= math.sqrt(POWER) * (1 + 1e-9)


def test_the_sentence_has_number_and_conditions(capsys):
    words = ["--quiet", "predict", "--set", "scheme=common_k", "--rounds", "100"]
    assert main(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    found = privacy.epsilon(500.0, 100)
    assert f"The noise hides no device (epsilon {found:,.0f} at delta 1e-05 in 100 rounds" in out
    power = privacy.power_for(privacy.STRICT, 100)
    devices = privacy.devices_for(25**2 * 500 / 785, 785, power)
    assert f"epsilon 8 takes P = {power:.4g}, and then {devices:,} devices for the same SNR" in out
    small = ["--set", "uplink.policy=fixed", "--power", "0.02", "--devices", "400"]
    assert main([*words, *small]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "differential privacy of epsilon 7.7" in out and "as alpha is fixed, no more than P" in out
    assert main([*words, "--snr-db", "60"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "epsilon 8 at the same SNR is out of reach with up to 10,000 devices" in out
    assert main([*words, "--set", "uplink.policy=fixed", "--set", "uplink.limit=2"]) == 2
    assert "uplink.limit = 2.0: must not be given" in capsys.readouterr().err
