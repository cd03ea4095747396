"""AMP against its own recursion written out, its state evolution, LASSO, and signals it cannot recover."""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from scipy.special import expit

import airfeel as af
from airfeel.config import load_config
from airfeel.simulation.loop import train
from airfeel.streams import stream
from oracles import lasso

SIZE, ROWS, ACTIVITY, NOISE_VAR = 4000, 1600, 0.08, 1e-3


def soft(z, tau, alpha):
    theta = alpha * np.sqrt(tau)
    return np.sign(z) * np.maximum(np.abs(z) - theta, 0)


def mmse(z, tau, lam=ACTIVITY, gamma=1.0):
    odds = (
        np.log(lam / (1 - lam)) + 0.5 * np.log(tau / (gamma + tau)) + z**2 / 2 * (1 / tau - 1 / (gamma + tau))
    )
    return expit(odds) * z * gamma / (gamma + tau)


def denoiser(kind, alpha=1.3):
    return (lambda z, tau: soft(z, tau, alpha)) if kind == "soft" else mmse


def receiver(kind, **options):
    extra = {"threshold": 1.3} if kind == "soft" else {"variance": 1.0}
    return af.AMP(activity=ACTIVITY, denoiser=kind, tolerance=0.0, **extra, **options)


def draw(seed, size=SIZE, rows=ROWS):
    rng = stream(seed, "amp")
    x = np.where(rng.random(size) < ACTIVITY, rng.standard_normal(size), 0.0)
    operator = af.GaussianMatrix(size, rows, seed=seed)
    y = operator.matrix.astype(np.float64) @ x + np.sqrt(NOISE_VAR) * rng.standard_normal(rows)
    return x, af.Reception(y, operator, NOISE_VAR)


def by_hand(reception, eta, iterations):
    """x <- eta(x + A^T z), z <- y - A x + (N/s) <eta'> z, the mean derivative taken numerically."""
    matrix = reception.operator.matrix.astype(np.float64)
    rows, size = matrix.shape
    x, z = np.zeros(size), reception.observation
    for _ in range(iterations):
        tau = z @ z / rows
        pseudo, step = x + matrix.T @ z, 1e-6 * np.sqrt(tau)
        x = eta(pseudo, tau)
        slope = np.mean((eta(pseudo + step, tau) - eta(pseudo - step, tau)) / (2 * step))
        z = reception.observation - matrix @ x + size / rows * slope * z
    return x, tau


@pytest.mark.parametrize("kind", ["soft", "mmse"])
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_amp_is_its_recursion(kind, iterations):
    _, reception = draw(0, size=600, rows=240)
    amp = receiver(kind, max_iterations=iterations)
    estimate, _ = amp.receive(amp.init(600), reception)
    x, tau = by_hand(reception, denoiser(kind), iterations)
    assert estimate.info.iterations == iterations and estimate.info.status == "iteration limit"
    assert np.allclose(estimate.mean, x, atol=1e-4)  # the operator multiplies in single precision
    assert estimate.info.tau == pytest.approx(tau, rel=1e-4)


@pytest.mark.parametrize("kind", ["soft", "mmse"])
def test_variance_is_calibrated(kind):
    amp = af.AMP(activity=ACTIVITY, denoiser=kind)
    ratio = []
    for seed in range(4):
        x, reception = draw(seed, 2000, 900)
        estimate, _ = amp.receive(amp.init(2000), reception)
        ratio.append(estimate.variance.sum() / np.sum((estimate.mean - x) ** 2))
    # Stein's estimate of the soft threshold's risk is cut at zero in each coefficient, which only raises it.
    assert 0.8 < np.mean(ratio) < (1.25 if kind == "mmse" else 4)


def awkward_operators(size=1500, rows=600):
    """Unit-norm columns, but far from independent."""
    rng = stream(3, "awkward")
    base = rng.standard_normal((rows, size))
    common = base + 3 * rng.standard_normal((rows, 1))  # all columns lean the same way
    low_rank = rng.standard_normal((rows, 10)) @ rng.standard_normal((10, size)) + 0.1 * base
    return [aslinearoperator(m / np.linalg.norm(m, axis=0)) for m in (common, low_rank)]


