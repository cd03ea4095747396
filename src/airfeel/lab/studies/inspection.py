"""Does the Markov model fit a run's gradients? Its recorded aggregates, recovered by two receivers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from airfeel.beliefs.chains import ChainParams
from airfeel.lab.charts import Figure
from airfeel.lab.store import Array
from airfeel.lab.studies.recorded import AggregateStatistics, Recorded, fit, send_again
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.theory.evolution import state_evolution
from airfeel.units import decibel

if TYPE_CHECKING:
    from airfeel.lab.curves import AnyDrawing

LONGEST, SAMPLES = 150, 24_000  # rounds and chains of a prediction
WORTH, SMALL = 3.0, 1.0  # dB of gain from which memory is worth having, and below which it does not matter
CLOSE = 2.0  # dB between prediction and measurement within which the model is good enough to plan with
CHAIN = ("activity", "p01", "beta")


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """NMSE per round with memory, and without."""

    memory: Array
    alone: Array

    @property
    def late_db(self) -> dict[str, float]:
        """Both in dB, over the second half of the rounds."""
        halves = {name: getattr(self, name)[len(self.memory) // 2 :] for name in ("memory", "alone")}
        return {name: decibel(float(values.mean())) for name, values in halves.items()}

    @property
    def gain_db(self) -> float:
        """How many dB memory gains in the second half of the rounds."""
        return self.late_db["alone"] - self.late_db["memory"]


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """How well the aggregates are recovered, and the chain that the receiver's EM ``learned``.

    That is the one held in the second half of the rounds (medians, variance 1). ``courses`` are those
    ``"measured"``, and by state evolution for the chain ``"learned"`` and for that ``"counted"`` from round
    to round.
    """

    learned: ChainParams
    courses: Mapping[str, Course]


def compare_receivers(
    recorded: Recorded, counted: ChainParams, told: Callable[[int], None] = lambda round: None
) -> Recovery:
    """Send the recorded aggregates once more and recover them with and without memory.

    Rows and signs are those of the run; the noise is drawn anew with its variance. The memory starts and
    learns as the run's configuration says.
    """
    scheme, (count, size) = recorded.scheme, recorded.aggregates.shape
    memory = scheme.receiver()
    alone = TurboCS(scheme.activity, max_iterations=scheme.max_iterations, precision=scheme.precision)
    rounds = range(recorded.first_round, recorded.first_round + count)
    noise_var = recorded.noise * np.mean(recorded.aggregates**2, axis=1)
    given = recorded.aggregates, rounds, noise_var, scheme, recorded.rows, recorded.config.seed
    state: Any = memory.init(size)
    errors, chains = [], []
    for x, reception in send_again(*given, "inspection noise"):
        estimate, state = memory.receive(state, reception)
        single, _ = alone.receive(alone.init(size), reception)
        errors.append([np.sum((e.mean - x) ** 2) / np.sum(x**2) for e in (estimate, single)])
        chains.append(None if estimate.info is None else estimate.info.chain)
        told(len(errors))
    held = [chain for chain in chains[len(chains) // 2 :] if chain is not None]
    learned = fit(*(float(np.median([getattr(chain, name) for chain in held])) for name in CHAIN))
    predicted = {"learned": _predict(recorded, learned), "counted": _predict(recorded, counted)}
    return Recovery(learned, {"measured": Course(*np.array(errors).T), **predicted})


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


def model_persistence(chain: ChainParams, lags: int) -> Array:
    """Return P(s_t+d = 1 | s_t = 1) of the support chain (18) for d = 0, 1, ..."""
    stay = (1 - chain.p01 - chain.p10) ** np.arange(lags)
    return np.asarray(chain.activity + (1 - chain.activity) * stay)


def model_correlation(chain: ChainParams, lags: int) -> Array:
    """Return the autocorrelation (1 - beta)^d of the amplitude chain (19) for d = 0, 1, ..."""
    return np.asarray((1 - chain.beta) ** np.arange(lags))


def numbers(recorded: Recorded, found: AggregateStatistics, recovery: Recovery) -> dict[str, Any]:
    """Return every number of the inspection, rounded, as plain lists and floats."""
    lists = ("activity", "leaving", "entering", "level", "persistence", "correlation")
    return {
        "rounds": len(recorded.aggregates),
        "size": recorded.aggregates.shape[1],
        "rows": recorded.rows,
        "receive_snr_db": _short(decibel(1 / float(np.median(recorded.noise)))),
        **{name: [_short(value) for value in getattr(found, name)] for name in lists},
        "kurtosis": _short(found.kurtosis),
        "counted_chain": {name: _short(getattr(found.chain, name)) for name in CHAIN},
        "learned_chain": {name: _short(getattr(recovery.learned, name)) for name in CHAIN},
        "nmse_db": {name: course.late_db for name, course in recovery.courses.items()},
        "gain_db": {name: course.gain_db for name, course in recovery.courses.items()},
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def table(facts: dict[str, Any]) -> str:
    """Return the numbers as lines of text."""
    kinds = ("measured", "learned", "counted")
    counted, learned, gains = facts["counted_chain"], facts["learned_chain"], facts["gain_db"]
    nmse = facts["nmse_db"]
    lines = [
        f"{facts['rounds']} rounds of {facts['size']} coefficients in {facts['rows']} channel uses, "
        f"receive SNR {facts['receive_snr_db']:.1f} dB",
        "",
        _line("chain parameters", CHAIN),
        _line("as the receiver learns them", [f"{learned[name]:.4f}" for name in CHAIN]),
        _line("counted from round to round", [f"{counted[name]:.4f}" for name in CHAIN]),
        "",
        _line("", ["", "predicted", "predicted"]),
        _line("second half of the rounds", ["measured", "(learned)", "(counted)"]),
        _line("NMSE with memory (dB)", [f"{nmse[kind]['memory']:.2f}" for kind in kinds]),
        _line("NMSE without (dB)", [f"{nmse[kind]['alone']:.2f}" for kind in kinds]),
        _line("gain (dB)", [f"{gains[kind]:.2f}" for kind in kinds]),
    ]
    return "\n".join(lines)


def _line(name: str, values: Iterable[str]) -> str:
    return f"{name:<30}" + "".join(f"{value:>12}" for value in values)


def verdict(facts: dict[str, Any]) -> str:
    """Say in a few sentences whether the temporal prior pays, and whether the model describes the run."""
    gain, predicted, counted = (facts["gain_db"][kind] for kind in ("measured", "learned", "counted"))
    against = f"memoryless recovery at s/N = {facts['rows'] / facts['size']:.3g}."
    if gain >= SMALL:
        worth = "is worth having" if gain >= WORTH else "helps a little"
        said = f"Memory {worth}: the temporal prior gains {gain:.1f} dB over {against}"
    elif gain > -SMALL:
        said = f"Memory makes no difference here: {gain:+.1f} dB against {against}"
    else:
        said = f"Memory hurts: the temporal prior loses {-gain:.1f} dB against {against}"
    error = abs(gain - predicted)
    if error <= CLOSE:
        fits = "the Markov model describes this run well enough to plan with"
    elif error <= 2 * CLOSE:
        fits = f"the Markov model describes this run roughly, to {error:.1f} dB"
    else:
        fits = "the Markov model does not describe this run, so trust the measured value"
    said += f" For the chain it learned, state evolution predicts {predicted:.1f} dB: {fits}."
    if abs(counted - predicted) > CLOSE:
        said += (
            f" For the chain counted from one round to the next it predicts {counted:.1f} dB: what happens "
            "between two rounds is not what happens over many, so the aggregates are no first-order chain "
            "(error feedback makes them flicker), or the receiver has not learned the right one."
        )
    return said


def draw_inspection(recorded: Recorded, found: AggregateStatistics, recovery: Recovery) -> list["AnyDrawing"]:
    """Return sparsity, persistence, correlation, magnitude map and recovery. Needs the extra ``report``."""
    from airfeel.lab.curves import plain_curves  # which stand on the list of studies
    from airfeel.lab.exhibits.magnitudes import magnitude_map

    lags = len(found.persistence)
    measured, predicted = recovery.courses["measured"], recovery.courses["learned"]
    rounds = np.arange(len(recorded.aggregates)) + recorded.first_round
    forms = (
        ("persistence", "support persistence", "P(still nonzero)", model_persistence),
        ("correlation", "amplitude autocorrelation", "correlation", model_correlation),
    )
    memories = [
        plain_curves(
            Figure(name, title, "", y_title, x_title="rounds later"),
            {
                "measured": (range(lags), getattr(found, name)),
                "chain counted from round to round": (range(lags), model(found.chain, lags)),
                "chain the receiver learned": (range(lags), model(recovery.learned, lags)),
            },
        )
        for name, title, y_title, model in forms
    ]
    return [
        plain_curves(
            Figure("sparsity", "support over time", "", "share of coefficients"),
            {
                "nonzero": (rounds, found.activity),
                "nonzero that become zero": (rounds[1:], found.leaving),
                "zero that become nonzero": (rounds[1:], found.entering),
            },
        ),
        *memories,
        magnitude_map(recorded.aggregates, recorded.first_round),
        plain_curves(
            Figure("recovery", "recovery of the recorded aggregates", "", "NMSE (dB)"),
            {
                "with memory": (rounds, decibel(measured.memory)),
                "without memory": (rounds, decibel(measured.alone)),
                "with memory, predicted": (rounds, decibel(predicted.memory)),
                "without memory, predicted": (rounds, decibel(predicted.alone)),
            },
        ),
    ]
