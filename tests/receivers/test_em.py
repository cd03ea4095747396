"""Learning the chains (Algorithm 2): the E-step by brute force, the M-step by numerical maximisation of Q."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from airfeel.beliefs import chains
from airfeel.beliefs.chains import Amplitude, ChainParams, Message, stationary
from airfeel.beliefs.spike_slab import posterior
from airfeel.receivers import em
from airfeel.receivers.em import Evidence, PastRound
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
    supports, amplitudes = [], []
    for n in range(COUNT):
        messages = list(zip(precision[:, n], shift[:, n], strict=True))
        supports.append([_paths(first[n], evidence[: i + 1, n]) for i in range(ROUNDS)])
        amplitudes.append(
            [
                amplitude_joint(mean[n], variance[n], OLD.beta, OLD.variance, messages[: i + 1])
                for i in range(ROUNDS)
            ]
        )
    filtered = np.array([[weight @ paths[:, -1] for paths, weight in s] for s in supports]).T
    amplitude = Amplitude(
        np.array([[mean[-1] for mean, _ in a] for a in amplitudes]).T,
        np.array([[covariance[-1, -1] for _, covariance in a] for a in amplitudes]).T,
    )
    square = amplitude.variance + amplitude.mean**2
    window = Evidence(filtered, evidence, amplitude, Message(precision, shift), square)
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
    assert learned.variance == pytest.approx(np.sum(smoothed * window.square.T) / smoothed.sum())


def observed_window(model, tau, seed, rounds=25, count=20_000):
    """Filter scalar chains with the true parameters; return the last five rounds and their truth."""
    chain = ChainParams(model.activity, model.p01, model.beta, model.variance)
    rng = stream(seed, "estimating equations")
    support, amplitude = sample_chains(model, rounds, rng, count)
    x = support * amplitude
    belief, window = chains.Belief(stationary(chain, count)), []
    for x_t in x:
        z = x_t + np.sqrt(tau) * rng.standard_normal(count)
        post = posterior(belief.prior, z, np.asarray(tau))
        window.append(PastRound(belief.prior, z, np.asarray(tau), post.support))
        belief = chains.carry(belief, post, z, np.asarray(tau), chain, message="joint")
    return chain, window[-5:], support[-5:], amplitude[-5:]


def learn(window, chain, message="joint"):
    return em.learn(window, chain, message, True, True)


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
        learned = learn(window, chain)
        power = np.sum((support * amplitude) ** 2) / support.sum()
        errors.append([learned.activity / support.mean() - 1, learned.variance / power - 1])
    errors = np.array(errors)
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(8)
    print(f"tau {tau}: relative bias of lambda and gamma {errors.mean(axis=0)} +- {standard_error}")
    assert (np.abs(errors.mean(axis=0)) < 5 * standard_error).all()


def test_passing_over_idle_coefficients_changes_next_to_nothing(monkeypatch):
    for seed in (2, 3, 4):
        chain, window, _, _ = observed_window(Model(activity=0.05, p01=0.01, beta=0.01), 0.01, seed)
        monkeypatch.setattr(em, "NEGLIGIBLE", 0.0)
        every = learn(window, chain)
        monkeypatch.setattr(em, "NEGLIGIBLE", DEFAULT_NEGLIGIBLE)
        few = learn(window, chain)
        assert em.gather(window, "joint").others > 0.5 * window[0].z.size
        for name in ("activity", "p01", "beta", "variance"):
            assert getattr(few, name) == pytest.approx(getattr(every, name), rel=0.02), name


@pytest.mark.parametrize("together", [6_667, 10_000, 20_000])
def test_a_window_in_parts_is_the_whole_window(together, monkeypatch):
    """As for large models: what counts are sums over coefficients, so parts of any size give the same."""
    for seed in (5, 6):
        chain, window, _, _ = observed_window(Model(activity=0.05, p01=0.01, beta=0.01), 0.01, seed)
        whole = learn(window, chain)
        monkeypatch.setattr(em, "TOGETHER", together)
        parts = learn(window, chain)
        monkeypatch.undo()
        monkeypatch.setattr(em, "NEGLIGIBLE", 0.0)
        for name in ("activity", "p01", "beta", "variance"):
            assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-9), name


@pytest.mark.parametrize(("support_chain", "amplitude_chain"), [(False, True), (True, False), (False, False)])
def test_a_chain_switched_off_is_not_learned(support_chain, amplitude_chain):
    window, _, _ = random_window()
    learned = em.m_step(
        em.e_step(window, OLD, support_chain, amplitude_chain), OLD, support_chain, amplitude_chain
    )
    assert (learned.p01 == OLD.p01) == (not support_chain)
    assert (learned.beta == OLD.beta) == (not amplitude_chain)
    assert learned.activity != OLD.activity and learned.variance != OLD.variance
