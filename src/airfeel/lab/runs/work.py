"""One run to be computed: what it is, how it is done, and its place in an experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Described(Protocol):
    """A configuration, of training or of a study: what a folder and a table say of a run."""

    @property
    def rounds(self) -> int:
        """How many lines its ``rounds.jsonl`` will have."""
        ...

    @property
    def scheme(self) -> str:
        """What is tried out."""
        ...

    @property
    def seed(self) -> int:
        """Decides everything that is random."""
        ...

    def digest(self) -> str:
        """Return the hash of all that determines the result."""
        ...

    def label(self) -> str:
        """Return the name of the run's folder, which ends with the hash."""
        ...

    def to_toml(self) -> str:
        """Return the description as a file."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """A run with a folder of its own, computed at most once, here or in another process.

    Parameters
    ----------
    config
        What is computed.
    compute
        Computes it: called with ``config``, the results folder, whether to repeat a finished run, and a
        function that says whether to stop early; returns whether the run is complete. A function of a module,
        so that it can be sent to workers.
    effort
        Roughly how long it takes, in units of a training round with one local step.
    curve, variant
        Its place in an experiment: what is compared, and under which circumstances.
    """

    config: Described
    compute: Callable[[Any, Path, bool, Callable[[], bool]], bool]
    effort: float
    curve: str = ""
    variant: str = ""

    @property
    def label(self) -> str:
        """The name of its folder."""
        return self.config.label()

    @property
    def rounds(self) -> int:
        """How many lines its records will have."""
        return self.config.rounds

    @property
    def scheme(self) -> str:
        """What is tried out."""
        return self.config.scheme

    @property
    def seed(self) -> int:
        """Decides everything that is random."""
        return self.config.seed

    def do(self, out: Path, force: bool = False, stop: Callable[[], bool] = lambda: False) -> bool:
        """Compute it in ``out/runs`` unless it is finished; return whether it is complete."""
        return self.compute(self.config, out, force, stop)
