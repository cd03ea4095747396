"""The planner: its reference model, its answers by prediction and by simulation, and what it refuses."""

import math

import numpy as np
import pytest

import airfeel as af
from airfeel.schemes.a_dsgd import ADsgd
from airfeel.schemes.tsa_ga import IndependentTurboCS
from airfeel.theory.planner import (
    ForecastCourse,
    LinkBudget,
    LinkForecast,
    LinkPlan,
    Method,
    solve_power,
    solve_rows,
)
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting
from modeldata import Model, run, stream_of

CHAIN = af.ChainParams(activity=0.1, p01=0.02, beta=0.05)
QUICK = LinkPlan(CHAIN, rounds=16, samples=8000)
LINK = LinkBudget(size=7850, rows=1570, devices=25, power=200.0)


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize(
    ("scheme", "method"),
    [(IndependentTurboCS(0.1), Method("joint", False, False)), (ADsgd(0.1), Method(denoiser="soft"))],
)
def test_reference_model_is_the_noise_of_equal_devices(scheme, method, seed):
    """Devices with one gradient, through the real uplink: sigma^2 = sigma_e^2 s lambda gamma / (M^2 P).

    ||A g||^2 comes from 1000 rows, so it is known to sqrt(2/1000), and four times that is allowed.
    """
    size, devices = 4000, 5
    rng = np.random.default_rng(seed)
    gradient = (rng.permutation(np.arange(size) < 400) * rng.choice([-1, 1], size)).astype(np.float32)
    state = begin(scheme, {"theta": (size,)}, Setting(devices, symbols=1000))
    gradients = np.tile(gradient, (devices, 1))
    weights = np.full(devices, 1 / devices)
    aggregate, _ = carry(scheme, Radio(), state, gradients, weights, seed=seed, round=1)
    link = LinkBudget(size, 1000, devices, power=500.0)
    prediction = LinkPlan(CHAIN, method, rounds=1, samples=800).predict(link)
    # tau of the first iteration, less what the signal adds to it: (48), or its relative for unit columns.
    first, v = prediction.tau[0, 0], prediction.v[0, 0]
    planned = first - v / 0.25 if method.denoiser else 0.25 * first - 0.75 * v
    assert aggregate.noise_var == pytest.approx(planned, rel=4 * np.sqrt(2 / 1000))


def test_bandwidth_keeps_energy_or_snr():
    assert LINK.with_rows(785).power == LINK.power
    assert LINK.with_rows(785, "snr").snr == pytest.approx(LINK.snr)
    assert LINK.with_rows(785, "snr").power == pytest.approx(LINK.power / 2)
    assert LINK.with_snr(7.0).snr == pytest.approx(7.0)
    assert LinkBudget(excess=2.0).snr == pytest.approx(LinkBudget().snr / 2)


@pytest.mark.long
@pytest.mark.parametrize("hold", ["energy", "snr"])
def test_fewest_rows_reach_the_target_and_fewer_do_not(hold):
    found = solve_rows(QUICK, LINK, -14.0, hold)
    assert QUICK.steady_db(found) <= -14.0
    assert QUICK.steady_db(found.with_rows(math.floor(found.rows / 1.02), hold)) > -14.0


def test_least_power_reaches_the_target_and_less_does_not():
    told = []
    found = solve_power(QUICK, LINK, -14.0, say=told.append)
    assert QUICK.steady_db(found) <= -14.0 < QUICK.steady_db(found.with_snr(found.snr / 1.02))
    assert told and "dB" in told[0]


@pytest.mark.parametrize(
    "method", [Method(denoiser="soft"), Method(denoiser="mmse"), Method("joint", False, False)]
)
def test_every_method_can_be_planned(method):
    plan = LinkPlan(CHAIN, method, rounds=2, samples=4000)
    found = solve_rows(plan, LINK, -6.0)
    assert plan.steady_db(found) <= -6.0


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
        (
            lambda: LinkBudget(size=10**400),
            ["size = a whole number of about 401 digits", "<= 1000000000000000"],
        ),
        (lambda: LinkBudget(power=1e308), ["power = 1e+308", "<= 1e+150"]),
        (lambda: LINK.with_snr(1e308), ["power = inf"]),
    ],
)
def test_impossible_targets_and_bad_links_are_named(solve, words):
    with pytest.raises(ValueError) as caught:
        solve()
    assert all(word in str(caught.value) for word in words)


class Flat(LinkForecast):
    """A forecast of the same error for every link."""

    name = "by decree"

    basis = ""

    def __init__(self, level):
        self.level = level

    def course(self, link):
        return ForecastCourse([1], np.array([self.level]))


@pytest.mark.parametrize("solve", [solve_rows, solve_power])
def test_a_target_counts_in_the_decimals_that_are_told(solve):
    """Nobody is told that -15 dB are out of reach at -15.0 dB."""
    solve(Flat(-14.96), LINK, -15.0)
    solve(Flat(-14.96), LINK, -15.04)
    with pytest.raises(ValueError, match=r"target_nmse = -15 dB: out of reach.* -14\.9 dB"):
        solve(Flat(-14.94), LINK, -15.0)


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
    plan = LinkPlan(chain, rounds=60, samples=40_000)
    found = solve(plan, link, target)
    reached = simulated_db(chain, found, rounds=60, seeds=5)
    less = (
        found.with_rows(round(0.9 * found.rows)) if solve is solve_rows else found.with_snr(0.9 * found.snr)
    )
    print(f"s = {found.rows}, P = {found.power:.4g}: target {target} dB, simulated {reached:.2f} dB")
    assert reached < target + 0.5
    assert plan.steady_db(less) > target
