"""What a results folder knows of an experiment: curves with the finished run of every seed."""

from __future__ import annotations  # imports for type checkers alone

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airfeel.lab.store import FinishedRun, Row

if TYPE_CHECKING:
    from airfeel.lab.folder import Begun, Member, ResultsFolder
    from airfeel.lab.plan import Experiment


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One curve under one variant: the finished runs by seed, in the order of the seeds."""

    curve: str
    variant: str
    runs: Mapping[int, FinishedRun]

    @property
    def rows(self) -> dict[int, Sequence[Row]]:
        """Per seed one dictionary per round, as in ``rounds.jsonl``."""
        return {seed: run.rows for seed, run in self.runs.items()}

    @property
    def label(self) -> str:
        """Curve and variant in words."""
        return ", ".join(word for word in (self.curve, self.variant) if word)


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """An experiment with its results, and how many of its runs are missing."""

    experiment: Experiment
    lines: Sequence[Line]
    missing: int

    def line(self, curve: str, variant: str = "") -> Line | None:
        """Return one curve under one variant, None where no seed of it is finished."""
        wanted = (found for found in self.lines if (found.curve, found.variant) == (curve, variant))
        return next(wanted, None)


def collect(begun: Begun, results: ResultsFolder) -> Collected:
    """Read the finished runs of an experiment; curves without any are left out."""
    groups: dict[tuple[str, str], list[Member]] = {}
    for member in begun.members:
        groups.setdefault((member.curve, member.variant), []).append(member)
    lines = []
    for (curve, variant), members in groups.items():
        runs = {member.seed: results.run(member.label) for member in members}
        done = {seed: run for seed, run in runs.items() if run is not None}
        if done:
            lines.append(Line(curve, variant, done))
    return Collected(begun.experiment, lines, len(begun.members) - sum(len(line.runs) for line in lines))
