"""What a run of an experiment can be: training, or a study of the theory."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airfeel.config import Config, build_config
from airfeel.config.toml import merge
from airfeel.lab.runs.runner import execute
from airfeel.lab.runs.work import Work
from airfeel.lab.studies import bound, recovery
from airfeel.theory.planner import is_dense

_MATRIX_EFFORT = 50  # of a dense matrix with s = N, drawn and multiplied by in a round, over a gradient's


def training(tree: Mapping[str, Any], source: str) -> Work:
    """Return a training run that computes in one thread: many runs keep all cores busy."""
    config = build_config(merge({"run": {"threads": 1}}, tree), source=source)
    matrix = _MATRIX_EFFORT * config.uplink.ratio if is_dense(config.scheme) else 0.0
    options = config.options("training")
    steps = options.get("local_epochs") or options.get("local_steps", 1)
    return Work(config, _train, config.rounds * (steps + matrix))


def _train(config: Config, out: Path, force: bool, stop: Callable[[], bool]) -> bool:
    return execute(config, out, force=force, stop=stop).summary is not None


# Each makes the work of the keys of an experiment; the second argument names them in errors.
KINDS: dict[str, Callable[[Mapping[str, Any], str], Work]] = {
    "training": training,
    "recovery": recovery.work,
    "bound": bound.work,
}
