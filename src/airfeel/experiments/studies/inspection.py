"""Does the Markov model fit a run's gradients? Statistics of its recorded aggregates, and two receivers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from airfeel._files import memory
from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, read_config
from airfeel.experiments.runs.files import RunError
from airfeel.experiments.runs.reading import FinishedRun, aggregate_file, checked_records, read_aggregate
from airfeel.experiments.studies.methods import is_dense
from airfeel.receivers.base import Reception
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.schemes.compressed import shared_seed
from airfeel.schemes.tsa_ga import TsaGa
from airfeel.simulation import Record
from airfeel.simulation.assembly import energy
from airfeel.streams import stream
from airfeel.theory.evolution import state_evolution
from airfeel.units import count, decibel

Array = NDArray[np.floating[Any]]

LAGS = 30  # rounds over which persistence and correlation are followed
FEWEST = 12  # rounds without which there is nothing to say
LEAST = 1e-4  # lower limit of fitted p01 and beta
ENERGY = 0.9  # share of the energy whose owners are counted
QUIET = 1e-12  # noise relative to the signal that stands for none
LONGEST, SAMPLES = 150, 24_000  # rounds and chains of a prediction


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


@dataclass(frozen=True, slots=True, eq=False)
class AggregateStatistics:
    """What the aggregates look like.

    ``activity``, ``leaving`` and ``entering`` are the share of nonzero coefficients and of those that became
    zero or nonzero, per round; ``level`` the root mean square of the nonzero ones. ``persistence`` is
    P(s_t+d = 1 | s_t = 1) and ``correlation`` that of the amplitudes of coefficients nonzero in both rounds,
    for d = 0, 1, ...; ``kurtosis`` is 3 for Gaussian amplitudes.
    """

    activity: Array
    leaving: Array
    entering: Array
    level: Array
    persistence: Array
    correlation: Array
    kurtosis: float
    chain: ChainParams


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """NMSE per round with memory, and without."""

    memory: Array
    alone: Array

    @property
    def late_db(self) -> tuple[float, float]:
        """Both in dB, over the second half of the rounds."""
        memory, alone = (values[len(values) // 2 :].mean() for values in (self.memory, self.alone))
        return decibel(float(memory)), decibel(float(alone))

    @property
    def gain_db(self) -> float:
        """How many dB memory gains in the second half of the rounds."""
        memory, alone = self.late_db
        return alone - memory


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """How well the aggregates are recovered: measured, and by state evolution for two fitted chains.

    ``learned`` is the chain that the receiver's EM held in the second half of the rounds (medians, variance
    1); the other was counted from round to round.
    """

    measured: Course
    learned: ChainParams
    predicted: Course
    predicted_from_counts: Course


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
    noise_var = getattr(config.channel, "noise_var", None) or 1.0
    equal = noise_var * rows / (config.devices.count**2 * energy(config, rows))
    noise = np.array([r.noise_var or 0.0 for r in records]) / power
    if is_dense(config.scheme):
        noise *= rows / aggregates.shape[1]  # its columns have unit norm, so that its rows are longer
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

    Parameters
    ----------
    sparsity
        Observation 1: share of the coefficients that are zero.
    energetic
        The same without a threshold: share of the coefficients that hold 90 % of the energy.
    persistence, persistence_lag2
        Observation 2: share of the nonzero coefficients that are nonzero in the next round, and in the one
        after. Supports drawn anew in every round would have 1 - sparsity.
    correlation, correlation_lag2
        Observation 3: correlation of the amplitudes with those of the next round, and of the one after,
        where both are nonzero. Error feedback makes aggregates flicker, so that two rounds may be more
        alike than neighbours.
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
    return Observations(
        sparsity=float(1 - found.activity.mean()),
        energetic=_energetic(aggregates),
        persistence=float(found.persistence[1]),
        persistence_lag2=float(found.persistence[2]),
        correlation=float(found.correlation[1]),
        correlation_lag2=float(found.correlation[2]),
    )


def _energetic(aggregates: Array) -> float:
    """Return the smallest share of coefficients that holds ``ENERGY`` of every round's energy, on average."""
    energy = np.cumsum(np.sort(aggregates**2, axis=1)[:, ::-1], axis=1)
    return float(np.mean(np.sum(energy < ENERGY * energy[:, -1:], axis=1) + 1) / aggregates.shape[1])


