"""Slow, plain answers to compare with: dense matrices, quadrature, enumeration. Nothing here is approximate.

They follow the printed equations, never the code under test.
"""

from itertools import product

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from scipy.special import expit, logit
from scipy.stats import norm


def dct_matrix(size):
    """The orthonormal DCT-II matrix, entry by entry."""
    k, n = np.arange(size)[:, None], np.arange(size)[None, :]
    matrix = np.sqrt(2 / size) * np.cos(np.pi * k * (2 * n + 1) / (2 * size))
    matrix[0] /= np.sqrt(2)
    return matrix


def dense_partial_dct(operator):
    """The extended matrix of a PartialDCT: chosen rows of a block-diagonal DCT, times the column signs."""
    full = np.kron(np.eye(operator.blocks), dct_matrix(operator.length))
    signs = 1 if operator.sign is None else operator.sign.reshape(-1)
    return full[operator.index] * signs


def orthonormal_rows(rows, size, rng):
    """A user's own operator with A A^T = I: random orthonormal rows, as a LinearOperator."""
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return aslinearoperator(basis[:, :rows].T.copy())


def dense(operator: LinearOperator):
    """The matrix of any operator, column by column."""
    return np.stack([operator.matvec(e) for e in np.eye(operator.shape[1])], axis=1)


def lmmse(matrix, y, noise_var, mean, variance):
    """Posterior mean and covariance of x ~ N(mean, variance I) given y = A x + n, by inverting a matrix."""
    noise = np.diag(np.broadcast_to(noise_var, len(y)))  # a number, or one per measurement
    gain = variance * matrix.T @ np.linalg.inv(variance * matrix @ matrix.T + noise)
    return mean + gain @ (y - matrix @ mean), variance * (np.eye(len(mean)) - gain @ matrix)


def spike_slab_quadrature(lam, mu, v, z, tau):
    """P(s = 1), mean and variance of x given z = x + N(0, tau), by summing over a fine grid of r."""
    centre, width = (z * v + mu * tau) / (v + tau), np.sqrt(v * tau / (v + tau))
    r = centre + width * np.linspace(-12, 12, 20001)
    log_joint = norm.logpdf(r, mu, np.sqrt(v)) + norm.logpdf(z, r, np.sqrt(tau))
    top = log_joint.max()
    weight = np.exp(log_joint - top)
    log_on = np.log(lam) + top + np.log(weight.sum() * width * 24 / 20000)
    log_off = np.log1p(-lam) + norm.logpdf(z, 0, np.sqrt(tau))
    on = np.exp(log_on - np.logaddexp(log_on, log_off))
    first = np.sum(weight * r) / np.sum(weight)
    second = np.sum(weight * r**2) / np.sum(weight)
    return on, on * first, on * second - (on * first) ** 2


def all_supports(size):
    """Every support vector of a length, as rows."""
    return np.array(list(product((0, 1), repeat=size)), dtype=bool)


def exact_mmse(matrix, observations, noise_var, lam, gamma):
    """Posterior means (draws, N) under lam N(0, gamma) + (1 - lam) delta_0: a sum over all 2^N supports."""
    rows, size = matrix.shape
    mean, total = np.zeros((len(observations), size)), np.zeros(len(observations))
    shift = (
        -0.5 * np.sum(observations**2, axis=1) / (noise_var + gamma)
    )  # near the largest weight: no underflow
    for s in all_supports(size):
        covariance = gamma * matrix[:, s] @ matrix[:, s].T + noise_var * np.eye(rows)
        solved = np.linalg.solve(covariance, observations.T)
        log_prior = s.sum() * np.log(lam) + (~s).sum() * np.log1p(-lam)
        log_evidence = -0.5 * (np.sum(observations.T * solved, axis=0) + np.linalg.slogdet(covariance)[1])
        weight = np.exp(log_prior + log_evidence - shift)
        total += weight
        mean[:, s] += weight[:, None] * gamma * (matrix[:, s].T @ solved).T
    return mean / total[:, None]


def support_path_probabilities(first, stay, enter, evidence):
    """P(path | evidence) of a binary chain over all 2^T paths.

    ``first`` is P(s_1 = 1), ``stay`` = P(1 -> 1), ``enter`` = P(0 -> 1), ``evidence`` the pd of each round.
    """
    paths = all_supports(len(evidence))
    weight = np.where(paths[:, 0], first, 1 - first)
    for i in range(1, len(evidence)):
        one = np.where(paths[:, i - 1], stay, enter)
        weight = weight * np.where(paths[:, i], one, 1 - one)
    for i, pd in enumerate(evidence):
        weight = weight * np.where(paths[:, i], pd, 1 - pd)
    return paths, weight / weight.sum()


