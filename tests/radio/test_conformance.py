"""What every registered channel must hold, whoever wrote it."""

import numpy as np
import pytest

from airfeel.radio.power import EqualPower
from airfeel.registry import CHANNELS, SCHEMES
from airfeel.uplink.arrive import Radio
from airfeel.uplink.result import begin
from airfeel.uplink.round import carry
from airfeel.uplink.scheme import Setting

NAMES, DEVICES = CHANNELS.names(), 6
RAYLEIGH = np.random.default_rng(0).standard_normal((2, 3, DEVICES, 30))
NEEDS = {"response": {"source": RAYLEIGH[0] + 1j * RAYLEIGH[1]}}
OPTIONS = [{}, {"phase_error": 0.1, "timing_error": 0.2, "carrier_error": 0.001}]


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


@pytest.mark.parametrize("scheme", ["tsa_ga", "common_k", "low_rank", "d_dsgd"])
@pytest.mark.parametrize("name", NAMES)
def test_every_scheme_takes_it_and_nobody_exceeds_its_energy(name, scheme):
    part = SCHEMES.get(scheme).build({})
    air = Radio(build(name, **OPTIONS[1]), EqualPower(500.0))
    state = begin(part, {"theta": (20, 10)}, Setting(DEVICES, 90, power=500.0, noise_var=0.01))
    rounds = np.random.default_rng(1).standard_normal((4, DEVICES, 200)) ** 3
    arrived, weights = np.zeros(200), np.full(DEVICES, 1 / DEVICES)
    for t, g in enumerate(rounds, start=1):
        result, state = carry(part, air, state, g, weights, seed=3, round=t)
        assert np.isfinite(result.mean).all() and (state.ledger.spent <= 500.0 * t * (1 + 1e-9)).all()
        arrived += result.truth
    np.testing.assert_allclose(
        arrived + weights @ state.memory["error"], weights @ rounds.sum(axis=0), atol=1e-9
    )


@pytest.mark.parametrize("name", NAMES)
def test_options_have_help_and_the_name_a_summary(name):
    part = CHANNELS.get(name)
    assert part.summary and all(option.help for option in part.options)
