"""Learning the chains (Algorithm 2): the E-step by brute force, the M-step by numerical maximisation of Q."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from airfeel.beliefs import temporal
from airfeel.beliefs.chains import Amplitude, ChainParams, Message, stationary
from airfeel.beliefs.spike_slab import log_odds, posterior
from airfeel.beliefs.temporal import Evidence
from airfeel.receivers import em
from airfeel.streams import stream
from modeldata import Model, sample_chains
from oracles import amplitude_joint, support_path_probabilities

OLD = ChainParams(activity=0.3, p01=0.2, beta=0.15, variance=1.4)
ROUNDS, COUNT = 4, 12
DEFAULT_NEGLIGIBLE = em.NEGLIGIBLE


@pytest.fixture(autouse=True)
def every_coefficient_counts(monkeypatch):
    """The receiver passes over coefficients of next to no weight; the exact identities below do not."""
    monkeypatch.setattr(em, "NEGLIGIBLE", 0.0)


def random_window(certain=False):
    """Evidence of four rounds about a few coefficients, with the joint laws it stands for.

    Filtered beliefs are computed from the joint laws, so that nothing of the code under test is used.
    """
    rng = stream(5, "em window")
    first, evidence = rng.random(COUNT), rng.random((ROUNDS, COUNT))
    if certain:
        first, evidence = np.ones(COUNT), np.ones((ROUNDS, COUNT))
    precision, shift = rng.exponential(size=(2, ROUNDS, COUNT)) * 3
    mean, variance = rng.standard_normal(COUNT), rng.exponential(size=COUNT)
    supports, amplitudes, window = [], [], []
    for n in range(COUNT):
        messages = list(zip(precision[:, n], shift[:, n], strict=True))
        supports.append([_paths(first[n], evidence[: i + 1, n]) for i in range(ROUNDS)])
        amplitudes.append(
            [
                amplitude_joint(mean[n], variance[n], OLD.beta, OLD.variance, messages[: i + 1])
                for i in range(ROUNDS)
            ]
        )
    for i in range(ROUNDS):
        filtered = np.array([weight @ paths[:, -1] for paths, weight in (s[i] for s in supports)])
        amplitude = Amplitude(
            np.array([a[i][0][-1] for a in amplitudes]), np.array([a[i][1][-1, -1] for a in amplitudes])
        )
        square = amplitude.variance + amplitude.mean**2
        window.append(Evidence(filtered, evidence[i], amplitude, Message(precision[i], shift[i]), square))
    return window, [s[-1] for s in supports], [a[-1] for a in amplitudes]


def _paths(first, evidence):
    return support_path_probabilities(first, 1 - OLD.p01, OLD.p10, evidence)


def q_of_p01(p01, supports):
    """The part of Q (63) that depends on p01, p10 being a parameter of its own."""
    total = 0.0
    for paths, weight in supports:
        before, after = paths[:, :-1], paths[:, 1:]
        total += weight @ np.sum(np.where(before, np.where(after, np.log(1 - p01), np.log(p01)), 0.0), axis=1)
    return total


def q_of_beta(beta, xi, supports, amplitudes, weighted):
    """The part of Q (63) that depends on beta, xi held: E log N(r_i; (1 - beta) r_i-1, beta^2 xi)."""
    total = 0.0
    for (paths, weight), (mean, covariance) in zip(supports, amplitudes, strict=True):
        second = covariance + np.outer(mean, mean)
        for i in range(1, ROUNDS):
            a = 1 - beta
            square = second[i, i] - 2 * a * second[i, i - 1] + a * a * second[i - 1, i - 1]
            both = weight @ (paths[:, i] & paths[:, i - 1]) if weighted else 1.0
            total += both * (-np.log(beta) - square / (2 * beta**2 * xi))
    return total


def maximise(function):
    return minimize_scalar(
        lambda v: -function(v), bounds=(1e-6, 1 - 1e-9), method="bounded", options={"xatol": 1e-11}
    ).x


def test_p01_maximises_q():
    window, supports, _ = random_window()
    learned = em.m_step(em.e_step(window, OLD), OLD)
    assert learned.p01 == pytest.approx(maximise(lambda p: q_of_p01(p, supports)), rel=1e-5)


@pytest.mark.parametrize("certain", [True, False])
def test_beta_maximises_q_with_xi_held(certain):
    # With certain supports all weights are 1, the exact M-step; otherwise each pair counts E[s_i s_i-1].
    window, supports, amplitudes = random_window(certain)
    learned = em.m_step(em.e_step(window, OLD), OLD)
    best = maximise(lambda b: q_of_beta(b, OLD.innovation_var, supports, amplitudes, weighted=not certain))
    assert 0.01 < best < 0.99  # an inner maximum, not the end of the range
    assert learned.beta == pytest.approx(best, rel=1e-5)


def test_activity_and_variance_are_the_weighted_moments():
    window, supports, _ = random_window()
    smoothed = np.array([weight @ paths for paths, weight in supports])
    learned = em.m_step(em.e_step(window, OLD), OLD)
    assert learned.activity == pytest.approx(smoothed.mean())
    squares = np.array([e.square for e in window]).T
    assert learned.variance == pytest.approx(np.sum(smoothed * squares) / smoothed.sum())


def observed_window(model, tau, seed, rounds=25, count=20_000, message="joint"):
    """Filter scalar chains with the true parameters; return the last five rounds and their truth."""
    chain = ChainParams(model.activity, model.p01, model.beta, model.variance)
    rng = stream(seed, "estimating equations")
    support, amplitude = sample_chains(model, rounds, rng, count)
    x = support * amplitude
    belief, window = temporal.Belief(stationary(chain, count)), []
    for x_t in x:
        z = x_t + np.sqrt(tau) * rng.standard_normal(count)
        post, ratio = posterior(belief.prior, log_odds(belief.prior.support), z, np.asarray(tau))
        window.append(temporal.gather_evidence(belief.prior, post, ratio, z, np.asarray(tau), message))
        belief = temporal.carry_apart(belief, post, chain)
    return chain, window[-5:], support[-5:], amplitude[-5:]


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5])
def test_activity_and_variance_are_unbiased_at_the_truth(tau):
    """At the true parameters the estimators return them on average: E of the equation is zero.

    Amplitudes that forget at once (beta = 1) leave nothing to approximate, so nothing but sampling error is
    allowed: over 8 draws of 20,000 coefficients the mean must lie within five standard errors.
    """
    model = Model(activity=0.2, p01=0.1, beta=1.0, variance=1.0)
    errors = []
    for seed in range(8):
        chain, window, support, amplitude = observed_window(model, tau, seed, rounds=12)
        learned = em.m_step(em.e_step(window, chain), chain)
        power = np.sum((support * amplitude) ** 2) / support.sum()
        errors.append([learned.activity / support.mean() - 1, learned.variance / power - 1])
    errors = np.array(errors)
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(8)
    print(f"tau {tau}: relative bias of lambda and gamma {errors.mean(axis=0)} +- {standard_error}")
    assert (np.abs(errors.mean(axis=0)) < 5 * standard_error).all()


def test_bias_of_the_approximate_filter_is_small():
    """With slow amplitudes the filter merges mixtures; that costs the moment estimators a few percent."""
    model = Model(activity=0.05, p01=0.01, beta=0.01)
    chain, window, support, amplitude = observed_window(model, 0.01, seed=1, count=40_000)
    learned = em.m_step(em.e_step(window, chain), chain)
    power = np.sum((support * amplitude) ** 2) / support.sum()
    assert learned.activity == pytest.approx(support.mean(), rel=0.05)
    assert learned.variance == pytest.approx(power, rel=0.05)


def test_passing_over_idle_coefficients_changes_next_to_nothing(monkeypatch):
    chain, window, _, _ = observed_window(Model(activity=0.05, p01=0.01, beta=0.01), 0.01, seed=2)
    every = em.m_step(em.e_step(window, chain), chain)
    monkeypatch.setattr(em, "NEGLIGIBLE", DEFAULT_NEGLIGIBLE)
    few = em.m_step(em.e_step(window, chain), chain)
    assert few.activity == every.activity and few.p01 == every.p01
    assert few.variance == pytest.approx(every.variance, rel=0.02)
    assert few.beta == pytest.approx(every.beta, rel=0.02)


def test_parameters_stay_inside_their_range():
    """Windows that say nothing, or only nonsense, must not push a parameter out of its range."""
    chain = ChainParams(0.9, 0.1, 0.5, 1.0)
    for support in (0.0, 1e-300, 0.5, 1.0 - 1e-16, 1.0):
        for size in (0.0, 1e-12, 1.0, 1e12):
            post = np.full(3, support)
            amplitude = Amplitude(np.full(3, size), np.full(3, size))
            evidence = Evidence(post, post, amplitude, Message(np.zeros(3), np.zeros(3)), np.full(3, size**2))
            learned = em.m_step(em.e_step([evidence] * 5, chain), chain)
            assert 0 < learned.activity < 1 and 0 < learned.p01 <= 1 and 0 < learned.beta <= 1
            assert learned.p10 <= 1 and learned.variance > 0 and np.isfinite(learned.variance)


@pytest.mark.parametrize("active", [0.02, 0.9])
@pytest.mark.parametrize("switches", [(True, True), (True, False), (False, True)])
def test_streams_smoothed_together_equal_each_alone(monkeypatch, active, switches):
    monkeypatch.setattr(em, "NEGLIGIBLE", DEFAULT_NEGLIGIBLE)
    rng = stream(6, "em streams")
    chains = [ChainParams(active, p01, 0.1 + p01, 1 + p01) for p01 in (0.02, 0.05, 0.1)]
    windows = [[_evidence(rng, active) for _ in range(3)] for _ in chains]
    alone = [em.e_step(window, chain, *switches) for window, chain in zip(windows, chains, strict=True)]
    assert em.e_steps(windows, chains, *switches) == alone


def _evidence(rng, active, size=400):
    support = np.where(rng.random(size) < active, 0.9, 1e-5).astype(np.float32)
    likelihood, mean, variance, precision, shift = rng.random((5, size), dtype=np.float32)
    square = variance + mean**2
    return Evidence(support, likelihood, Amplitude(mean, variance), Message(precision, shift), square)


@pytest.mark.parametrize(("support_chain", "amplitude_chain"), [(False, True), (True, False), (False, False)])
def test_a_chain_switched_off_is_not_learned(support_chain, amplitude_chain):
    window, _, _ = random_window()
    learned = em.m_step(
        em.e_step(window, OLD, support_chain, amplitude_chain), OLD, support_chain, amplitude_chain
    )
    assert (learned.p01 == OLD.p01) == (not support_chain)
    assert (learned.beta == OLD.beta) == (not amplitude_chain)
    assert learned.activity != OLD.activity and learned.variance != OLD.variance
