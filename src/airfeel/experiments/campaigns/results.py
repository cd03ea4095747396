"""One table over all finished runs of a folder."""

import csv
import io
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from airfeel.config import Config, mistakes
from airfeel.experiments.campaigns.collect import known_experiments
from airfeel.experiments.runs import files
from airfeel.experiments.runs.rundir import finished, read_rows

COLUMNS = ("experiment", "scheme", "seed", "round", "accuracy", "loss", "nmse_db", "symbols", "energy")
_FROM_ROW = COLUMNS[3:]


def write_results(out: Path) -> Path:
    """Write ``out/results.csv``: one line per round of every finished run, in an order that never varies.

    A run that several experiments share has lines in each of them; one that belongs to none is listed under
    its name. The keys that any experiment sweeps are columns too.
    """
    path = out / "results.csv"
    experiments = known_experiments(out)
    keys = list(dict.fromkeys(key for experiment in experiments for key in experiment.swept()))
    complete = {folder.name: folder for folder in finished_runs(out)}
    with files.explained(out), files.locked(out / ".results.lock", wait=True):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*COLUMNS, *keys])
        alone = dict(complete)
        for experiment in experiments:
            labels = dict.fromkeys(run.work.label() for run in experiment.runs())
            for label in labels:
                alone.pop(label, None)
                if label in complete:
                    writer.writerows(_rows(complete[label], experiment.name, keys))
        for folder in alone.values():
            writer.writerows(_rows(folder, None, keys))
        files.remove_leftovers(out, "results.csv*")
        files.write_atomically(path, text.getvalue().encode())
    return path


def finished_runs(out: Path) -> list[Path]:
    """Return the folders of all complete runs, sorted by name."""
    return [path for path in sorted((out / "runs").glob("*")) if finished(path) is not None]


def read_settings(folder: Path) -> dict[str, Any]:
    """Return what a run was started with, by dotted key."""
    return mistakes.flatten(tomllib.loads(files.read_text(folder / "config.toml")))


def read_config(folder: Path) -> Config:
    """Return the configuration a training run was started with."""
    return Config.model_validate(tomllib.loads(files.read_text(folder / "config.toml")))


def _rows(folder: Path, experiment: str | None, keys: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the lines of one run; what does not exist becomes an empty cell."""
    settings: Mapping[str, Any] = read_settings(folder)
    head = [experiment or settings.get("name") or "run", settings["scheme"], settings["seed"]]
    tail = [settings.get(key) for key in keys]
    for row in read_rows(folder):
        yield [*head, *(row.get(column) for column in _FROM_ROW), *tail]
