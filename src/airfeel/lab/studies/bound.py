"""Theorem 3 on real training, as a unit of work: the loss gap of a run beside its two bounds."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel.config import Config, build_config
from airfeel.config.toml import merge
from airfeel.lab.runner import Work
from airfeel.lab.studies import study
from airfeel.lab.studies.convergence import Convergence, measure

_PREPARATION = 100  # rounds' worth of time to find the smallest loss


@dataclass(frozen=True, slots=True)
class BoundStudy:
    """A training run with L2 regularisation; its rates become 1/L, as the theorem asks."""

    config: Config

    @property
    def rounds(self) -> int:
        """T."""
        return self.config.rounds

    @property
    def scheme(self) -> str:
        """The training's."""
        return str(self.config.scheme)

    @property
    def seed(self) -> int:
        """The training's."""
        return int(self.config.seed)

    def digest(self) -> str:
        """Return the hash of the configuration."""
        return self.config.digest()

    def label(self) -> str:
        """Return ``bound-<hash>``, the name of the study's folder."""
        return f"bound-{self.digest()}"

    def to_toml(self) -> str:
        """Return the configuration as a file."""
        return self.config.to_toml()


def work(tree: Mapping[str, Any], source: str) -> Work:
    """Return a study as work after checking its keys: what Theorem 3 assumes must hold."""
    config = build_config(merge({"run": {"threads": 1}}, tree), source=source)
    if config.model.kind != "softmax" or not config.options("model").get("l2", 0.0) > 0:
        rule = "must be > 0, with model.kind = 'softmax': the loss must be strongly convex"
        raise ValueError(f"{source}: model.l2 = {config.options('model').get('l2', 0.0)}: {rule}")
    training = config.options("training")
    if training.get("local_steps") != 1:
        rule = "must be 1, as Theorem 3 assumes"
        raise ValueError(f"{source}: devices.local_steps = {training.get('local_steps')}: {rule}")
    for key in ("local_epochs", "weight_decay"):
        if value := training.get(key):
            raise ValueError(f"{source}: devices.{key} = {value}: must not be given, as in Theorem 3")
    # Every gradient is computed twice.
    return Work(BoundStudy(config), _execute, effort=2.0 * config.rounds + _PREPARATION)


def _execute(bound: BoundStudy, out: Path, force: bool, stop: Callable[[], bool]) -> bool:
    """Do a study in its folder below ``out/runs``."""
    facts: dict[str, Any] = {}

    def rows() -> Iterator[tuple[study.Row, float]]:
        clock = _Clock(stop)
        course = measure(bound.config, told=clock)
        facts.update(_facts(course, bound.config.seed))
        yield from zip(_rows(course), clock.seconds, strict=True)

    return study.execute("bound", bound, out, force, rows(), lambda _: facts)


class _Clock:
    """Notes the seconds of every round it is told about, and stops the study when asked to."""

    def __init__(self, stop: Callable[[], bool]) -> None:
        self.seconds: list[float] = []
        self._stop, self._last = stop, time.perf_counter()

    def __call__(self, round: int) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._last)
        self._last = now
        if self._stop():
            raise study.Stopped


def _rows(course: Convergence) -> Iterator[study.Row]:
    """Yield a row per round: the gap, the bounds (61) and (83), and the squared errors behind them."""
    columns = {
        "gap": course.gap,
        "printed_bound": course.printed,
        "measured_bound": course.measured,
        "recovery_error": course.recovery,
        "sparsification_error": course.sparsification,
        "total_error": course.total,
    }
    for place in range(len(course.gap)):
        values = {name: float(column[place]) for name, column in columns.items()}
        yield {"round": place + 1, **values}


def _facts(course: Convergence, seed: int) -> study.Row:
    """Return the constants of the theorem."""
    return {
        "seed": seed,
        "strong_convexity": course.constants.strong_convexity,
        "smoothness": course.constants.smoothness,
        "gradient_bound": course.constants.gradient_bound,
        "learning_rate": 1 / course.constants.smoothness,
        "smallest_loss": course.best_loss,
        "initial_gap": course.initial_gap,
        "limit_of_printed_bound": course.limit,
    }
