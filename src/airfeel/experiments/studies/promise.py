"""What a link will do to a training, promised honestly: by theory, corrected by a run, or by a replay of it.

State evolution is right about signals that follow the Markov model. Gradients do so only roughly: error
feedback makes them flicker, their amplitudes have heavier tails, and EM settles on other chains when the
link changes. What that costs, a run tells.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel.theory.planner import LinkBudget, LinkForecast, LinkPlan
from airfeel.theory.prediction import late
from airfeel.units import decibel, from_decibel

Array = NDArray[np.floating[Any]]

MAP_SAMPLES, MAP_ROUNDS = 16_000, 40  # at most, per cell of a map: 144 cells should take about a minute
BELIEVED = 0.5  # share of a predicted change that is promised where only the records of a run are known


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """The NMSE over one link.

    ``rounds`` are numbered as in training; ``nmse_db``, ``believed_db`` (what the receiver thinks) and, where
    it is known, the standard error ``error_db`` belong to them. ``steady_db`` is the mean over their last
    quarter, ``best_db`` and ``worst_db`` the limits between which it should be found, and ``margin`` says in
    a plain sentence what was added to which prediction. Of a profile, ``plain_db`` is what ``steady_db``
    would be with devices like the profile's.
    """

    rounds: range | list[int]
    nmse_db: Array
    believed_db: Array
    steady_db: float
    best_db: float
    worst_db: float
    margin: str
    error_db: Array | None = None
    plain_db: float | None = None


@dataclass(frozen=True, slots=True)
class Margin:
    """Measured less predicted NMSE at a run's own link, in dB, and its standard deviation over rounds."""

    db: float
    spread: float

    @classmethod
    def learn(cls, measured_db: Array, predicted: Array) -> "Margin":
        """Compare the last quarter of the rounds, as means and round by round; ``predicted`` is linear."""
        measured_db, predicted = late(measured_db), late(predicted)
        total = decibel(float(np.mean(from_decibel(measured_db)))) - decibel(float(np.mean(predicted)))
        return cls(total, float(np.std(measured_db - decibel(predicted))))


class Promising(LinkForecast, Protocol):
    """A forecast that can be printed."""

    @property
    def basis(self) -> str:
        """Say on what the forecast rests."""
        ...

    def promise(self, link: LinkBudget) -> Promise:
        """Return what to expect of a link."""
        ...

    def for_map(self) -> LinkForecast:
        """Return a forecast that is quick enough for a map of many links."""
        ...


@dataclass(frozen=True, slots=True)
class ByTheory:
    """State evolution alone, as no run tells how far gradients are from the model."""

    plan: LinkPlan

    @property
    def basis(self) -> str:
        """Say on what the forecast rests."""
        return "by state evolution alone"

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return self.plan.steady_db(link)

    def promise(self, link: LinkBudget) -> Promise:
        """Return what the theory says."""
        found = self.plan.predict(link)
        steady = decibel(found.steady_nmse)
        return Promise(
            rounds=range(1, self.plan.rounds + 1),
            nmse_db=found.nmse_db,
            believed_db=decibel(found.variance / found.power),
            steady_db=steady,
            best_db=steady,
            worst_db=steady,
            margin="No margin: this holds for gradients that follow these chains, as real ones do only "
            "roughly. A margin comes from the folder of a run, with nothing but its link changed.",
            error_db=10 / np.log(10) * found.nmse_error / found.nmse,
        )

    def for_map(self) -> LinkPlan:
        """Follow fewer chains over fewer rounds."""
        plan = self.plan
        return replace(plan, samples=min(plan.samples, MAP_SAMPLES), rounds=min(plan.rounds, MAP_ROUNDS))


@dataclass(frozen=True, slots=True)
class ByRecords:
    """State evolution, moved to the error that a run had at its own link.

    What the theory says about another link is then a change from there. Part of the error is such that no
    link changes it, and the records do not tell how much: the promise takes half of the change, and its
    limits are all of it and nothing. ``file`` is the run's configuration.
    """

    plan: LinkPlan
    measured_db: float
    margin: Margin
    file: str

    @classmethod
    def learn(cls, plan: LinkPlan, own: LinkBudget, measured_db: Array, file: str) -> "ByRecords":
        """Predict the run's own link and compare; ``measured_db`` belongs to as many rounds as the plan."""
        margin = Margin.learn(measured_db, plan.predict(own).nmse)
        return cls(plan, decibel(float(np.mean(from_decibel(late(measured_db))))), margin, file)

    @property
    def basis(self) -> str:
        """Say on what the forecast rests."""
        return (
            f"this takes half of what state evolution says beyond the run's own {self.measured_db:.1f} dB; "
            f"airfeel run {self.file} --set run.record_aggregates=true gives a run that tells more"
        )

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return self._limits(self.plan.steady_db(link))[0]

    def promise(self, link: LinkBudget) -> Promise:
        """Return what the theory says, with the margin."""
        said = ByTheory(self.plan).promise(link)
        steady, best, worst = self._limits(said.steady_db)
        added = steady - said.steady_db
        margin = (
            f"Margin {added:+.1f} dB, limits {best:.1f} to {worst:.1f} dB: at its own link the run was "
            f"{self.margin.db:.1f} dB above state evolution (spread {self.margin.spread:.1f} dB from round "
            f"to round), and of the change to this link half is promised. For closer limits, let the run "
            f"keep its aggregates: airfeel run {self.file} --set run.record_aggregates=true"
        )
        moved = said.nmse_db + added
        return replace(said, nmse_db=moved, steady_db=steady, best_db=best, worst_db=worst, margin=margin)

    def for_map(self) -> "ByRecords":
        """Follow fewer chains, but all rounds, as the margin belongs to these."""
        return replace(self, plan=replace(self.plan, samples=min(self.plan.samples, MAP_SAMPLES)))

    def _limits(self, said_db: float) -> tuple[float, float, float]:
        """Return promise, best and worst for what state evolution says."""
        all_of_it, nothing = said_db + self.margin.db, self.measured_db
        spread = self.margin.spread
        promised = nothing + BELIEVED * (all_of_it - nothing)
        return promised, min(all_of_it, nothing) - spread, max(all_of_it, nothing) + spread