def fit(activity: float, p01: float, beta: float) -> ChainParams:
    """Return the chains with these moments, kept inside the valid range; the variance is 1."""
    activity = min(max(activity, 1e-6), 1 - 1e-6)
    p01 = min(max(p01, LEAST), 1.0, (1 - activity) / activity)
    return ChainParams(activity, p01, min(max(beta, LEAST), 1.0))


def compare_receivers(
    recorded: Recorded, counted: ChainParams, told: Callable[[int], None] = lambda round: None
) -> Recovery:
    """Send the recorded aggregates once more and recover them with and without memory.

    Rows and signs are those of the run; the noise is drawn anew with its variance. The memory starts and
    learns as the run's configuration says.
    """
    scheme, size = recorded.scheme, recorded.aggregates.shape[1]
    memory = scheme.receiver()
    alone = TurboCS(scheme.activity, max_iterations=scheme.max_iterations, precision=scheme.precision)
    state: Any = memory.init(size)
    errors, chains = [], []
    for reception, x in _receptions(recorded):
        estimate, state = memory.receive(state, reception)
        single, _ = alone.receive(alone.init(size), reception)
        errors.append([np.sum((e.mean - x) ** 2) / np.sum(x**2) for e in (estimate, single)])
        chains.append(None if estimate.info is None else estimate.info.chain)
        told(len(errors))
    learned = _middle([chain for chain in chains[len(chains) // 2 :] if chain is not None])
    measured = Course(*np.array(errors).T)
    return Recovery(measured, learned, _predict(recorded, learned), _predict(recorded, counted))


def _receptions(recorded: Recorded) -> Iterator[tuple[Reception, Array]]:
    """Yield what the server hears in every round, and the aggregate it has to find."""
    seed, size = recorded.config.seed, recorded.aggregates.shape[1]
    operator = partial(recorded.scheme.operator, size, recorded.rows)
    rounds = range(recorded.first_round, recorded.first_round + len(recorded.aggregates))
    for round, x, noise in zip(rounds, recorded.aggregates, recorded.noise, strict=True):
        noise_var = float(noise * np.mean(x**2))
        yield _send(x, operator(shared_seed(seed, round)), noise_var, seed, round), x


def _predict(recorded: Recorded, chain: ChainParams) -> Course:
    """Return what state evolution expects for this chain at the run's bandwidth and noise."""
    predict = partial(
        state_evolution,
        chain,
        recorded.rows / recorded.aggregates.shape[1],
        float(np.median(recorded.noise)) * chain.activity * chain.variance,
        samples=SAMPLES,
    )
    message, rounds = recorded.scheme.amplitude_message, min(len(recorded.aggregates), LONGEST)
    with_memory = predict(rounds=rounds, amplitude_message=message).nmse
    alone = predict(rounds=4, support_chain=False, amplitude_chain=False).nmse.mean()
    return Course(with_memory, np.full(rounds, alone))


def _middle(chains: Sequence[ChainParams]) -> ChainParams:
    """Return the medians of the parameters, with variance 1."""
    return fit(
        *(float(np.median([getattr(c, name) for c in chains])) for name in ("activity", "p01", "beta"))
    )


def _send(x: Array, operator: LinearOperator, noise_var: float, seed: int, round: int) -> Reception:
    noise = np.sqrt(noise_var) * stream(seed, "inspection noise", round).standard_normal(operator.shape[0])
    return Reception(operator @ x + noise, operator, noise_var)


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
