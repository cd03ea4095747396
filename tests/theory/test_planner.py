"""The planner: its reference model, its answers by prediction and by simulation, and what it refuses."""

import math

import numpy as np
import pytest

import airfeel as af
from airfeel.aggregators import OverTheAir
from airfeel.theory.planner import LinkBudget, Method, Plan, solve_power, solve_rows
from modeldata import Model, run, stream_of

CHAIN = af.ChainParams(activity=0.1, p01=0.02, beta=0.05)
QUICK = Plan(CHAIN, rounds=16, samples=8000)
LINK = LinkBudget(size=7850, rows=1570, devices=25, power=200.0)


def test_reference_model_is_the_noise_of_equal_devices():
    """Devices with one gradient, through the real uplink: sigma^2 = sigma_e^2 s lambda gamma / (M^2 P)."""
    size, devices = 4000, 5
    gradient = np.zeros(size)
    gradient[:400] = np.random.default_rng(0).standard_normal(400)
    scheme = OverTheAir(af.TurboCS(activity=0.1), ratio=0.25, sparsity=0.1)
    gradients = np.tile(gradient, (devices, 1)).astype(np.float32)
    aggregate, _ = scheme.aggregate(
        scheme.init(devices, size), gradients, np.full(devices, 1 / devices), seed=3, round=1
    )
    link = LinkBudget(size, 1000, devices, power=500.0)
    assert aggregate.noise_var == pytest.approx(np.mean(gradient**2) / link.snr, rel=0.15)


def test_bandwidth_keeps_energy_or_snr():
    assert LINK.with_rows(785).power == LINK.power
    assert LINK.with_rows(785, "snr").snr == pytest.approx(LINK.snr)
    assert LINK.with_rows(785, "snr").power == pytest.approx(LINK.power / 2)
    assert LINK.with_snr(7.0).snr == pytest.approx(7.0)
    assert LinkBudget(excess=2.0).snr == pytest.approx(LinkBudget().snr / 2)


@pytest.mark.parametrize("hold", ["energy", "snr"])
def test_fewest_rows_reach_the_target_and_fewer_do_not(hold):
    found = solve_rows(QUICK, LINK, -14.0, hold)
    assert QUICK.steady_db(found) <= -14.0
    assert QUICK.steady_db(found.with_rows(round(0.9 * found.rows), hold)) > -14.0


def test_least_power_reaches_the_target_and_less_does_not():
    told = []
    found = solve_power(QUICK, LINK, -14.0, told=told.append)
    assert QUICK.steady_db(found) <= -14.0 < QUICK.steady_db(found.with_snr(0.9 * found.snr))
    assert told and "dB" in told[0]


@pytest.mark.parametrize(
    "method", [Method(denoiser="soft"), Method(denoiser="mmse"), Method("joint", False, False)]
)
def test_every_method_can_be_planned(method):
    plan = Plan(CHAIN, method, rounds=2, samples=4000)
    found = solve_rows(plan, LINK, -6.0)
    assert plan.steady_db(found) <= -6.0


def test_memory_needs_less_bandwidth():
    alone = Plan(CHAIN, Method("joint", False, False), rounds=2, samples=8000)
    assert solve_rows(QUICK, LINK, -12.0).rows < 0.8 * solve_rows(alone, LINK, -12.0).rows


@pytest.mark.parametrize(
    ("solve", "words"),
    [
        (lambda: solve_rows(QUICK, LINK, -60.0), ["target_nmse = -60", "out of reach", "raise the power"]),
        (lambda: solve_power(QUICK, LINK.with_rows(80), -40.0), ["target_nmse = -40", "use more rows"]),
        (lambda: solve_rows(QUICK, LINK, 1.0), ["target_nmse = 1.0", "< 0"]),
        (lambda: solve_power(QUICK, LINK, math.nan), ["target_nmse = nan"]),
        (lambda: solve_rows(QUICK, LINK, -10.0, "voltage"), ["hold = 'voltage'"]),
        (lambda: LinkBudget(rows=0), ["rows = 0"]),
        (lambda: LinkBudget(size=100, rows=101), ["rows = 101"]),
        (lambda: LinkBudget(devices=0), ["devices = 0"]),
        (lambda: LinkBudget(power=-1.0), ["power = -1.0"]),
        (lambda: LinkBudget(channel_noise=0.0), ["channel_noise = 0.0"]),
        (lambda: Method(denoiser="hard"), ["denoiser = 'hard'"]),
    ],
)
def test_impossible_targets_and_bad_links_are_named(solve, words):
    with pytest.raises(ValueError) as caught:
        solve()
    assert all(word in str(caught.value) for word in words)


def simulated_db(chain, link, rounds, seeds):
    """Return the real receiver's steady-state NMSE over the link, in dB."""
    model = Model(
        link.size, link.ratio, chain.activity, chain.p01, chain.beta, 1.0, snr_db=10 * math.log10(link.snr)
    )
    error = power = 0.0
    for seed in range(seeds):
        heard, signals, *_ = stream_of(model, seed + 70, rounds)
        trace = run(model.known(learn=False), heard, signals)
        late = slice(-(rounds // 4), None)
        error, power = error + trace.error[late].sum(), power + trace.power[late].sum()
    return 10 * math.log10(error / power)


def test_simulation_confirms_the_answer():
    found = solve_rows(Plan(CHAIN, rounds=24, samples=40_000), LINK, -15.0)
    assert simulated_db(CHAIN, found, rounds=24, seeds=3) < -15.0 + 0.5


CASES = [
    (af.ChainParams(0.05, 0.01, 0.01), LinkBudget(), -15.0),
    (af.ChainParams(0.2, 0.005, 0.005), LinkBudget(), -15.0),
    (af.ChainParams(0.1, 0.1, 0.1), LinkBudget(rows=2000, power=50.0), -10.0),
    (af.ChainParams(0.03, 0.02, 0.3), LinkBudget(), -20.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("solve", [solve_rows, solve_power])
@pytest.mark.parametrize(("chain", "link", "target"), CASES)
def test_simulation_confirms_many_answers(chain, link, target, solve):
    plan = Plan(chain, rounds=60, samples=40_000)
    found = solve(plan, link, target)
    reached = simulated_db(chain, found, rounds=60, seeds=5)
    less = (
        found.with_rows(round(0.9 * found.rows)) if solve is solve_rows else found.with_snr(0.9 * found.snr)
    )
    print(f"s = {found.rows}, P = {found.power:.4g}: target {target} dB, simulated {reached:.2f} dB")
    assert reached < target + 0.5
    assert plan.steady_db(less) > target
