"""Does the Markov model fit a run's gradients? Its recorded aggregates, recovered by two receivers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from airfeel.beliefs.chains import ChainParams
from airfeel.lab.studies.aggregates import fit
from airfeel.lab.studies.recorded import Recorded
from airfeel.receivers.base import Reception
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.schemes.compressed import shared_seed
from airfeel.streams import stream
from airfeel.theory.evolution import state_evolution
from airfeel.units import decibel

Array = NDArray[np.floating[Any]]

LONGEST, SAMPLES = 150, 24_000  # rounds and chains of a prediction


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
