"""The receiver alone, on signals drawn from the paper's own model (17)-(19): no data, no training."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from airfeel.aggregators.base import count
from airfeel.aggregators.over_the_air import shared_seed
from airfeel.beliefs.chains import ChainParams
from airfeel.config import SCHEMES, mistakes, toml
from airfeel.config.sections import Count, Fraction, Probability, Section
from airfeel.experiments.studies import study
from airfeel.operators import GAUSSIAN_LIMIT, GaussianMatrix, PartialDCT
from airfeel.receivers.amp import AMP
from airfeel.receivers.base import Estimate, Receiver, Reception
from airfeel.receivers.tsaga import TSAGA
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.simulation.records import decibel
from airfeel.streams import bits
from airfeel.theory.planner import Link, Method, Plan
from airfeel.theory.scalar import sample_paths

Array = NDArray[np.floating[Any]]

SAMPLES = 80_000  # scalar chains of a prediction
_ALIKE = 4  # predicted rounds that are averaged where all rounds are alike
_SHARE, _DENSE_SHARE = 0.3, 3.0  # seconds of a round at N = 7850, and with s = N, over a training round's


class RecoveryStudy(Section):
    """Signal, link and receiver; the signal's amplitudes have the variance gamma = 1."""

    scheme: Literal[
        "tsa_ga", "tsa_ga_no_support", "tsa_ga_no_amplitude", "turbo_cs", "a_dsgd", "a_dsgd_mmse"
    ] = "tsa_ga"
    """matrix and receiver, by the name of the scheme that has them"""
    size: Count = 7850
    """N"""
    ratio: Fraction = 0.1
    """s/N, measurements per coefficient"""
    activity: Probability = 0.05
    """lambda, share of the coefficients that are not zero"""
    p01: Fraction = 0.01
    """P(1 -> 0)"""
    beta: Fraction = 0.01
    """forgetting of the amplitudes"""
    snr_db: float = 20.0
    """signal over noise in every measurement"""
    learn: bool = False
    """start at the paper's p01 = beta = 0.005 and learn by EM; otherwise the chains are known"""
    amplitude_message: Literal["expansion", "moments", "joint"] = "expansion"
    """expansion (the paper's), moments or joint"""
    doubt: bool = False
    """doubt a prior that a round contradicts, which the paper does not"""
    rounds: Count = 40
    """T"""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """decides signals, rows and noise"""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        limit = (1 - self.activity) / self.activity
        if self.p01 > limit:
            rule = f"must be <= (1 - activity)/activity = {limit:g}, or p10 > 1"
            raise mistakes.Contradiction("p01", self.p01, rule)
        if self.learn and not self.remembers:
            raise mistakes.Contradiction("learn", True, f"must be false with scheme = {self.scheme!r}")
        if self.dense and 4 * self.rows * self.size > GAUSSIAN_LIMIT:
            rule = f"must be smaller for a dense matrix, 4 * rows * size <= {GAUSSIAN_LIMIT} bytes"
            raise mistakes.Contradiction("size", self.size, rule)
        return self

    def digest(self) -> str:
        """Return a short hash of all keys."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def label(self) -> str:
        """Return ``recovery-<hash>``, the name of the study's folder."""
        return f"recovery-{self.digest()}"

    def to_toml(self) -> str:
        """Return the study as TOML with comments."""
        notes = {key: field.description or "" for key, field in mistakes.fields(type(self)).items()}
        return toml.dumps(self.model_dump(mode="json"), notes)

    @property
    def rows(self) -> int:
        """s."""
        return count(self.ratio, self.size)

    @property
    def chain(self) -> ChainParams:
        """The signal's."""
        return ChainParams(self.activity, self.p01, self.beta)

    @property
    def remembers(self) -> bool:
        """Whether the receiver carries something from round to round."""
        return SCHEMES[self.scheme].receiver == "tsaga"

    @property
    def dense(self) -> bool:
        """Whether the matrix is Gaussian."""
        return SCHEMES[self.scheme].matrix == "gaussian"

    @cached_property
    def noise_var(self) -> float:
        """sigma^2 of y = A x + n: the SNR is that of a measurement, whatever the norm of the rows of A."""
        power = self.activity * (self.size / self.rows if self.dense else 1.0)
        return float(power * 10 ** (-self.snr_db / 10))


def load(tree: Mapping[str, Any], source: str) -> RecoveryStudy:
    """Check the keys of a study; mistakes are named one sentence each."""
    try:
        return RecoveryStudy.model_validate(dict(tree))
    except ValidationError as error:
        raise ValueError(mistakes.sentences(error, RecoveryStudy, tree, source, {})) from None


def execute(work: RecoveryStudy, out: Path, force: bool, stop: Callable[[], bool]) -> bool:
    """Do a study in its folder below ``out/runs``; the seconds it notes are those of the receiver alone."""
    return study.execute("recovery", work, out, force, _follow(work, stop), _summarise)


