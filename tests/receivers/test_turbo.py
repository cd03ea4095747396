"""One round: the linear step against dense LMMSE, the decoder against enumeration and a textbook loop."""

import numpy as np
import pytest

import airfeel as af
from airfeel.beliefs.spike_slab import SpikeSlab
from airfeel.receivers import problem as problems
from airfeel.receivers.problem import pose
from airfeel.receivers.scale import Scaled
from airfeel.receivers.turbo_cs import STATUS, settle
from airfeel.streams import stream
from modeldata import estimates
from oracles import dense, dense_partial_dct, exact_mmse, lmmse, orthonormal_rows, turbo_loop

SIZE, ROWS = 24, 9
OPERATORS = {
    "dct": af.PartialDCT(SIZE, ROWS, seed=1),
    "signs": af.PartialDCT(SIZE, ROWS, seed=1, signs=True),
    "padded": af.PartialDCT(23, ROWS, seed=1, fast=True, signs=True),
    "own": orthonormal_rows(ROWS, SIZE, stream(0, "basis")),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("noise_var", [1e-6, 0.3, 40.0, "unequal", "some silent"])
def test_linear_step_is_dense_lmmse_made_extrinsic(operator, noise_var):
    rng = stream(1, "linear step")
    if isinstance(noise_var, str):
        spread = 10.0 ** rng.uniform(-4, 4, ROWS)
        noise_var = np.where(rng.random(ROWS) < 0.4, 0.0, spread) if noise_var == "some silent" else spread
    matrix = dense_partial_dct(operator) if isinstance(operator, af.PartialDCT) else dense(operator)
    size = matrix.shape[1]
    m, v = rng.standard_normal(size), 0.7
    x = m + np.sqrt(v) * rng.standard_normal(size)
    y = matrix @ x + np.sqrt(noise_var) * rng.standard_normal(ROWS)
    # (22)(23): posterior mean, and variance averaged over the coefficients.
    mean, covariance = lmmse(matrix, y, noise_var, m, v)
    posterior_var = np.trace(covariance) / size
    assert posterior_var == pytest.approx(v - np.sum(np.broadcast_to(v**2 / (v + noise_var), ROWS)) / size)
    # (25)(26): the prior taken out again.
    tau = 1 / (1 / posterior_var - 1 / v)
    z = tau * (mean / posterior_var - m / v)
    problem = pose(operator, Scaled(1.0, y, noise_var))
    found_z, found_tau, residual = problem.linear_step(m[None], v)
    assert np.allclose(found_z[0], z, rtol=1e-9, atol=1e-9)
    assert found_tau == pytest.approx(tau, rel=1e-9)
    assert problem.tau(v) == found_tau  # what the stopping rule looks at
    gap = np.broadcast_to(1 / (v + noise_var), ROWS)
    assert residual.power == pytest.approx(np.average((y - matrix @ m) ** 2, weights=gap), rel=1e-12)
    assert residual.expected == pytest.approx(1 / gap.mean(), rel=1e-9)


@pytest.mark.parametrize("unequal", [False, True])
def test_every_block_is_a_problem_of_its_own(unequal):
    operator = af.PartialDCT(100, 40, seed=2, block=25, signs=True)
    rng = stream(2, "blocks")
    y, noise_var = 0.5 * rng.standard_normal(40), 0.2 * np.ones(40)
    if unequal:
        noise_var = rng.random(40)
    problem = pose(operator, Scaled(1.0, y, noise_var if unequal else 0.2))
    blocks, length = problem.shape
    matrix = dense_partial_dct(operator)
    m = 0.2 * rng.standard_normal((blocks, length))
    v = rng.random((blocks, 1)) + 0.1
    z, tau, residual = problem.linear_step(m, v)
    start = 0
    for b in range(blocks):
        rows = slice(start, start + int(operator.block_rows[b]))
        start = rows.stop
        columns = slice(b * length, (b + 1) * length)
        part = matrix[rows, columns]
        assert np.allclose(matrix[rows] @ matrix[rows].T, np.eye(len(part)))  # nothing outside the block
        assert np.allclose(np.delete(matrix[rows], np.r_[columns], axis=1), 0)
        mean, covariance = lmmse(part, y[rows], noise_var[rows], m[b], v[b, 0])
        average = np.trace(covariance) / length
        expected = 1 / (1 / average - 1 / v[b, 0])
        assert tau[b, 0] == pytest.approx(expected)
        assert np.allclose(z[b], expected * (mean / average - m[b] / v[b, 0]), atol=1e-9)
        alone = problem.only(slice(b, b + 1)).linear_step(m[b : b + 1], v[b, 0])
        assert np.allclose(alone[0][0], z[b], atol=1e-12) and alone[1] == pytest.approx(tau[b, 0])
        assert alone[2].power == pytest.approx(residual.power[b, 0])


@pytest.mark.parametrize("unequal", [False, True])
def test_how_many_blocks_are_decoded_together_does_not_matter(monkeypatch, unequal):
    model_size, rng = 4000, stream(5, "together")
    operator = af.PartialDCT(model_size, 1600, seed=1, block=500, signs=True)
    x = np.where(rng.random(model_size) < 0.1, rng.standard_normal(model_size), 0.0)
    noise_var = 1e-3 * (1 + rng.random(1600)) if unequal else 1e-3
    y = operator @ x + np.sqrt(noise_var) * rng.standard_normal(1600)
    receiver = af.TSAGA(activity=0.1, tolerance=1e-10, max_iterations=200)
    found = []
    for together in (1, 1000, 1 << 16):
        monkeypatch.setattr(problems, "TOGETHER", together)
        estimate = estimates(receiver, [af.Reception(y, operator, noise_var)] * 3)[-1]
        found.append(estimate.mean)
        assert estimate.info.status == "converged"
    assert np.allclose(found[1], found[0], atol=1e-7) and np.allclose(found[2], found[0], atol=1e-7)


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("signs", [True, False])
def test_receiver_is_the_textbook_loop(uniform, signs):
    size, rows = 400, 160
    rng = stream(3, "textbook")
    lam, mu, v = (
        (np.full(size, 0.1), np.zeros(size), np.ones(size))
        if uniform
        else (0.02 + 0.3 * rng.random(size), rng.standard_normal(size), 0.1 + rng.random(size))
    )
    x = np.where(rng.random(size) < lam, mu + np.sqrt(v) * rng.standard_normal(size), 0.0)
    operator = af.PartialDCT(size, rows, seed=4, signs=signs)
    y = operator @ x + 0.03 * rng.standard_normal(rows)
    receiver = af.TurboCS(lam, mu, v, max_iterations=400, tolerance=1e-13)
    estimate, _ = receiver.receive(receiver.init(size), af.Reception(y, operator, 9e-4))
    pi, m1, v1, _, tau = turbo_loop(dense_partial_dct(operator), y, 9e-4, lam, mu, v)
    assert estimate.info.converged
    assert np.allclose(estimate.mean, pi * m1, atol=1e-9)
    assert np.allclose(estimate.variance, pi * (v1 + m1**2) - (pi * m1) ** 2, atol=1e-9)
    assert estimate.info.tau == pytest.approx(tau, rel=1e-8)


def draw(size, lam, matrix, noise_var, draws, rng):
    x = np.where(rng.random((draws, size)) < lam, rng.standard_normal((draws, size)), 0.0)
    return x, x @ matrix.T + np.sqrt(noise_var) * rng.standard_normal((draws, len(matrix)))


def receive_all(operator, observations, noise_var, lam, **options):
    receiver = af.TurboCS(lam, variance=1.0, **options)
    state = receiver.init(operator.shape[1])
    found = [receiver.receive(state, af.Reception(y, operator, noise_var))[0] for y in observations]
    return np.array([estimate.mean for estimate in found])


ENUMERATED = [
    pytest.param(12, 8, 0.2, 1e-2, False, marks=pytest.mark.long),
    pytest.param(11, 6, 0.15, 1e-3, True, marks=pytest.mark.long),
    pytest.param(10, 7, 0.4, 0.1, True, marks=pytest.mark.long),
    (8, 3, 0.1, 1e-2, False),
]


@pytest.mark.parametrize(("size", "rows", "lam", "noise_var", "own"), ENUMERATED)
def test_never_better_than_the_sum_over_all_supports(size, rows, lam, noise_var, own):
    rng = stream(size + rows, "enumeration")
    operator = orthonormal_rows(rows, size, rng) if own else af.PartialDCT(size, rows, seed=rows)
    x, y = draw(size, lam, dense(operator), noise_var, 2000, rng)
    exact = exact_mmse(dense(operator), y, noise_var, lam, 1.0)
    found = receive_all(operator, y, noise_var, lam)
    error, best = np.sum((found - x) ** 2, axis=1), np.sum((exact - x) ** 2, axis=1)
    gap = error - best
    standard_error = gap.std(ddof=1) / np.sqrt(gap.size)
    assert gap.mean() > -3 * standard_error
    assert error.mean() < np.sum(x**2, axis=1).mean()  # and better than nothing


def test_a_surprise_is_read_off_the_residual():
    """Where the residual contradicts the prior's variance, tau describes the error of z all the same."""
    size, rows = 4000, 800
    rng = stream(6, "surprise")
    x = np.where(rng.random(size) < 0.1, rng.standard_normal(size), 0.0)
    operator = af.PartialDCT(size, rows, seed=1)
    y = operator @ x + 0.01 * rng.standard_normal(rows)
    problem = pose(operator, Scaled(1.0, y, 1e-4))
    for believed in (1e-3, 1e-1, 1.0):
        prior = SpikeSlab(*(np.full((1, size), value) for value in (0.1, 0.0, believed)))
        found = settle(prior, problem, limit=1, chain=af.ChainParams(0.1, 0.005, 0.005, 1.0))
        assert found.tau[0, 0] == pytest.approx(np.mean((found.z - x) ** 2), rel=5 * np.sqrt(2 / rows))
        assert found.surprised == (believed < 1) and (found.prior is prior) == (believed == 1)
        paper = settle(prior, problem, limit=1)
        assert paper.tau[0, 0] == pytest.approx(4 * 0.1 * believed + 5 * 1e-4)
        assert not paper.surprised and paper.prior is prior


def lost_iteration(blocks=1):
    """A smooth signal without random signs, on which the iteration loses its way in every block."""
    size = 2000 * blocks
    operator = af.PartialDCT(size, 200 * blocks, seed=0, block=2000 if blocks > 1 else None)
    x = np.tile(np.exp(-((np.arange(2000) / 2000 - 0.4) ** 2) / 0.005), blocks)
    problem = pose(operator, Scaled(1.0, operator @ x, 1e-4))
    return SpikeSlab(*(np.full(problem.shape, value) for value in (0.05, 0.0, 2.0))), problem


def test_a_lost_iteration_goes_back_to_the_smallest_residual():
    prior, problem = lost_iteration()
    found = settle(prior, problem)
    assert found.status in STATUS[1:]
    each = [settle(prior, problem, limit=i, tolerance=0.0) for i in range(1, found.iterations + 1)]
    powers = [linear_step_power(problem, e) for e in each]
    assert powers[-1] == min(powers)  # what is returned never leaves more than an earlier iterate
    assert np.array_equal(found.z, each[-1].z)


def linear_step_power(problem, decoded):
    """The residual power of the message that led to z: z - m = (N/s) A^T (y - A m)."""
    gap = problem.observation - problem.operator @ decoded.z[0]
    gain = float(problem.oversampling)
    return float(np.mean((gap / (1 - gain)) ** 2))


def test_one_lost_block_does_not_take_the_others_along():
    prior, problem = lost_iteration(blocks=3)
    together = settle(prior, problem)
    alone = [settle(prior[i : i + 1], problem.only(slice(i, i + 1))) for i in range(3)]
    assert together.status == max((a.status for a in alone), key=STATUS.index) != "converged"
    assert together.iterations == max(a.iterations for a in alone)
    assert np.allclose(together.z, np.concatenate([a.z for a in alone]), atol=1e-12)
    assert np.allclose(together.tau, np.concatenate([a.tau for a in alone]))