@pytest.mark.parametrize("kind", ["soft", "mmse"])
@pytest.mark.parametrize("dense", [0.05, 0.5, 0.9])
def test_an_estimate_worse_than_zero_is_flagged(kind, dense):
    rng = stream(4, "worse than zero")
    amp = af.AMP(activity=0.05, denoiser=kind)
    for operator in [*awkward_operators(), af.GaussianMatrix(1500, 600, seed=1)]:
        for _ in range(3):
            x = np.where(rng.random(1500) < dense, 1 + rng.random(1500), 0.0)
            y = np.asarray(operator @ x, dtype=np.float64) + 0.1 * rng.standard_normal(600)
            estimate, _ = amp.receive(amp.init(1500), af.Reception(y, operator, 0.01))
            nmse = np.sum((estimate.mean - x) ** 2) / np.sum(x**2)
            # AMP knows its error through |z|^2 / s, of relative spread sqrt(2/s): clearly worse shows.
            assert nmse < 1 + 5 * np.sqrt(2 / 600) or estimate.info.diverged


def sparse(seed, size, ratio, activity, noise_var):
    """A signal with exactly activity N Gaussian coefficients, and its reception."""
    rng = stream(seed, "amp")
    x = rng.permutation(np.arange(size) < round(activity * size)) * rng.standard_normal(size)
    operator = af.GaussianMatrix(size, round(ratio * size), seed=seed)
    noise = np.sqrt(noise_var) * rng.standard_normal(operator.shape[0])
    return x, af.Reception(operator.matrix.astype(np.float64) @ x + noise, operator, noise_var)


@pytest.mark.parametrize("ratio", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_fixed_threshold_solves_lasso(ratio, seed):
    # Where AMP rests, z = (y - A x) / (1 - kept / s), and A^T z is theta sign(x) on the support: that is
    # how LASSO's optimum is known, for the penalty theta (1 - kept / s). The matrix is in single precision,
    # and on some processors the last bits never rest: 1e-7 would be less than they are.
    _, reception = sparse(seed, 200, ratio, 0.1, 1e-3)
    amp = af.AMP(0.1, threshold=1.5, max_iterations=2000, tolerance=1e-6)
    estimate, _ = amp.receive(amp.init(200), reception)
    assert estimate.info.converged
    kept = np.count_nonzero(estimate.mean) / reception.operator.shape[0]
    penalty = 1.5 * np.sqrt(estimate.info.tau) * (1 - kept)
    solution = lasso(reception.operator.matrix.astype(np.float64), reception.observation, penalty)
    assert np.linalg.norm(estimate.mean - solution) < 1e-3 * np.linalg.norm(solution)


TWO_CLASSES = {"partition.kind": "classes", "partition.classes": 2}


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "setting"), [(0, {}), (1, {}), (2, TWO_CLASSES), (3, {"uplink.ratio": 0.04})]
)
def test_no_round_of_a_training_diverges(seed, setting):
    # What 25 devices keep of their gradients overlaps little: half of all coefficients are not zero.
    flat = {"scheme": "a_dsgd", "seed": seed, "rounds": 12, "run.evaluate_every": 12} | setting
    records = list(train(load_config(None, flat)))
    assert {record.status for record in records} <= {"converged", "iteration limit"}
    # Above that of the estimate zero by no more than chance: tau is a mean of s squares, in 12 rounds.
    chance = 2 * np.sqrt(2 / records[0].symbols / len(records))
    assert np.mean([record.nmse_db for record in records]) < 10 * np.log10(1 + chance)
    assert sum(record.status == "iteration limit" for record in records) <= 2


@pytest.mark.parametrize("kind", ["soft", "mmse"])
@pytest.mark.parametrize(("size", "rows"), [(120, 60), (1000, 100), (500, 500)])
def test_nothing_but_noise_is_no_divergence(kind, size, rows):
    amp = af.AMP(activity=0.1, denoiser=kind)
    for seed in range(8):
        y = stream(seed, "only noise").standard_normal(rows)
        operator = af.GaussianMatrix(size, rows, seed=seed)
        estimate, _ = amp.receive(amp.init(size), af.Reception(y, operator, 1.0))
        assert estimate.info.converged and np.sum(estimate.mean**2) < 0.4 * np.sum(y**2)


def test_divergence_is_seen_and_returns_the_best_iterate():
    operator = awkward_operators()[0]
    x = np.where(np.arange(1500) < 75, 1.0, 0.0)
    amp = af.AMP(activity=0.05, denoiser="mmse", max_iterations=60)
    estimate, _ = amp.receive(amp.init(1500), af.Reception(operator @ x, operator, 1e-4))
    assert estimate.info.diverged and not estimate.info.converged
    assert np.sum((estimate.mean - x) ** 2) <= 1.05 * np.sum(x**2)
