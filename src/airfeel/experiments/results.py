"""One table over all finished runs of a folder."""

import csv
import io
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from airfeel.config import Config
from airfeel.experiments import files
from airfeel.experiments.rundir import finished, read_records

COLUMNS = ("experiment", "scheme", "seed", "round", "accuracy", "loss", "nmse_db", "symbols", "energy")
_FROM_RECORD = COLUMNS[3:]


def write_results(out: Path, keys: Sequence[str] = ()) -> Path:
    """Write ``out/results.csv``: one line per round of every finished run, in an order that never varies.

    Parameters
    ----------
    out
        The folder that holds ``runs/``.
    keys
        Dotted configuration keys to be added as columns, such as those of a sweep.
    """
    path = out / "results.csv"
    with files.explained(out), files.locked(out / ".results.lock", wait=True):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*COLUMNS, *keys])
        for folder in finished_runs(out):
            writer.writerows(_rows(folder, keys))
        files.write_atomically(path, text.getvalue().encode())
    return path


def finished_runs(out: Path) -> list[Path]:
    """Return the folders of all complete runs, sorted by name."""
    return [path for path in sorted((out / "runs").glob("*")) if finished(path) is not None]


def read_config(folder: Path) -> Config:
    """Return the configuration a run was started with."""
    return Config.model_validate(tomllib.loads((folder / "config.toml").read_text(encoding="utf-8")))


def _rows(folder: Path, keys: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the lines of one run; None becomes an empty cell."""
    config = read_config(folder)
    head = [config.name or "run", config.scheme, config.seed]
    tail = [config.value(key) for key in keys]
    for record in read_records(folder):
        yield [*head, *(getattr(record, column) for column in _FROM_RECORD), *tail]
