"""A real run under Theorem 3: the loss gap beside the printed bound and the one from measured errors.

The loss is softmax regression with L2 regularisation, which has known constants; the run uses eta = 1/L
and one local step, as the theorem asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from airfeel import _checks
from airfeel.config import Config
from airfeel.learning.models.softmax import SoftmaxRegression
from airfeel.learning.tasks import Samples
from airfeel.simulation.assembly import DataLike, Own, Parts, assemble, find_data, make_partition
from airfeel.simulation.loop import advance, start
from airfeel.theory.bound import LossConstants, loss_bound, loss_bound_limit, measured_error_bound
from airfeel.units import count
from airfeel.workers import Workers

Array = NDArray[np.floating[Any]]

CURVATURE = 0.5  # the largest eigenvalue of diag(p) - p p^T over all class probabilities p


@dataclass(frozen=True, slots=True, eq=False)
class Convergence:
    """One run, round by round, and the constants that bound it.

    ``gap`` is loss - loss* on the devices' own data after every round; ``recovery`` is ||x^ - x||^2,
    ``sparsification`` ||x - g||^2 and ``total`` ||x^ - g||^2 with the true global gradient g.
    """

    constants: LossConstants
    keep: int
    size: int
    best_loss: float
    initial_gap: float
    gap: Array
    recovery: Array
    sparsification: Array
    total: Array

    @property
    def printed(self) -> Array:
        """The bound (61), with the measured recovery error as N phi_t."""
        return loss_bound(self.constants, self.keep, self.size, self.recovery / self.size, self.initial_gap)

    @property
    def measured(self) -> Array:
        """The inequality (83) with the measured errors."""
        return measured_error_bound(self.constants, self.total, self.initial_gap)

    @property
    def limit(self) -> float:
        """What the printed bound tends to."""
        return loss_bound_limit(self.constants, self.keep, self.size, float(self.recovery.max()) / self.size)


def measure(
    config: Config, dataset: DataLike | None = None, told: Callable[[int], None] = lambda round: None
) -> Convergence:
    """Carry out a run with eta = 1/L and E = 1 and measure what Theorem 3 speaks about.

    ``config`` decides everything but the rates and the number of local steps; ``told`` hears about rounds.
    """
    if config.model.kind != "softmax" or not _l2(config) > 0:
        raise ValueError(f"model.l2 = {_l2(config)}: must be > 0, with model.kind = 'softmax'")
    task, pooled = pool(config, dataset)
    smoothness = largest_curvature(pooled) + _l2(config)
    best = best_loss(task, pooled)
    parts = assemble(_with_rate(config, 1 / smoothness), Own(dataset=dataset))
    rounds = _follow(parts, told)
    losses = np.array([task.evaluate(round.theta, pooled).loss for round in rounds])
    return Convergence(
        constants=LossConstants(_l2(config), smoothness, max(round.steepest for round in rounds)),
        keep=count(float(config.options("scheme").get("sparsity", 1.0)), task.size),
        size=task.size,
        best_loss=best,
        initial_gap=task.evaluate(task.init(config.seed), pooled).loss - best,
        gap=losses - best,
        recovery=np.array([round.recovery for round in rounds]),
        sparsification=np.array([round.sparsification for round in rounds]),
        total=np.array([round.total for round in rounds]),
    )


def _l2(config: Config) -> float:
    return float(config.options("model").get("l2", 0.0))


def pool(config: Config, dataset: DataLike | None = None) -> tuple[SoftmaxRegression, Samples]:
    """Return the task in double precision and the samples of all devices in one: their mean is the loss."""
    source = find_data(config, dataset)
    held = np.concatenate(make_partition(config, source))
    if source.classes is None:
        raise _checks.reject("dataset", source.name, "must have classes: the bound is about cross-entropy")
    features = int(np.prod(source.shape))
    task = SoftmaxRegression(features, source.classes, _l2(config), dtype="float64")
    return task, task.prepare(source.train_inputs[held], source.train_labels[held])


def largest_curvature(pooled: Samples) -> float:
    """Return a bound on the largest eigenvalue of the cross-entropy's Hessian at any theta.

    The Hessian is the mean over samples u of the Kronecker products of diag(p) - p p^T, which is at most 1/2,
    and u u^T.
    """
    return CURVATURE * float(np.linalg.eigvalsh(pooled.inputs.T @ pooled.inputs / len(pooled))[-1])


def best_loss(task: SoftmaxRegression, pooled: Samples) -> float:
    """Return the smallest loss there is, by L-BFGS."""

    def objective(theta: Array) -> tuple[float, Array]:
        return task.evaluate(theta, pooled).loss, task.gradient(theta, pooled)

    options: Any = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-7}
    return float(minimize(objective, task.init(0), jac=True, method="L-BFGS-B", options=options).fun)


@dataclass(frozen=True, slots=True, eq=False)
class _RoundErrors:
    """Where a round arrived, the squared norms of its errors, and its largest local gradient."""

    theta: Array
    recovery: float
    sparsification: float
    total: float
    steepest: float


def _with_rate(config: Config, rate: float) -> Config:
    devices = config.devices.model_copy(update={"learning_rate": rate, "local_steps": 1})
    server = config.server.model_copy(update={"learning_rate": rate})
    return config.model_copy(update={"devices": devices, "server": server})


def _follow(parts: Parts, told: Callable[[int], None]) -> list[_RoundErrors]:
    """Run, and compare what was sent and recovered in every round with the true global gradient."""
    state, rounds = start(parts), []
    with Workers(parts.config.run.threads) as workers:
        while state.round < parts.config.rounds:
            gradients = workers.map(partial(parts.task.gradient, state.theta), parts.data)
            local = np.array(gradients, dtype=np.float64)
            true = parts.weights @ local
            step = advance(parts, state, workers)
            state, sent, got = step.state, step.aggregate.truth, step.aggregate.mean
            errors = _square(got - sent), _square(sent - true), _square(got - true)
            rounds.append(_RoundErrors(state.theta, *errors, float(np.linalg.norm(local, axis=1).max())))
            told(state.round)
    return rounds


def _square(error: Array) -> float:
    return float(error @ error)
