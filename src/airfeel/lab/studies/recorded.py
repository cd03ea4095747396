"""Aggregates round by round: those a run recorded, or a file of gradients; and what they look like."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel._files import map_array, memory
from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, load_config, read_config
from airfeel.lab.store import Array, FinishedRun, RunError, aggregate_file, checked_records, read_aggregate
from airfeel.receivers.base import Reception
from airfeel.schemes.compressed import Compressed, shared_seed
from airfeel.schemes.sparsification import top_k
from airfeel.schemes.tsa_ga import TsaGa
from airfeel.simulation.assembly import energy
from airfeel.simulation.records import Record
from airfeel.streams import stream
from airfeel.theory.planner import is_dense
from airfeel.units import count, from_decibel

FEWEST = 12  # rounds without which there is nothing to say
QUIET = 1e-12  # noise relative to the signal that stands for none
LAGS = 30  # rounds over which persistence and correlation are followed
LEAST = 1e-4  # lower limit of fitted p01 and beta
ENERGY = 0.9  # share of the energy whose owners are counted


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


def send_again(
    aggregates: Array,
    rounds: Sequence[int],
    noise_var: Array,
    scheme: Compressed,
    rows: int,
    seed: int,
    purpose: str,
) -> Iterator[tuple[Array, Reception]]:
    """Yield every x and what is heard of it in ``rows`` symbols, with noise drawn anew for this purpose.

    Rows and signs are those that a training with this seed draws.
    """
    for round, x, variance in zip(rounds, aggregates, noise_var.tolist(), strict=True):
        operator = scheme.operator(x.size, rows, shared_seed(seed, round))
        noise = np.sqrt(variance) * stream(seed, purpose, round).standard_normal(rows)
        yield x, Reception(operator @ x + noise, operator, variance)


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


def read_gradients(path: Path, ratio: float, snr_db: float, sparsity: float | None = None) -> Recorded:
    """Read gradients (T, N) from an ``.npy`` file, to be sent in ``ratio`` N symbols at this receive SNR.

    With a ``sparsity`` every row keeps its so many largest entries with error feedback (8)-(10), as a device
    does; without, gradients are taken as they are.
    """
    _checks.real("--snr-db", snr_db, at_least=-100, at_most=200)
    settings = {"uplink.ratio": float(ratio)}
    if sparsity is not None:
        settings["uplink.sparsity"] = float(sparsity)
    config = load_config(None, settings)
    try:
        rows = map_array(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror})") from None
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or len(rows) < FEWEST:
        rule = f"must be real numbers of at least {FEWEST} rounds (T, N), one row each"
        raise RunError(f"{path} holds {rows.dtype} of shape {rows.shape}: {rule}")
    gradients: Array = np.array(rows, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(gradients).all(axis=1) | ~gradients.any(axis=1))
    if wrong.size:
        raise RunError(f"{path}: row {wrong[0]} must be finite, and not zero everywhere")
    if sparsity is not None:
        keep, memory = count(sparsity, gradients.shape[1]), np.zeros_like(gradients[:1])
        for row in gradients:
            kept, memory = top_k(memory + row, keep)
            row[:] = kept[0]
    return Recorded(config, 1, gradients, np.full(len(gradients), 1 / from_decibel(snr_db)))


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


@dataclass(frozen=True, slots=True, eq=False)
class AggregateStatistics:
    """What the aggregates look like.

    ``activity``, ``leaving`` and ``entering`` are the share of nonzero coefficients and of those that became
    zero or nonzero, per round; ``level`` the root mean square of the nonzero ones. ``persistence`` is
    P(s_t+d = 1 | s_t = 1) and ``correlation`` that of the amplitudes of coefficients nonzero in both rounds,
    for d = 0, 1, ...; ``kurtosis`` is 3 for Gaussian amplitudes. ``chain`` has the same moments.
    """

    activity: Array
    leaving: Array
    entering: Array
    level: Array
    persistence: Array
    correlation: Array
    kurtosis: float
    chain: ChainParams


def statistics(aggregates: Array) -> AggregateStatistics:
    """Return support and amplitude statistics; amplitudes are taken relative to their level in each round."""
    active = aggregates != 0
    level = np.sqrt(np.sum(aggregates**2, axis=1) / np.maximum(active.sum(axis=1), 1))
    amplitude = aggregates / level[:, None]
    lags = range(min(LAGS, len(aggregates) // 2) + 1)
    persistence = np.array([_share(active[d:], active[: len(active) - d]) for d in lags])
    correlation = np.array([_correlation(amplitude, active, d) for d in lags])
    values = amplitude[active]
    return AggregateStatistics(
        activity=active.mean(axis=1),
        leaving=np.array([1 - _share(now, before) for before, now in pairwise(active)]),
        entering=np.array([_share(now, ~before) for before, now in pairwise(active)]),
        level=level,
        persistence=persistence,
        correlation=correlation,
        kurtosis=float(np.mean(values**4) / np.mean(values**2) ** 2),
        chain=fit(float(active.mean()), float(1 - persistence[1]), float(1 - correlation[1])),
    )


@dataclass(frozen=True, slots=True)
class Observations:
    """The three observations of Section III in numbers, means over the rounds of a run.

    Observation 1 is ``sparsity``, the share of the coefficients that are zero, and without a threshold
    ``energetic``, the share that holds 90 % of the energy. Observation 2 is ``persistence``, the share of the
    nonzero coefficients that are nonzero in the next round (supports drawn anew would have 1 - sparsity), and
    observation 3 ``correlation``, that of the amplitudes with those of the next round, where both are
    nonzero. ``lag2`` means the round after the next: error feedback makes aggregates flicker, so that two
    rounds may be more alike than neighbours.
    """

    sparsity: float
    energetic: float
    persistence: float
    persistence_lag2: float
    correlation: float
    correlation_lag2: float


def observations(run: Path | FinishedRun) -> Observations:
    """Measure the paper's three observations (Fig. 2) on a run with ``run.record_aggregates``."""
    aggregates, _ = read_aggregates(run)
    found = statistics(aggregates)
    energy = np.cumsum(np.sort(aggregates**2, axis=1)[:, ::-1], axis=1)
    owners = np.sum(energy < ENERGY * energy[:, -1:], axis=1) + 1
    return Observations(
        float(1 - found.activity.mean()),
        float(np.mean(owners) / aggregates.shape[1]),
        *map(float, found.persistence[1:3]),
        *map(float, found.correlation[1:3]),
    )


def fit(activity: float, p01: float, beta: float) -> ChainParams:
    """Return the chains with these moments, kept inside the valid range; the variance is 1."""
    activity = min(max(activity, 1e-6), 1 - 1e-6)
    p01 = min(max(p01, LEAST), 1.0, (1 - activity) / activity)
    return ChainParams(activity, p01, min(max(beta, LEAST), 1.0))


def _share(now: NDArray[np.bool_], given: NDArray[np.bool_]) -> float:
    """Return the share of ``now`` among ``given``; 0 where nothing is given."""
    return float(np.count_nonzero(now & given)) / max(1, int(np.count_nonzero(given)))


def _correlation(amplitude: Array, active: NDArray[np.bool_], lag: int) -> float:
    """Return the correlation of amplitudes ``lag`` rounds apart, where both are active."""
    now, before = slice(lag, None), slice(None, len(amplitude) - lag)
    both = active[now] & active[before]
    a, b = amplitude[now][both], amplitude[before][both]
    scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
    return float(np.sum(a * b) / scale) if scale > 0 else 0.0
