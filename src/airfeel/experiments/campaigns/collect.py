"""What a results folder knows of its experiments: curves with the records of every seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel.experiments.campaigns.plan import Experiment, PlannedRun, read_experiment
from airfeel.experiments.runs import files
from airfeel.experiments.runs.rundir import finished, read_rows


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One curve under one variant: the rounds of every finished seed, in the order of the seeds.

    ``rows`` holds per seed a list with one dictionary per round, as in ``rounds.jsonl``.
    """

    curve: str
    variant: str
    rows: Mapping[int, Sequence[Mapping[str, Any]]]
    folders: Mapping[int, Path]

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


def remember_experiment(experiment: Experiment, out: Path) -> None:
    """Keep the experiment in ``out/experiments``, so that tables and pages know which runs belong to it."""
    with files.explained(out):
        (out / "experiments").mkdir(parents=True, exist_ok=True)
        files.write_atomically(out / "experiments" / f"{experiment.name}.toml", experiment.to_toml().encode())


def known_experiments(out: Path) -> list[Experiment]:
    """Return the experiments that were begun in a results folder, by name."""
    return [read_experiment(path) for path in sorted((out / "experiments").glob("*.toml"))]


def collect(experiment: Experiment, out: Path) -> Collected:
    """Read the finished runs of an experiment; curves without any are left out."""
    groups: dict[tuple[str, str], list[PlannedRun]] = {}
    runs = experiment.runs()
    for run in runs:
        groups.setdefault((run.curve, run.variant), []).append(run)
    lines = []
    for (curve, variant), members in groups.items():
        folders = {run.seed: out / "runs" / run.work.label() for run in members}
        done = {seed: path for seed, path in folders.items() if finished(path) is not None}
        if done:
            lines.append(Line(curve, variant, {seed: read_rows(path) for seed, path in done.items()}, done))
    return Collected(experiment, lines, len(runs) - sum(len(line.rows) for line in lines))
