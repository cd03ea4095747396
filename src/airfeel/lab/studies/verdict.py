"""What an inspection found, in numbers for scripts and in sentences for people."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import ChainParams
from airfeel.lab.studies.aggregates import AggregateStatistics
from airfeel.lab.studies.inspection import Recovery
from airfeel.lab.studies.recorded import Recorded
from airfeel.units import decibel

Array = NDArray[np.floating[Any]]

WORTH, SMALL = 3.0, 1.0  # dB of gain from which memory is worth having, and below which it does not matter
CLOSE = 2.0  # dB between prediction and measurement within which the model is good enough to plan with


def model_persistence(chain: ChainParams, lags: int) -> Array:
    """Return P(s_t+d = 1 | s_t = 1) of the support chain (18) for d = 0, 1, ..."""
    stay = (1 - chain.p01 - chain.p10) ** np.arange(lags)
    return np.asarray(chain.activity + (1 - chain.activity) * stay)


def model_correlation(chain: ChainParams, lags: int) -> Array:
    """Return the autocorrelation (1 - beta)^d of the amplitude chain (19) for d = 0, 1, ..."""
    return np.asarray((1 - chain.beta) ** np.arange(lags))


def numbers(recorded: Recorded, found: AggregateStatistics, recovery: Recovery) -> dict[str, Any]:
    """Return every number of the inspection, rounded, as plain lists and floats."""
    courses = [
        ("measured", recovery.measured),
        ("learned", recovery.predicted),
        ("counted", recovery.predicted_from_counts),
    ]
    return {
        "rounds": len(recorded.aggregates),
        "size": recorded.aggregates.shape[1],
        "rows": recorded.rows,
        "receive_snr_db": _db(1 / float(np.median(recorded.noise))),
        "activity": _list(found.activity),
        "leaving": _list(found.leaving),
        "entering": _list(found.entering),
        "level": _list(found.level),
        "persistence": _list(found.persistence),
        "correlation": _list(found.correlation),
        "kurtosis": _short(found.kurtosis),
        "counted_chain": _chain(found.chain),
        "learned_chain": _chain(recovery.learned),
        "nmse_db": {name: dict(zip(("memory", "alone"), c.late_db, strict=True)) for name, c in courses},
        "gain_db": {name: c.gain_db for name, c in courses},
    }


def table(facts: dict[str, Any]) -> str:
    """Return the numbers as lines of text."""
    heads, kinds = ("activity", "p01", "beta"), ("measured", "learned", "counted")
    counted, learned, gains = facts["counted_chain"], facts["learned_chain"], facts["gain_db"]
    nmse = facts["nmse_db"]
    lines = [
        f"{facts['rounds']} rounds of {facts['size']} coefficients in {facts['rows']} channel uses, "
        f"receive SNR {facts['receive_snr_db']:.1f} dB",
        "",
        _line("chain parameters", heads),
        _line("as the receiver learns them", [f"{learned[head]:.4f}" for head in heads]),
        _line("counted from round to round", [f"{counted[head]:.4f}" for head in heads]),
        "",
        _line("", ["", "predicted", "predicted"]),
        _line("second half of the rounds", ["measured", "(learned)", "(counted)"]),
        _line("NMSE with memory (dB)", [f"{nmse[kind]['memory']:.2f}" for kind in kinds]),
        _line("NMSE without (dB)", [f"{nmse[kind]['alone']:.2f}" for kind in kinds]),
        _line("gain (dB)", [f"{gains[kind]:.2f}" for kind in kinds]),
    ]
    return "\n".join(lines)


def verdict(facts: dict[str, Any]) -> str:
    """Say in a few sentences whether the temporal prior pays, and whether the model describes the run."""
    gains = facts["gain_db"]
    gain, predicted, counted = gains["measured"], gains["learned"], gains["counted"]
    sentences = [_worth(gain, facts["rows"] / facts["size"])]
    sentences.append(
        f"For the chain it learned, state evolution predicts {predicted:.1f} dB: {_fits(gain - predicted)}."
    )
    if abs(counted - predicted) > CLOSE:
        sentences.append(
            f"For the chain counted from one round to the next it predicts {counted:.1f} dB: what happens "
            "between two rounds is not what happens over many, so the aggregates are no first-order chain "
            "(error feedback makes them flicker), or the receiver has not learned the right one."
        )
    return " ".join(sentences)


def _line(name: str, values: Iterable[str]) -> str:
    return f"{name:<30}" + "".join(f"{value:>12}" for value in values)


def _worth(gain: float, ratio: float) -> str:
    at = f"at s/N = {ratio:.3g}"
    if gain >= WORTH:
        return (
            f"Memory is worth having: the temporal prior gains {gain:.1f} dB over memoryless recovery {at}."
        )
    if gain >= SMALL:
        return f"Memory helps a little: the temporal prior gains {gain:.1f} dB over memoryless recovery {at}."
    if gain > -SMALL:
        return f"Memory makes no difference here: {gain:+.1f} dB against memoryless recovery {at}."
    return f"Memory hurts: the temporal prior loses {-gain:.1f} dB against memoryless recovery {at}."


def _fits(error: float) -> str:
    if abs(error) <= CLOSE:
        return "the Markov model describes this run well enough to plan with"
    if abs(error) <= 2 * CLOSE:
        return f"the Markov model describes this run roughly, to {abs(error):.1f} dB"
    return "the Markov model does not describe this run, so trust the measured value"


def _chain(chain: ChainParams) -> dict[str, float]:
    return {name: _short(getattr(chain, name)) for name in ("activity", "p01", "beta")}


def _list(values: Array) -> list[float]:
    return [_short(float(value)) for value in values]


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _db(ratio: float) -> float:
    return _short(decibel(ratio))
