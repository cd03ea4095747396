"""Power control and energy; policies that give up a part of the mean where that saves more noise."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airfeel.radio.antennas import Antennas
from airfeel.radio.cell import Cell
from airfeel.radio.channels import FadingMAC, GaussianMAC
from airfeel.radio.link import Link
from airfeel.radio.power import (
    EnergyExceeded,
    EqualPower,
    LeastError,
    Ledger,
    LongTermPower,
    Offer,
    Selection,
    worth,
)
from airfeel.radio.response import Response
from airfeel.registry import POLICIES, SCHEMES
from airfeel.streams import stream
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting

SEEDS = st.integers(0, 2**32 - 1)
RAYLEIGH = np.random.default_rng(0).standard_normal((2, 3, 7, 30))
OFFSETS = {"phase_error": 0.1, "timing_error": 0.2, "carrier_error": 0.001}
WEIGHTS = np.array([3.0, 1.0, 2.0, 2.0, 1.0, 4.0, 1.0]) / 14


@pytest.mark.parametrize("policy", [EqualPower(1.0), LongTermPower(1.0)])
def test_nothing_to_send_means_no_alpha(policy):
    assert policy.alpha(np.zeros(3), Ledger.open(3)) is None
    assert policy.alpha(np.array([0.0, 5e-324]), Ledger.open(2)) is None  # its scale would overflow


@given(st.integers(0, 2**32 - 1))
def test_long_term_power_holds_at_every_prefix_and_never_sends_weaker(seed):
    rng = np.random.default_rng(seed)
    equal, saving = EqualPower(2.0), LongTermPower(2.0)
    ledger = Ledger.open(4)
    for t in range(1, 30):
        demand = rng.exponential(size=4) * (rng.random(4) < 0.7)
        alpha = saving.alpha(demand, ledger)
        if alpha is None:
            alpha = 0.0
            assert not demand.any()
        else:
            assert alpha >= equal.alpha(demand, ledger) * (1 - 1e-12)
        ledger = ledger.charge(alpha * demand, saving.power)  # raises where (7) fails
        assert (ledger.spent <= t * 2.0 * (1 + 1e-9)).all()


def test_the_audit_stops_a_device_that_would_exceed_p():
    ledger = Ledger.open(2).charge(np.array([1.0, 0.5]), 1.0)
    with pytest.raises(EnergyExceeded, match=r"device 0 would have spent 2\.01 after 2 rounds"):
        ledger.charge(np.array([1.01, 1.5]), 1.0)
    with pytest.raises(EnergyExceeded, match="device 1"):
        ledger.charge(np.array([0.0, np.nan]), 1.0)
    assert ledger.charge(np.array([1.0, 1.5]), 1.0).rounds == 2


def draw(seed, devices=6, silent=0.2):
    rng = np.random.default_rng(seed)
    norm = rng.exponential(size=devices) * (rng.random(devices) >= silent)
    weights = rng.dirichlet(np.ones(devices))
    demand = (devices * weights * norm) ** 2 * 10.0 ** rng.uniform(-2, 5, devices)
    return Offer(demand, weights, norm, float(10.0 ** rng.uniform(-4, 2)))


def error(offer, share, alpha):
    return (worth(offer) @ (1 - share)) ** 2 + offer.noise / alpha


@given(SEEDS)
def test_selection_finds_the_best_of_all_subsets(seed):
    offer, policy = draw(seed), Selection(3.0)
    able = np.flatnonzero(offer.demand)
    grant = policy.choose(offer, Ledger.open(6))
    if not len(able):
        assert grant is None
        return
    assert set(grant.share) <= {0.0, 1.0} and (grant.share[offer.demand == 0] == 0).all()
    assert (grant.alpha * grant.share**2 * offer.demand).max() == pytest.approx(3.0)
    best = np.inf
    for count in range(1, len(able) + 1):
        for group in combinations(able, count):
            share = np.zeros(6)
            share[list(group)] = 1
            share[offer.demand == 0] = 1  # nothing is missing of those
            best = min(best, error(offer, share, 3.0 / offer.demand[list(group)].max()))
    found = np.where(offer.demand == 0, 1, grant.share)
    assert error(offer, found, grant.alpha) <= best * (1 + 1e-9)


@given(SEEDS)
def test_the_least_error_is_that_of_a_fine_search(seed):
    offer, policy = draw(seed), LeastError(3.0)
    grant = policy.choose(offer, Ledger.open(6))
    able = offer.demand > 0
    if not able.any():
        assert grant is None
        return
    energy = grant.alpha * grant.share**2 * offer.demand
    assert (energy <= 3.0 * (1 + 1e-12)).all() and energy.max() == pytest.approx(3.0)
    edges = 3.0 / offer.demand[able]
    alphas = np.geomspace(edges.min() / 10, edges.max(), 20_001)  # somebody sends all of its signal
    with np.errstate(divide="ignore"):
        shares = np.minimum(1, np.sqrt(3.0 / (alphas[:, None] * offer.demand)))
    lost = ((1 - shares) @ worth(offer)) ** 2 + offer.noise / alphas
    found = np.where(able, grant.share, 1)
    assert error(offer, found, grant.alpha) <= lost.min() * (1 + 1e-9)


@pytest.mark.parametrize("kind", [Selection, LeastError])
def test_without_noise_nobody_is_left_out(kind):
    offer = Offer(np.array([1.0, 1e7]), np.array([0.5, 0.5]), np.ones(2), 0.0)
    np.testing.assert_allclose(kind(1.0).choose(offer, Ledger.open(2)).share, 1)
    assert kind(1.0).choose(Offer(np.zeros(2), offer.weights, np.zeros(2), 1.0), Ledger.open(2)) is None


def test_a_backlog_does_not_let_far_devices_in():
    demand, weights = np.array([1.0, 1.0, 1e6]), np.full(3, 1 / 3)
    for backlog in (1.0, 30.0):
        offer = Offer(demand * [1, 1, backlog**2], weights, np.array([1.0, 1.0, backlog]), 1e-3)
        assert Selection(1.0).choose(offer, Ledger.open(3)).share.tolist() == [1, 1, 0]


@pytest.mark.parametrize("policy", POLICIES.names())
@pytest.mark.parametrize(
    "channel",
    [
        GaussianMAC(1.0, **OFFSETS),
        FadingMAC(threshold=0.6, csi_error=0.02, **OFFSETS),
        Cell(shadowing_db=15.0, reference_db=90.0, **OFFSETS),
        Antennas(csi_error=0.02, **OFFSETS),
        Response(RAYLEIGH[0] + 1j * RAYLEIGH[1], **OFFSETS),
    ],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.parametrize("name", ["turbo_cs", "a_dsgd", "common_k", "low_rank", "error_free", "d_dsgd"])
def test_the_audit_holds_and_nothing_is_lost(name, channel, policy):
    if (name, type(channel)) == ("a_dsgd", Response):
        return  # AMP wants the same noise in all symbols
    scheme, air = SCHEMES.get(name).build({}), Radio(channel, POLICIES.get(policy).build({"power": 500.0}))
    rng = np.random.default_rng(0)
    rounds, sending = rng.standard_normal((8, 7, 300)) ** 3, rng.random((8, 7)) < 0.8
    state = begin(scheme, {"theta": (30, 10)}, Setting(7, 90, power=500.0, noise_var=0.01))
    arrived = np.zeros(300)
    for t, g in enumerate(rounds, start=1):
        options = {"seed": 3, "round": t, "sending": sending[t - 1]}
        result, state = carry(scheme, air, state, g, WEIGHTS, **options)  # charges, which audits
        assert not (result.active & ~sending[t - 1]).any()
        assert (state.ledger.spent <= 500.0 * t * (1 + 1e-9)).all()
        assert (result.energy[~result.active] == 0).all()
        arrived += result.truth
    scale = np.abs(rounds).sum(axis=0).max()
    np.testing.assert_allclose(
        arrived + WEIGHTS @ state.memory["error"], WEIGHTS @ rounds.sum(axis=0), atol=1e-12 * scale
    )


class Stills:
    """Path gains over many decibel, no fading."""

    noise_var = 1.0

    def __init__(self, losses):
        self.cost = 10 ** (np.asarray(losses) / 10)

    def link(self, num_devices, symbols, seed, round):
        return Link(np.ones(num_devices, bool), self.cost, np.ones(num_devices), 1.0)


def relative_error(policy, seed, sending=None):
    """Return the error against the mean of all devices, in one round over 70 dB of path loss."""
    devices, size = 25, 4000
    rng, weights = stream(seed, "test"), np.full(devices, 1 / devices)
    common = rng.standard_normal(size) * (rng.random(size) < 0.05)
    g = common * (1 + 0.1 * rng.standard_normal((devices, size)))
    scheme = SCHEMES.get("turbo_cs").build({"sparsity": 0.05})
    state = begin(scheme, {"theta": (size,)}, Setting(devices, size // 2))
    air = Radio(Stills(np.linspace(-30, 40, devices)), policy(2000.0))
    result, _ = carry(scheme, air, state, g, weights, seed=seed, round=1, sending=sending)
    return np.sum((result.mean - g.mean(axis=0)) ** 2) / np.sum(g.mean(axis=0) ** 2)


def test_over_70_db_no_choice_of_far_devices_to_leave_out_is_better():
    """Mean over seeds: both policies against every number of devices heard, and against all of them."""

    def mean(policy, **options):
        return 10 * np.log10(np.mean([relative_error(policy, seed, **options) for seed in range(4)]))

    cut = [mean(EqualPower, sending=np.arange(25) < heard) for heard in (5, 8, 11, 14, 17, 20, 25)]
    assert max(mean(Selection), mean(LeastError)) < min(cut) + 0.5
    assert cut[-1] > min(cut) + 3  # everybody: the weakest device's noise


@pytest.mark.parametrize("policy", POLICIES.names())
@pytest.mark.parametrize("power", [0.0, -1.0, np.inf, 1.7e308, "much"])
def test_power_must_be_positive(policy, power):
    with pytest.raises(ValueError, match="power = "):
        POLICIES.get(policy).target(power)
