"""The recorded aggregates of a run: read whole, and with the noise that their link had."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel._files import memory
from airfeel.config import Config, read_config
from airfeel.lab.store import FinishedRun, RunError, aggregate_file, checked_records, read_aggregate
from airfeel.lab.studies.methods import is_dense
from airfeel.schemes.tsa_ga import TsaGa
from airfeel.simulation.assembly import energy
from airfeel.simulation.records import Record
from airfeel.units import count

Array = NDArray[np.floating[Any]]

FEWEST = 12  # rounds without which there is nothing to say
QUIET = 1e-12  # noise relative to the signal that stands for none


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A run with its aggregates: x of every round (rounds, N), and the noise of y = A x + n.

    ``noise`` is sigma^2 relative to the mean square of x; a run without radio gets that of equal devices.
    """

    config: Config
    first_round: int
    aggregates: Array
    noise: Array

    @property
    def rows(self) -> int:
        """s, the channel uses per round."""
        return count(self.config.uplink.ratio, self.aggregates.shape[1])

    @property
    def scheme(self) -> TsaGa:
        """TSA-GA as the run's configuration describes it, whatever scheme it had."""
        scheme: TsaGa = self.config.scheme_as("tsa_ga")
        return scheme


def read_aggregates(run: Path | FinishedRun) -> tuple[Array, list[Record]]:
    """Return x (rounds, N) and the records of the rounds that a run kept with ``run.record_aggregates``.

    Given by its folder, a run is held against its manifest first.
    """
    folder = run if isinstance(run, Path) else run.folder
    if not (folder / "config.toml").exists():
        raise RunError(f"{folder} is not the folder of a run: airfeel run prints it as its last line")
    records = checked_records(run) if isinstance(run, Path) else run.records
    records = [r for r in records if aggregate_file(folder, r.round).exists()]
    if not records:
        raise RunError(f"{folder} holds no aggregates: repeat the run with --set run.record_aggregates=true")
    if len(records) < FEWEST:
        raise RunError(f"{folder} holds {len(records)} aggregates: must be at least {FEWEST}")
    aggregates = stack_aggregates(folder, [record.round for record in records])
    if not aggregates.any(axis=1).all():
        silent = records[int(np.argmin(aggregates.any(axis=1)))].round
        raise RunError(f"{folder} has nothing but zeros in round {silent}: the model cannot be judged")
    return aggregates, records


def read_recorded(folder: Path) -> Recorded:
    """Read a run that was carried out with ``run.record_aggregates``."""
    aggregates, records = read_aggregates(folder)
    config = read_config(folder / "config.toml")
    power = np.mean(aggregates**2, axis=1)  # of a measurement as well, as the rows of A have unit norm
    rows = count(config.uplink.ratio, aggregates.shape[1])
    noise = np.array([r.noise_var or 0.0 for r in records]) / power
    if is_dense(config.scheme):
        noise *= rows / aggregates.shape[1]  # its columns have unit norm, so that its rows are longer
    if not (noise > 0).all():
        noise_var = getattr(config.channel, "noise_var", None) or 1.0
        equal = noise_var * rows / (config.devices.count**2 * energy(config, rows))
        noise = np.where(noise > 0, noise, equal)
    return Recorded(config, records[0].round, aggregates, np.maximum(noise, QUIET))


def stack_aggregates(folder: Path, rounds: Sequence[int]) -> Array:
    """Return the aggregates of the given rounds as rows, all as long as the first."""
    first = _read(folder, rounds[0])
    if len(rounds) * first.nbytes > memory():
        raise RunError(
            f"{folder} holds {len(rounds)} aggregates of {first.size} coefficients: more than this machine's "
            f"memory of {memory()} bytes"
        )
    aggregates = np.empty((len(rounds), first.size))
    for row, round in zip(aggregates, rounds, strict=True):
        found = _read(folder, round)
        if found.size != first.size:
            raise _damaged(folder, round, f"{found.size} coefficients, not {first.size} as before")
        row[:] = found
    return aggregates


def _read(folder: Path, round: int) -> Array:
    try:
        return read_aggregate(folder, round)
    except OSError as error:
        raise _damaged(folder, round, error.strerror) from None


def _damaged(folder: Path, round: int, reason: object) -> RunError:
    return RunError(f"{aggregate_file(folder, round)} is damaged ({reason}): repeat the run with --force")
