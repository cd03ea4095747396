"""Reference gradients for planning before any training of one's own: measured chains, errors and accuracies.

A profile is one training over several links with three seeds, kept as JSON beside the package's code. State
evolution for its chain orders links by their error; what the training measured at its links says which error
to expect, and what that error costs in rounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from airfeel import _checks
from airfeel._files import parse_json, read_shipped
from airfeel.beliefs.chains import ChainParams
from airfeel.experiments.studies.other_devices import Changed, OtherDevices
from airfeel.theory.planner import LinkPlan
from airfeel.units import from_decibel

HOME = "airfeel.profiles"
ROUNDS, SAMPLES = 100, 16_000  # of state evolution, for a profile's own links and for those asked about


@dataclass(frozen=True, slots=True)
class Measured:
    """One link of a profile: what state evolution says, what was measured, and the accuracy of every seed."""

    predicted_db: float
    nmse_db: float
    accuracy: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Profile:
    """Gradients of one training: N, their chain, the link's excess noise, and what was measured.

    ``evaluated`` are the rounds to which accuracies belong; ``about`` says in words what was trained.
    """

    name: str
    about: str
    size: int
    devices: int
    sparsity: float
    chain: ChainParams
    excess: float
    evaluated: Sequence[int]
    links: Sequence[Measured]
    others: OtherDevices

    def measured_db(self, predicted_db: float) -> tuple[float, float]:
        """Return which NMSE to expect where state evolution says this, and the error of such answers.

        Where nothing is heard both are 0 dB, and beyond the worst link the way leads there.
        """
        known = sorted((link.predicted_db, link.nmse_db) for link in self.links)
        return between(predicted_db, [*known, (0.0, 0.0)]), self.spread_db

    @property
    def spread_db(self) -> float:
        """Root mean square error at the profile's inner links, each told by the others."""
        known = sorted((link.predicted_db, link.nmse_db) for link in self.links)
        inner = range(1, len(known) - 1)
        errors = [known[i][1] - between(known[i][0], known[:i] + known[i + 1 :]) for i in inner]
        return float(np.sqrt(np.mean(np.square(errors))))

    def rounds_to(self, accuracy: float, nmse_db: float) -> list[float]:
        """Return after how many rounds every seed has the accuracy at this NMSE, between the links around it.

        Empty where the training had not reached it at one of them, or at errors larger than all measured;
        at smaller ones than all measured the best link speaks.
        """
        links = sorted(self.links, key=lambda link: link.nmse_db)
        if nmse_db > links[-1].nmse_db + self.spread_db:
            return []
        found = []
        for seed in range(len(links[0].accuracy)):
            takes = [(link.nmse_db, self._first(link.accuracy[seed], accuracy)) for link in links]
            rounds = between(nmse_db, [(db, math.log(n)) for db, n in takes], flat=True)
            if not math.isfinite(rounds):
                return []
            found.append(math.exp(rounds))
        return found

    def _first(self, course: Sequence[float], accuracy: float) -> float:
        """Return when a course first reaches an accuracy, linear between evaluated rounds."""
        before_round, before = 0.0, 0.0
        for round, value in zip(self.evaluated, course, strict=True):
            if value >= accuracy:
                share = (accuracy - before) / (value - before)
                return max(1.0, before_round + share * (round - before_round))
            before_round, before = round, value
        return math.inf


def names() -> list[str]:
    """Return the profiles that are shipped."""
    files = (entry.name for entry in resources.files(HOME).iterdir())
    return sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))


@cache
def load(name: str) -> Profile:
    """Read a shipped profile."""
    _checks.choice("--profile", name, names())
    facts = parse_json(read_shipped(HOME, f"{name}.json"))
    links = [Measured(link["predicted_db"], link["nmse_db"], link["accuracy"]) for link in facts["links"]]
    return Profile(
        name=name,
        about=facts["about"],
        size=facts["size"],
        devices=facts["devices"],
        sparsity=facts["sparsity"],
        chain=ChainParams(**facts["chain"]),
        excess=from_decibel(float(facts["excess_db"])),
        evaluated=facts["evaluated"],
        links=links,
        others=OtherDevices(devices=facts["devices"], links=[Changed(**link) for link in facts["others"]]),
    )


def plan_for(chain: ChainParams) -> LinkPlan:
    """Return how profiles ask state evolution, always in the same way."""
    return LinkPlan(chain, rounds=ROUNDS, samples=SAMPLES)


def between(x: float, known: Sequence[tuple[float, float]], flat: bool = False) -> float:
    """Interpolate in sorted pairs; beyond them go on in parallel to y = x, or ``flat``."""
    xs, ys = zip(*known, strict=True)
    if x <= xs[0] or x >= xs[-1]:
        end = 0 if x <= xs[0] else -1
        return float(ys[end] + (0.0 if flat else x - xs[end]))
    right = int(np.searchsorted(xs, x))
    share = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return float(ys[right - 1] + share * (ys[right] - ys[right - 1]))
