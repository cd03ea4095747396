"""What a run of an experiment can be: a training run, or a study of the receiver alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from airfeel.config import Config, build_config
from airfeel.config.toml import merge
from airfeel.experiments.runner import execute


class Work(Protocol):
    """A unit of work: a frozen description with a folder of its own, done at most once."""

    @property
    def rounds(self) -> int:
        """How many lines its ``rounds.jsonl`` will have."""
        ...

    @property
    def scheme(self) -> str:
        """What is tried out."""
        ...

    def label(self) -> str:
        """Return the name of its folder, which ends with the hash of all that determines the result."""
        ...

    def to_toml(self) -> str:
        """Return the description as a file."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """How to read a unit of work from the keys of an experiment (and a name for errors), and how to do it."""

    load: Callable[[Mapping[str, Any], str], Any]
    execute: Callable[[Any, Path], None]


def _load_training(tree: Mapping[str, Any], source: str) -> Config:
    """Return the configuration of a run that computes in one thread: many runs keep all cores busy."""
    return build_config(merge({"run": {"threads": 1}}, tree), source=source)


def _train(config: Config, out: Path) -> None:
    execute(config, out)


KINDS: dict[str, Kind] = {"training": Kind(_load_training, _train)}
