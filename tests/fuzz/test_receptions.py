"""Receivers at the ends of the floating-point range: finite numbers and an honest status, or one sentence."""

import warnings

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import airfeel as af
from fuzzing import cases, magnitude, share

STATUSES = {"converged", "iteration limit", "diverged", "silent"}


def draw_receiver(rng):
    """Return any receiver with any legal parameters."""
    options = {
        "tolerance": float(rng.choice([0.0, 5e-3, magnitude(rng)])),
        "max_iterations": int(rng.integers(1, 13)),
    }
    if rng.random() < 0.3:
        options["variance"] = magnitude(rng)
    activity = share(rng)
    kind = rng.choice(["tsaga", "paper", "turbo_cs", "amp"])
    if kind == "amp":
        options["denoiser"] = str(rng.choice(["soft", "mmse"]))
        if rng.random() < 0.4:
            options["threshold"] = magnitude(rng)
        return af.AMP(activity, **options)
    options["precision"] = [None, "float32", "float64"][rng.integers(3)]
    if kind == "turbo_cs":
        if rng.random() < 0.3:
            options["mean"] = float(rng.choice([-1, 1])) * magnitude(rng)
        return af.TurboCS(activity, **options)
    options |= {
        "p01": min(share(rng), (1 - activity) / activity),
        "beta": share(rng),
        "learn": bool(rng.integers(2)),
        "learn_from": int(rng.integers(1, 4)),
        "window": int(rng.integers(2, 5)),
        "support_chain": bool(rng.random() < 0.8),
        "amplitude_chain": bool(rng.random() < 0.8),
    }
    if kind == "paper":
        return af.TSAGA.paper(activity, **options)
    message = str(rng.choice(["joint", "moments", "expansion"]))
    return af.TSAGA(activity, amplitude_message=message, doubt=bool(rng.integers(2)), **options)


def draw_operator(rng, gaussian, size):
    """Return an operator for ``size`` coefficients."""
    rows, seed = int(rng.integers(1, size + 1)), int(rng.integers(100))
    if gaussian:
        return af.GaussianMatrix(size, rows, seed)
    options = {"signs": bool(rng.integers(2)), "fast": bool(rng.integers(2))}
    if size > 3 and rng.random() < 0.4:
        options["block"] = int(rng.integers(max(2, size // rows + 1), size + 2))
    try:
        operator = af.PartialDCT(size, rows, seed, **options)
    except ValueError:  # fewer rows than blocks
        operator = af.PartialDCT(size, rows, seed)
    if operator.padded or rng.random() < 0.9:
        return operator
    return aslinearoperator(operator @ np.eye(size))  # somebody's own: all that is known are its products


def draw_reception(rng, operator, level, unequal):
    """Return a reception of a level: zeros, a constant, sparse or dense, with noise of any size."""
    rows, size = operator.shape
    shape = rng.integers(4)
    x = rng.standard_normal(size) * (rng.random(size) < 0.2 if shape else 1)
    y = np.asarray(operator @ x, float) if shape < 3 else np.full(rows, float(rng.integers(2)))
    dtype = rng.choice([np.float32, np.float64])
    top = float(np.finfo(dtype).max)
    with np.errstate(over="ignore"):
        y = np.clip(np.clip(y, -9, 9) * min(level, top), -top, top).astype(dtype)

    def noise():
        return float(rng.choice([0.0, magnitude(rng), min(level, 1e150) ** 2 * 0.01]))

    noise_var = np.array([noise() for _ in range(rows)]) if unequal else noise()
    return af.Reception(y, operator, noise_var)


def check_sequence(rng):
    """Receive a few rounds, some of them at another level than the one before."""
    receiver = draw_receiver(rng)
    size = int(rng.choice([1, 2, 3, rng.integers(4, 65)]))
    gaussian = isinstance(receiver, af.AMP)
    state, level = receiver.init(size), magnitude(rng)
    for _ in range(ROUNDS):
        level = min(level * float(rng.choice([0.0, 1.0, 1.0, 3.0, 1e-4])), 1e307)
        if level == 0 or rng.random() < 0.2:
            level = magnitude(rng)
        unequal = not gaussian and rng.random() < 0.3
        reception = draw_reception(rng, draw_operator(rng, gaussian, size), level, unequal)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            estimate, state = receiver.receive(state, reception)
        require_sound(estimate, reception)


def require_sound(estimate, reception):
    """Every number finite and in its range, in the precision of the observation."""
    for name, array in (("mean", estimate.mean), ("variance", estimate.variance)):
        assert np.isfinite(array).all(), f"{name} is not finite, status {estimate.info.status!r}"
        assert array.dtype == reception.observation.dtype
    assert (estimate.variance >= 0).all(), "negative variance"
    info = estimate.info
    assert info.status in STATUSES and 0 <= info.tau < np.inf, f"{info}"
    if info.chain is not None:
        assert 0 < info.chain.activity < 1 and 0 < info.chain.p01 <= 1 and 0 < info.chain.beta <= 1, info
        assert 0 < info.chain.variance < np.inf


ROUNDS = 4


@pytest.mark.parametrize("count", [200, pytest.param(5_000, marks=pytest.mark.slow)])
def test_any_receiver_any_reception(count, record_property):
    cases(check_sequence, count, record_property, f"receptions in sequences of {ROUNDS}", each=ROUNDS)