def effort(work: RecoveryStudy) -> float:
    """Return roughly how long it takes, in units of a training round."""
    dense = _DENSE_SHARE * work.ratio * work.size / 7850 if work.dense else 0.0
    return work.rounds * work.size / 7850 * (_SHARE + dense) + work.rounds


def steady(values: Sequence[float]) -> float:
    """Return the mean of an NMSE over the second half of the rounds, all in dB.

    >>> steady([0.0, -10.0, -20.0, -20.0])
    -20.0
    """
    return float(10 * np.log10(np.mean(10 ** (np.asarray(values[len(values) // 2 :]) / 10))))


def predict(work: RecoveryStudy) -> Array:
    """Return the NMSE per round, in dB, that state evolution expects of a receiver with known chains."""
    scheme = SCHEMES[work.scheme]
    method = Method(denoiser=scheme.denoiser)
    if not work.dense:
        linked = work.remembers
        method = Method(
            work.amplitude_message, linked and scheme.support_chain, linked and scheme.amplitude_chain
        )
    rounds = work.rounds if work.remembers else _ALIKE
    link = Link(work.size, work.rows).with_snr(10 ** (work.snr_db / 10))
    nmse = Plan(work.chain, method, rounds, SAMPLES, work.seed).predict(link).nmse
    return 10 * np.log10(nmse if work.remembers else np.full(work.rounds, nmse.mean()))


def _follow(work: RecoveryStudy, stop: Callable[[], bool]) -> Iterator[tuple[study.Row, float]]:
    """Yield a row and the receiver's seconds, round after round."""
    receiver, predicted = _receiver(work), predict(work)
    state = receiver.init(work.size)
    for round, (reception, x) in enumerate(_receptions(work), start=1):
        if stop():
            raise study.Stopped
        began = time.perf_counter()
        estimate, state = receiver.receive(state, reception)
        seconds = time.perf_counter() - began
        yield _row(round, estimate, x, float(predicted[round - 1]), work.rows * round), seconds


def _receiver(work: RecoveryStudy) -> Receiver[Any]:
    """Return the receiver, which knows the chains unless it has to learn them."""
    scheme = SCHEMES[work.scheme]
    if work.dense:
        return AMP(work.activity, scheme.denoiser, variance=1.0)
    if not work.remembers:
        return TurboCS(work.activity, variance=1.0)
    known: dict[str, Any] = {"p01": work.p01, "beta": work.beta, "variance": 1.0}
    return TSAGA(
        work.activity,
        learn=work.learn,
        support_chain=scheme.support_chain,
        amplitude_chain=scheme.amplitude_chain,
        amplitude_message=work.amplitude_message,
        doubt=work.doubt,
        **({} if work.learn else known),
    )


def _receptions(work: RecoveryStudy) -> Iterator[tuple[Reception, Array]]:
    """Yield what is received and the signal behind it; every receiver meets the same signals and noise."""
    # Not the seed itself: the prediction draws its chains from the streams of that one.
    own = int(bits(work.seed, "recovery study").random_raw() >> 1)
    make: Any = GaussianMatrix if work.dense else PartialDCT
    paths = islice(sample_paths(work.chain, 1, work.size, own), work.rounds)
    for round, (x, noise) in enumerate(paths, start=1):
        operator = make(work.size, work.rows, shared_seed(work.seed, round))
        y = operator @ x[0] + np.sqrt(work.noise_var) * noise[0, : work.rows]
        yield Reception(y, operator, work.noise_var), x[0]


def _row(round: int, estimate: Estimate, x: Array, predicted: float, symbols: int) -> study.Row:
    """Return what is written down of a round; ``believed_nmse_db`` is what the receiver itself thinks."""
    assert estimate.info is not None and estimate.variance is not None
    power = float(np.sum(x**2)) or 1.0  # a signal of nothing but zeros
    chain = estimate.info.chain
    learned = ("activity", "p01", "beta", "variance")
    return {
        "round": round,
        "nmse_db": decibel(float(np.sum((estimate.mean - x) ** 2)) / power),
        "predicted_nmse_db": predicted,
        "believed_nmse_db": decibel(float(np.sum(estimate.variance, dtype=np.float64)) / power),
        "iterations": estimate.info.iterations,
        "status": estimate.info.status,
        **{name: None if chain is None else getattr(chain, name) for name in learned},
        "symbols": symbols,
    }


def _summarise(rows: list[dict[str, Any]]) -> study.Row:
    """Return NMSE in steady state, found and predicted."""
    return {
        "steady_nmse_db": steady([row["nmse_db"] for row in rows]),
        "predicted_steady_nmse_db": steady([row["predicted_nmse_db"] for row in rows]),
        "iterations": float(np.mean([row["iterations"] for row in rows])),
        "symbols": rows[-1]["symbols"],
    }
