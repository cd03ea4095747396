"""What a link will do to the recovery: by theory, or by a replay of what a run has sent over its own link.

State evolution is right about signals that follow the Markov model. Gradients do so only roughly: error
feedback makes them flicker, their amplitudes have heavier tails, and EM settles on other chains when the
link changes. A replay assumes none of that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.receivers.base import Reception
from airfeel.schemes.compressed import Compressed, shared_seed
from airfeel.streams import stream
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.theory.prediction import late
from airfeel.units import decibel, from_decibel

Array = NDArray[np.floating[Any]]

MAP_SAMPLES, MAP_ROUNDS = 16_000, 40  # at most, per cell of a map: 144 cells should take about a minute


@dataclass(frozen=True, slots=True, eq=False)
class ForecastCourse:
    """The NMSE over one link, round by round.

    ``rounds`` are numbered as in training; ``nmse_db``, ``believed_db`` (what the receiver thinks) and, where
    it is known, the standard error ``error_db`` belong to them. ``steady_db`` is the mean over their last
    quarter, and ``basis`` says in plain sentences what all of it rests on.
    """

    rounds: Sequence[int]
    nmse_db: Array
    believed_db: Array
    steady_db: float
    basis: str
    error_db: Array | None = None


@dataclass(frozen=True, slots=True)
class ByTheory:
    """State evolution; ``hint`` says how to learn more."""

    plan: LinkPlan
    hint: str = "The folder of a run that kept its aggregates tells more."

    @property
    def name(self) -> str:
        """How the forecast is made, in a few words."""
        return "by state evolution"

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return self.plan.steady_db(link)

    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return what the theory says about a link."""
        found = self.plan.predict(link)
        return ForecastCourse(
            rounds=range(1, self.plan.rounds + 1),
            nmse_db=found.nmse_db,
            believed_db=decibel(found.variance / found.power),
            steady_db=decibel(found.steady_nmse),
            basis="By state evolution alone: this holds for gradients that follow these chains, as real ones "
            f"do only roughly. {self.hint}",
            error_db=10 / np.log(10) * found.nmse_error / found.nmse,
        )

    def for_map(self) -> "ByTheory":
        """Follow fewer chains over fewer rounds."""
        plan = self.plan
        samples, rounds = min(plan.samples, MAP_SAMPLES), min(plan.rounds, MAP_ROUNDS)
        return replace(self, plan=replace(plan, samples=samples, rounds=rounds))


@dataclass(frozen=True, slots=True, eq=False)
class ByReplay:
    """The real receiver on a run's own aggregates, at the noise that they would have over another link.

    Nothing is assumed about the gradients, and the receiver learns its chains anew for every link. What
    remains is that training itself changes a little with the errors of its link.

    Parameters
    ----------
    rounds, aggregates, noise_var, measured_db
        What the run sent, (rounds, N), the noise sigma^2 that each round met, and its NMSE.
    own, seed, scheme
        The run's link, seed and scheme.
    """

    rounds: Sequence[int]
    aggregates: Array
    noise_var: Array
    measured_db: Array
    own: LinkBudget
    seed: int
    scheme: Compressed

    @property
    def name(self) -> str:
        """How the forecast is made, in a few words."""
        return "by a replay of the run's recorded aggregates"

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return decibel(float(np.mean(late(self.replay(link)[0]))))

    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return the replay over a link, and how far a replay over the run's own link is from the run."""
        nmse, believed = self.replay(link)
        measured = decibel(float(np.mean(from_decibel(late(self.measured_db)))))
        off = round(measured - self.steady_db(self.own), 1) + 0.0
        return ForecastCourse(
            rounds=self.rounds,
            nmse_db=decibel(nmse),
            believed_db=decibel(believed),
            steady_db=decibel(float(np.mean(late(nmse)))),
            basis=f"By a replay of the run's recorded aggregates. Over its own link the run measured "
            f"{measured:.1f} dB, {off:+.1f} dB from its replay. Training itself changes with the link, which "
            "no replay shows.",
        )

    def for_map(self) -> "ByReplay":
        """Return this: a replay takes as long as any."""
        return self

    def replay(self, link: LinkBudget) -> tuple[Array, Array]:
        """Return NMSE per round, actual and believed by the receiver."""
        receiver = self.scheme.receiver()
        state = receiver.init(link.size)
        found = []
        for x, reception in self._receptions(link):
            estimate, state = receiver.receive(state, reception)
            power = float(np.sum(x**2))
            believed = np.nan if estimate.variance is None else float(np.sum(estimate.variance, dtype=float))
            found.append((float(np.sum((estimate.mean - x) ** 2)) / power, believed / power))
        actual, believed_nmse = np.array(found).T
        return actual, believed_nmse

    def _receptions(self, link: LinkBudget) -> Iterator[tuple[Array, Reception]]:
        """Yield x and what is heard of it; rows and signs are those that training at this link would draw."""
        scale = self.own.snr / link.snr  # of sigma^2 relative to the signal in a measurement
        for round, x, noise_var in zip(self.rounds, self.aggregates, self.noise_var, strict=True):
            operator = self.scheme.operator(link.size, link.rows, shared_seed(self.seed, round))
            noise = stream(self.seed, "replay noise", round).standard_normal(link.rows)
            here = float(noise_var * scale)
            yield x, Reception(operator @ x + np.sqrt(here) * noise, operator, here)
