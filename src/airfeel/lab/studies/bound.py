"""Theorem 3 on real training: the loss gap beside the printed bound and the one from measured errors.

The loss is softmax regression with L2 regularisation, which has known constants; the run uses eta = 1/L
and one local step, as the theorem asks.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from airfeel import _checks
from airfeel.config import Config, build_config
from airfeel.config.mistakes import merge
from airfeel.lab.runner import Work, training_effort
from airfeel.lab.studies import Row, Stopped, execute
from airfeel.learning.models.softmax import SoftmaxRegression
from airfeel.learning.tasks import Array, Samples
from airfeel.simulation.assembly import DataLike, Own, Parts, assemble, find_data, make_partition
from airfeel.simulation.loop import advance, start
from airfeel.theory.bound import LossConstants, loss_bound, loss_bound_limit, measured_error_bound
from airfeel.units import count
from airfeel.workers import Workers

CURVATURE = 0.5  # the largest eigenvalue of diag(p) - p p^T over all class probabilities p
_PREPARATION = 100  # rounds' worth of time to find the smallest loss


def work(tree: Mapping[str, Any], source: str) -> Work:
    """Return a study as work after checking its keys: what Theorem 3 assumes must hold."""
    config = build_config(merge({"run": {"threads": 1}}, tree), {"name": "bound"}, source)
    _l2(config, f"{source}: ")
    training = config.options("training")
    if training.get("local_steps") != 1:
        rule = "must be 1, as Theorem 3 assumes"
        raise ValueError(f"{source}: devices.local_steps = {training.get('local_steps')}: {rule}")
    for key in ("local_epochs", "weight_decay"):
        if value := training.get(key):
            raise ValueError(f"{source}: devices.{key} = {value}: must not be given, as in Theorem 3")
    return Work(config, _execute, 2 * training_effort(config) + _PREPARATION)  # gradients are computed twice


def _execute(config: Config, out: Path, force: bool, stop: Callable[[], bool]) -> bool:
    """Do a study in its folder below ``out/runs``."""
    facts: dict[str, Any] = {}

    def rows() -> Iterator[tuple[Row, float]]:
        ends = [time.perf_counter()]

        def told(round: int) -> None:
            ends.append(time.perf_counter())
            if stop():
                raise Stopped

        course = measure(config, told=told)
        facts.update(seed=config.seed, **course.facts())
        yield from zip(course.rows(), map(float, np.diff(ends)), strict=True)

    return execute("bound", config, out, force, rows(), lambda _: facts)


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

    def rows(self) -> Iterator[Row]:
        """Yield a row per round: the gap, the bounds (61) and (83), and the squared errors behind them."""
        columns = {
            "gap": self.gap,
            "printed_bound": self.printed,
            "measured_bound": self.measured,
            "recovery_error": self.recovery,
            "sparsification_error": self.sparsification,
            "total_error": self.total,
        }
        for round, values in enumerate(zip(*columns.values(), strict=True), start=1):
            yield {"round": round, **dict(zip(columns, map(float, values), strict=True))}

    def facts(self) -> dict[str, float]:
        """Return the constants of the theorem."""
        return asdict(self.constants) | {
            "learning_rate": 1 / self.constants.smoothness,
            "smallest_loss": self.best_loss,
            "initial_gap": self.initial_gap,
            "limit_of_printed_bound": self.limit,
        }


def measure(
    config: Config, dataset: DataLike | None = None, told: Callable[[int], None] = lambda round: None
) -> Convergence:
    """Carry out a run with eta = 1/L and E = 1 and measure what Theorem 3 speaks about.

    ``config`` decides everything but the rates and the number of local steps; ``told`` hears about rounds.
    """
    l2 = _l2(config)
    task, pooled = pool(config, dataset)
    smoothness = largest_curvature(pooled) + l2
    best = best_loss(task, pooled)
    rate = {"learning_rate": 1 / smoothness}
    devices = config.devices.model_copy(update=rate | {"local_steps": 1})
    server = config.server.model_copy(update=rate)
    trained = config.model_copy(update={"devices": devices, "server": server})
    followed = list(_follow(assemble(trained, Own(dataset=dataset)), told))
    thetas, recovery, sparsification, total, steepest = zip(*followed, strict=True)
    return Convergence(
        constants=LossConstants(l2, smoothness, max(steepest)),
        keep=count(float(config.options("scheme").get("sparsity", 1.0)), task.size),
        size=task.size,
        best_loss=best,
        initial_gap=task.evaluate(task.init(config.seed), pooled).loss - best,
        gap=np.array([task.evaluate(theta, pooled).loss for theta in thetas]) - best,
        recovery=np.array(recovery),
        sparsification=np.array(sparsification),
        total=np.array(total),
    )


def _l2(config: Config, source: str = "") -> float:
    """Return the weight of the regularisation, without which the loss is not strongly convex."""
    l2 = float(config.options("model").get("l2", 0.0))
    if config.model.kind != "softmax" or not l2 > 0:
        rule = "must be > 0, with model.kind = 'softmax': the loss must be strongly convex"
        raise ValueError(f"{source}model.l2 = {l2}: {rule}")
    return l2


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
    from scipy.optimize import minimize  # which takes long to import

    def objective(theta: Array) -> tuple[float, Array]:
        return task.evaluate(theta, pooled).loss, task.gradient(theta, pooled)

    options: Any = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-7}
    return float(minimize(objective, task.init(0), jac=True, method="L-BFGS-B", options=options).fun)


def _follow(parts: Parts, told: Callable[[int], None]) -> Iterator[tuple[Array, float, float, float, float]]:
    """Run, and compare what was sent and recovered in every round with the true global gradient.

    Yields theta, the squared errors of recovery, of sparsification and of both, and the largest local
    gradient.
    """
    state = start(parts)
    with Workers(parts.config.run.threads) as workers:
        while state.round < parts.config.rounds:
            gradients = workers.map(partial(parts.task.gradient, state.theta), parts.data)
            local = np.array(gradients, dtype=np.float64)
            true = parts.weights @ local
            step = advance(parts, state, workers)
            state, sent, got = step.state, step.aggregate.truth, step.aggregate.mean
            recovery, sparsification, total = (float(e @ e) for e in (got - sent, sent - true, got - true))
            told(state.round)
            yield state.theta, recovery, sparsification, total, float(np.linalg.norm(local, axis=1).max())
