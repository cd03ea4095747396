"""When a run reached an accuracy, with limits: from the runs with other seeds beside it, or from it alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from airfeel.experiments.campaigns.folder import ResultsFolder
from airfeel.experiments.report.groups import group_runs
from airfeel.experiments.report.means import Rows, interval
from airfeel.experiments.studies.engineering import Reaching


def run_reaching(folder: Path, rows: Rows, accuracy: float) -> Reaching:
    """Return the rounds until an accuracy of the run in ``folder``, whose records are ``rows``."""
    seeds = _alike(folder)
    return _of_seeds(seeds, accuracy) if len(seeds) > 1 else _of_one(rows, accuracy)


def reached(run: Rows, target: float) -> Mapping[str, float] | None:
    """Return the record of the first round whose accuracy is the target or more."""
    return next((row for row in run if row.get("accuracy") is not None and row["accuracy"] >= target), None)


def _alike(folder: Path) -> list[Rows]:
    """Return the records of all finished runs in the same results folder that differ in their seed alone."""
    path = folder.resolve()
    if path.parent.name != "runs":
        return []
    results = ResultsFolder(path.parent.parent)
    found = [run for label in results.labels() if (run := results.run(label)) is not None]
    groups = group_runs(run for run in found if "kind" not in run.summary)
    members = [group.runs for group in groups if any(run.folder.name == path.name for run in group.runs)]
    return [run.rows for run in members[0]] if members else []


def _of_seeds(seeds: Sequence[Rows], accuracy: float) -> Reaching:
    """Return the mean over seeds with its 95 % interval, which has no end where one never gets there."""
    found = [float(row["round"]) for rows in seeds if (row := reached(rows, accuracy)) is not None]
    if not found:
        return Reaching(None, None, None, f"none of {len(seeds)} seeds reached it")
    mean = interval(0, found)
    several = len(found) > 1
    low, high = max(1.0, mean.low), mean.high if several and len(found) == len(seeds) else None
    basis = f"mean over the {len(found)} of {len(seeds)} seeds that reached it in this results folder"
    return Reaching(mean.value, low if several else 1.0, high, f"{basis}, and its 95 % interval")


def _of_one(rows: Rows, accuracy: float) -> Reaching:
    """Return when one training first had the accuracy, and between which rounds that could have been.

    It was evaluated now and then: the accuracy may have been there since the evaluation before. It may also
    have come by chance: then the round counts from which it stayed.
    """
    evaluated = [row for row in rows if row.get("accuracy") is not None]
    first = reached(evaluated, accuracy)
    if first is None:
        return Reaching(None, None, None, "this run did not reach it")
    below = [row["round"] for row in evaluated if row["accuracy"] < accuracy]
    before = max((round for round in below if round < first["round"]), default=0)
    stays = next((row["round"] for row in evaluated if row["round"] > max(below, default=0)), None)
    basis = (
        "the first evaluation of this run that has it; limits: after the evaluation before, and the one from "
        "which on it stays. Runs with other seeds in the same results folder give an interval over seeds"
    )
    return Reaching(float(first["round"]), before + 1.0, None if stays is None else float(stays), basis)
