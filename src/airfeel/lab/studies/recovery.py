"""The receiver alone, on signals drawn from the paper's own model (17)-(19): no data, no training."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from airfeel.beliefs.chains import ChainParams
from airfeel.config import identity, mistakes
from airfeel.config.sections import Section
from airfeel.lab.runner import Work
from airfeel.lab.store import ending_facts
from airfeel.lab.studies import Row, Stopped, execute
from airfeel.operators import GAUSSIAN_LIMIT, GaussianMatrix, PartialDCT
from airfeel.ranges import Count, Fraction, Probability
from airfeel.receivers.amp import AMP
from airfeel.receivers.base import Array, Receiver, Reception
from airfeel.receivers.tsaga import TSAGA
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.schemes.compressed import shared_seed
from airfeel.streams import bits
from airfeel.theory.planner import METHODS, LinkBudget, LinkPlan, Method
from airfeel.theory.scalar import sample_paths
from airfeel.units import count, decibel, from_decibel

SAMPLES = 80_000  # scalar chains of a prediction
LEARNED = ("activity", "p01", "beta", "variance")
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
        return identity.digest(self.model_dump(mode="json"))

    def label(self) -> str:
        """Return ``recovery-<hash>``, the name of the study's folder."""
        return f"recovery-{self.digest()}"

    def to_toml(self) -> str:
        """Return the study as TOML with comments."""
        notes = {key: field.description or "" for key, field in mistakes.fields(type(self)).items()}
        tree = self.model_dump(mode="json")
        return identity.dumps(tree | {"identity": {"hash": self.digest(), "keys": sorted(tree)}}, notes)

    @property
    def rows(self) -> int:
        """s."""
        return count(self.ratio, self.size)

    @property
    def chain(self) -> ChainParams:
        """The signal's."""
        return ChainParams(self.activity, self.p01, self.beta)

    @property
    def method(self) -> Method:
        """How the receiver recovers."""
        return METHODS[self.scheme]

    @property
    def remembers(self) -> bool:
        """Whether the receiver carries something from round to round."""
        return not self.dense and (self.method.support_chain or self.method.amplitude_chain)

    @property
    def dense(self) -> bool:
        """Whether the matrix is Gaussian."""
        return self.method.dense

    @cached_property
    def noise_var(self) -> float:
        """sigma^2 of y = A x + n: the SNR is that of a measurement, whatever the norm of the rows of A."""
        power = self.activity * (self.size / self.rows if self.dense else 1.0)
        return float(power * from_decibel(-self.snr_db))


def work(tree: Mapping[str, Any], source: str) -> Work:
    """Return a study as work after checking its keys; mistakes are named one sentence each."""
    try:
        config = RecoveryStudy.model_validate(dict(tree))
    except ValidationError as error:
        raise ValueError(mistakes.sentences(error, RecoveryStudy, tree, source, {})) from None
    scale = config.size / 7850
    dense = _DENSE_SHARE * config.ratio * scale if config.dense else 0.0
    return Work(config, _execute, effort=config.rounds * (1 + scale * (_SHARE + dense)))


def _execute(config: RecoveryStudy, out: Path, force: bool, stop: Callable[[], bool]) -> bool:
    """Do a study in its folder below ``out/runs``; the seconds it notes are those of the receiver alone."""
    return execute("recovery", config, out, force, _follow(config, stop), _summarise)


def steady(values: Sequence[float] | Array) -> float:
    """Return the mean of an NMSE over the second half of the rounds, all in dB.

    >>> steady([0.0, -10.0, -20.0, -20.0])
    -20.0
    """
    return decibel(float(np.mean(from_decibel(np.asarray(values[len(values) // 2 :])))))


def predict(config: RecoveryStudy) -> Array:
    """Return the NMSE per round, in dB, that state evolution expects of a receiver with known chains."""
    method = replace(config.method, amplitude_message=config.amplitude_message)
    rounds = config.rounds if config.remembers else _ALIKE
    link = LinkBudget(config.size, config.rows).with_snr(from_decibel(config.snr_db))
    nmse = LinkPlan(config.chain, method, rounds, SAMPLES, config.seed).predict(link).nmse
    return decibel(nmse if config.remembers else np.full(config.rounds, nmse.mean()))


def _follow(config: RecoveryStudy, stop: Callable[[], bool]) -> Iterator[tuple[Row, float]]:
    """Yield a row and the receiver's processor seconds, round after round."""
    receiver, predicted = _receiver(config), predict(config)
    state = receiver.init(config.size)
    for round, (reception, x) in enumerate(_receptions(config), start=1):
        if stop():
            raise Stopped
        began = time.process_time()  # of the processor: a busy machine hardly changes it
        estimate, state = receiver.receive(state, reception)
        seconds = time.process_time() - began
        info, power = estimate.info, float(np.sum(x**2)) or 1.0  # a signal of nothing but zeros
        assert info is not None and estimate.variance is not None  # every receiver here reports both
        row = {
            "round": round,
            "nmse_db": decibel(float(np.sum((estimate.mean - x) ** 2)) / power),
            "predicted_nmse_db": float(predicted[round - 1]),
            "believed_nmse_db": decibel(float(np.sum(estimate.variance, dtype=np.float64)) / power),
            "iterations": info.iterations,
            "status": info.status,
            **{name: getattr(info.chain, name, None) for name in LEARNED},
            "symbols": config.rows * round,
        }
        yield row, seconds


def _receiver(config: RecoveryStudy) -> Receiver[Any]:
    """Return the receiver, which knows the chains unless it has to learn them."""
    method = config.method
    if method.denoiser is not None:
        return AMP(config.activity, method.denoiser, variance=1.0)
    if not config.remembers:
        return TurboCS(config.activity, variance=1.0)
    known: dict[str, Any] = {"p01": config.p01, "beta": config.beta, "variance": 1.0}
    return TSAGA(
        config.activity,
        learn=config.learn,
        support_chain=method.support_chain,
        amplitude_chain=method.amplitude_chain,
        amplitude_message=config.amplitude_message,
        doubt=config.doubt,
        **({} if config.learn else known),
    )


def _receptions(config: RecoveryStudy) -> Iterator[tuple[Reception, Array]]:
    """Yield what is received and the signal behind it; every receiver meets the same signals and noise."""
    # Not the seed itself: the prediction draws its chains from the streams of that one.
    own = int(bits(config.seed, "recovery study").random_raw() >> 1)
    make: Any = GaussianMatrix if config.dense else PartialDCT
    paths = islice(sample_paths(config.chain, 1, config.size, own), config.rounds)
    for round, (x, noise) in enumerate(paths, start=1):
        operator = make(config.size, config.rows, shared_seed(config.seed, round))
        y = operator @ x[0] + np.sqrt(config.noise_var) * noise[0, : config.rows]
        yield Reception(y, operator, config.noise_var), x[0]


def _summarise(rows: list[dict[str, Any]]) -> Row:
    """Return NMSE in steady state, found and predicted, and how iterations ended."""
    return {
        "steady_nmse_db": steady([row["nmse_db"] for row in rows]),
        "predicted_steady_nmse_db": steady([row["predicted_nmse_db"] for row in rows]),
        "iterations": float(np.mean([row["iterations"] for row in rows])),
        **ending_facts(row["status"] for row in rows),
        "symbols": rows[-1]["symbols"],
    }