def amplitude_joint(mean, variance, beta, gamma, messages):
    """Mean and covariance of (r_1 ... r_T) given Gaussian messages, from the full precision matrix.

    r_1 ~ N(mean, variance); ``messages`` holds (precision, shift) of every round.
    """
    rounds = len(messages)
    a, q = 1 - beta, beta * (2 - beta) * gamma
    precision, shift = np.zeros((rounds, rounds)), np.zeros(rounds)
    precision[0, 0], shift[0] = 1 / variance, mean / variance
    for i in range(1, rounds):
        step = np.zeros(rounds)
        step[i], step[i - 1] = 1, -a
        precision += np.outer(step, step) / q
    for i, (j, h) in enumerate(messages):
        precision[i, i] += j
        shift[i] += h
    covariance = np.linalg.inv(precision)
    return covariance @ shift, covariance


def exact_filter(lam, p01, beta, gamma, z, tau):
    """P(s_T = 1) and E[x_T] given z_t = x_t + N(0, tau_t), t = 1 ... T: a mixture over all support histories.

    ``z`` is (T, draws). Given a history the amplitudes are jointly Gaussian, seen only where it is active.
    """
    rounds = len(z)
    p10 = lam * p01 / (1 - lam)
    lag = np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))
    amplitude_cov = gamma * (1 - beta) ** lag
    paths, prior = support_path_probabilities(lam, 1 - p01, p10, [0.5] * rounds)
    log_weight, last = [], []
    for path, weight in zip(paths, prior, strict=True):
        s = path.astype(float)
        seen = s[:, None] * amplitude_cov * s[None, :] + np.diag(tau)
        solved = np.linalg.solve(seen, z)
        log_weight.append(np.log(weight) - 0.5 * (np.sum(z * solved, axis=0) + np.linalg.slogdet(seen)[1]))
        last.append(s[-1] * (amplitude_cov[-1] * s) @ solved)
    weight = np.exp(log_weight - np.max(log_weight, axis=0))
    weight /= weight.sum(axis=0)
    return paths[:, -1] @ weight, np.sum(weight * np.array(last), axis=0)


def lasso(matrix, y, penalty, start=None, steps=20_000, tolerance=1e-8):
    """The minimum of |y - A x|^2 / 2 + penalty |x|_1, by accelerated proximal gradients with restarts."""
    size = 1 / np.linalg.norm(matrix, 2) ** 2
    x = ahead = np.zeros(matrix.shape[1]) if start is None else start
    pace = 1.0
    for _ in range(steps):
        step = ahead - size * (matrix.T @ (matrix @ ahead - y))
        new = np.sign(step) * np.maximum(np.abs(step) - size * penalty, 0)
        if (ahead - new) @ (new - x) > 0:
            pace = 1.0  # it overshot
        faster = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = new + (pace - 1) / faster * (new - x)
        moved, x, pace = np.linalg.norm(new - x), new, faster
        if moved <= tolerance * np.linalg.norm(x):
            break
    return x


def turbo_loop(matrix, y, noise_var, lam, mu, v_prior):
    """Algorithm 1 for one round as it stands in the text, run to its fixed point: (pi, m1, v1, z, tau)."""
    rows, size = matrix.shape
    m, v = lam * mu, np.mean(lam * (v_prior + mu**2) - (lam * mu) ** 2)
    for _ in range(400):
        z = m + size / rows * matrix.T @ (y - matrix @ m)
        tau = (size / rows - 1) * v + size / rows * noise_var
        evidence = 0.5 * np.log(tau / (v_prior + tau))
        evidence += z**2 / (2 * tau) - (z - mu) ** 2 / (2 * (v_prior + tau))
        pi = expit(logit(lam) + evidence)
        m1, v1 = (z * v_prior + mu * tau) / (v_prior + tau), v_prior * tau / (v_prior + tau)
        average = np.mean(pi * (v1 + m1**2) - (pi * m1) ** 2)
        v = 1 / (1 / average - 1 / tau)
        m = v * (pi * m1 / average - z / tau)
    return pi, m1, v1, z, tau
