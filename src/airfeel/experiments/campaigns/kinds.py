"""What a run of an experiment can be: a training run, or a study of the theory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel.config import Config, build_config
from airfeel.config.toml import merge
from airfeel.experiments.runs.rundir import Work, finished
from airfeel.experiments.runs.runner import execute
from airfeel.experiments.studies import bound as bound_study
from airfeel.experiments.studies import recovery
from airfeel.schemes.a_dsgd import ADsgd

_MATRIX_EFFORT = 50  # of a dense matrix with s = N, drawn and multiplied by in a round, over a gradient's


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of work is read, done and weighed.

    Parameters
    ----------
    load
        Makes the work from the keys of an experiment; the second argument names them in errors.
    execute
        Does it in a results folder; the further arguments are whether to repeat a finished one and a
        function that says whether to stop early. Returns whether the work is complete.
    effort
        Roughly how long it takes, in units of a training round with one local step.
    """

    load: Callable[[Mapping[str, Any], str], Any]
    execute: Callable[[Any, Path, bool, Callable[[], bool]], bool]
    effort: Callable[[Any], float]


def _load_training(tree: Mapping[str, Any], source: str) -> Config:
    """Return the configuration of a run that computes in one thread: many runs keep all cores busy."""
    return build_config(merge({"run": {"threads": 1}}, tree), source=source)


def _train(config: Config, out: Path, force: bool, stop: Callable[[], bool]) -> bool:
    return execute(config, out, force=force, stop=stop).summary is not None


def _training_effort(config: Config) -> float:
    dense = issubclass(config.chosen.scheme.target, ADsgd)
    return config.rounds * (config.devices.local_steps + dense * _MATRIX_EFFORT * config.uplink.ratio)


KINDS: dict[str, Kind] = {
    "training": Kind(_load_training, _train, _training_effort),
    "recovery": Kind(recovery.load, recovery.execute, recovery.effort),
    "bound": Kind(bound_study.load, bound_study.execute, bound_study.effort),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work and what is needed to do it elsewhere."""

    kind: str
    work: Work

    @property
    def label(self) -> str:
        """The name of its folder."""
        return self.work.label()

    @property
    def effort(self) -> float:
        """Roughly how long it takes, in units of a short round."""
        return KINDS[self.kind].effort(self.work)

    def done(self, out: Path) -> bool:
        """Whether its folder is complete."""
        return finished(out / "runs" / self.label) is not None
