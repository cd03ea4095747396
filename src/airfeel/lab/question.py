"""Questions before a system is built, answered by trial trainings: ordinary runs in a results folder.

How long until an accuracy, what accuracy within a budget, which value of a key it takes, which scheme gets
there first. An answer is right by construction for the settings of the trials. What it cannot know is the
next seed, so every number comes with an interval in which one more training lies with 98 %.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.special import stdtrit

from airfeel import _checks
from airfeel.config import Config, build_config, mistakes
from airfeel.config.parts import keys as all_keys
from airfeel.lab.plan import Experiment, FigureSpec, Member, ResultsFolder, check_target
from airfeel.lab.store import Row
from airfeel.learning.datasets import shape_of
from airfeel.ranges import MOST
from airfeel.registry import SCHEMES
from airfeel.simulation.assembly import make_task, make_units
from airfeel.units import count

LEVEL = 0.98  # with which one more training lies in an interval
TRIALS = 4  # trainings of each setting, unless somebody wants more
STEPS = 5  # of a bisection: an answer is known to 1/32 of the range
LIMITS = ("rounds", "seconds", "joules")
WAYS = {"air_seconds": "up", "downlink_seconds": "down"}  # what seconds add up
COSTS = dict(zip(LIMITS, ("rounds", "seconds", "joules of a device"), strict=True))
COSTS |= {way: f"seconds {end}" for way, end in WAYS.items()}
FIRST, OTHERS = "first seeds", "other seeds"  # curves of a search


class Span(NamedTuple):
    """A number and the interval in which one more training is expected."""

    value: float
    low: float
    high: float

    def words(self, form: str = ".3g", unit: str = "") -> str:
        """Return it as text."""
        return f"{self.value:{form}}{unit} ({self.low:{form}} to {self.high:{form}})"


def _refuse(wrong: object, sentence: str) -> None:
    if wrong:
        raise ValueError(sentence)


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """A question: the keys of all trainings, what is to be reached, within what, and what may change."""

    keys: Mapping[str, Any]
    target: float | None = None
    within: Mapping[str, float] = field(default_factory=dict)
    vary: str = ""
    schemes: Sequence[str] = ()
    seeds: int = TRIALS

    def __post_init__(self) -> None:
        """Refuse what is no question, or two at once."""
        within, both = " and ".join(f"--within-{name}" for name in self.within), "must not be given together"
        asked = check_target(self.target) is not None or self.within
        _refuse(not asked, "plan: must ask for --target-accuracy, --within-rounds, -seconds or -joules")
        _refuse(len(self.within) > 1, f"{within}: {both}; the tighter one decides")
        _refuse(self.vary and self.schemes, f"--vary and --schemes: {both}; ask one after the other")
        rule = "needs --target-accuracy, which a value must reach"
        _refuse(self.vary and self.target is None, f"--vary {self.vary}: {rule}")
        scheme, listed = self.keys.get("scheme"), ",".join(self.schemes)
        _refuse(self.schemes and scheme, f"--set scheme={scheme} and --schemes: {both}")
        twice = len(set(self.schemes)) < len(self.schemes)
        _refuse(twice, f"--schemes {listed}: no scheme may appear twice")
        for name, limit in self.within.items():
            if name == "rounds":
                _checks.integer("--within-rounds", limit, at_least=1, at_most=MOST)
            else:
                _checks.real(f"--within-{name}", limit, above=0)
        for scheme in self.schemes:
            SCHEMES.get(scheme)
        _checks.integer("--seeds", self.seeds, at_least=2)

    @property
    def config(self) -> Config:
        """The first training."""
        keys = {**self.keys, **({"scheme": self.schemes[0]} if self.schemes else {})}
        if self.vary:
            keys[self.search.key] = self.search.low
        config = build_config(keys, source="plan")
        rule = f"must be a key that changes results, and scheme = {config.scheme!r} does not read it"
        unread = self.vary and self.search.key not in config.identity()
        _refuse(unread, f"--vary {self.vary}: {rule}")
        return config

    @property
    def search(self) -> "Search":
        """Key and range of ``vary``."""
        return Search.read(self.vary, self.keys)

    def experiment(self, values: Sequence[float] = (), sure: Sequence[float] = ()) -> Experiment:
        """Return the trainings: one line, one for each scheme, or one for each value of the varied key.

        Of ``values`` the first half of the seeds is computed, of those in ``sure`` the others too.
        """
        config, first = self.config, int(self.keys.get("seed", 0))
        for name in self.schemes or [config.scheme]:
            silent = not getattr(SCHEMES.get(name).kind, "uses_radio", True)
            for limit in self.within.keys() - {"rounds"}:
                rule = f"sends nothing over the air, so there are no {limit} to count"
                _refuse(silent, f"scheme = {name!r}: {rule}")
        base = {key: value for key, value in self.keys.items() if key not in ("seed", "rounds")}
        seeds = list(range(first, first + self.seeds))
        shape: dict[str, Any] = {}
        if self.schemes:
            shape["curves"] = [{"label": name, "scheme": name} for name in self.schemes]
        if self.vary:
            key, half = self.search.key, self.seeds // 2
            labels = {self.search.label(value): value for value in sorted(values)}
            shape["curves"] = [
                {"label": FIRST, "seeds": seeds[:half]},
                {"label": OTHERS, "seeds": seeds[half:]},
            ]
            shape["variants"] = [{"label": label, **mistakes.nest({key: v})} for label, v in labels.items()]
            unsure = [label for label, value in labels.items() if value not in sure]
            why = "only what looks like the answer is confirmed"
            shape["left_out"] = [{"curve": OTHERS, "variants": unsure, "why": why}] if unsure else []
        else:
            x = "round" if make_units(config, config.part("channel")) is None else "air_seconds"
            title = f"Test accuracy over {'rounds' if x == 'round' else 'time on air'}"
            shape["figures"] = [FigureSpec(name=f"{self.name}-accuracy", title=title, x=x)]
        rounds = _rounds(config, self.within)
        tree = mistakes.nest(base)
        return Experiment(
            name=self.name, title=self.title, rounds=rounds, seeds=tuple(seeds), base=tree, **shape
        )

    @property
    def name(self) -> str:
        """Of its experiment: the same question goes on where it was."""
        told = [dict(self.keys), self.target, dict(self.within), self.vary, list(self.schemes), self.seeds]
        text = json.dumps(told, sort_keys=True, default=str)
        return f"plan-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def title(self) -> str:
        """The question in words."""
        words = [] if self.target is None else [f"{100 * self.target:g} % accuracy"]
        words += [f"within {limit:g} {name}" for name, limit in self.within.items()]
        words += [f"with {self.vary}"] if self.vary else []
        words += [f"of {', '.join(self.schemes)}"] if self.schemes else []
        return f"Plan: {' '.join(words)}"


@dataclass(frozen=True)
class Search:
    """A numeric key and the range in which a value of it is sought."""

    key: str
    low: float
    high: float
    whole: bool

    @classmethod
    def read(cls, text: str, given: Mapping[str, Any]) -> "Search":
        """Read ``key=low:high``."""
        key, _, ends = str(text).partition("=")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            rule = "must have the form key=low:high, such as radio.tx_power_dbm=0:30"
            raise ValueError(f"--vary {text}: {rule}") from None
        rules = {one.name: one.rule for one in all_keys()}
        rule = rules.get(key, "a finite number")  # of an unknown key the configuration tells
        whole = rule.startswith("a whole number")
        own = key in ("seed", "rounds", "run.evaluate_every")
        _refuse(own, f"--vary {text}: must not be {key}, which every trial has of its own")
        numeric = whole or rule.startswith("a finite number")
        _refuse(not numeric, f"--vary {text}: must be a key that is a number, and {key} is {rule}")
        _refuse(key in given, f"--vary {text}: must not be set too, and {key} = {given.get(key)} is")
        fits = low < high and math.isfinite(high - low)
        fits = fits and (not whole or (low.is_integer() and high.is_integer()))
        numbers = "whole numbers" if whole else "finite numbers"
        _refuse(not fits, f"--vary {text}: must be from a smaller to a larger value, {numbers}")
        return cls(key, int(low) if whole else low, int(high) if whole else high, whole)

    def middle(self, one: float, other: float, share: float = 0.5) -> float:
        """Return a value between two, by ratios where the range spans a decade and no decibels."""
        if self.low > 0 and self.high >= 10 * self.low and not self.key.endswith(("_db", "_dbm")):
            value = math.exp((1 - share) * math.log(one) + share * math.log(other))
            value = float(f"{value:.3g}")
        else:
            value = (1 - share) * one + share * other
            value = round(value, 1 - math.floor(math.log10((self.high - self.low) / 2**STEPS)))
        return round(value) if self.whole else value

    def label(self, value: float) -> str:
        """Return what a variant is called."""
        return f"{self.key} = {value:g}"


def _rounds(config: Config, within: Mapping[str, float]) -> int:
    """Return how long to train: as configured, but no longer than the budget lasts."""
    if "rounds" in within:
        return int(within["rounds"])
    if not within:
        return config.rounds
    units, ((name, limit),) = make_units(config, config.part("channel")), within.items()
    if units is None:
        rule = "needs a radio: --set radio.bandwidth_hz=1e6 --set radio.tx_power_dbm=10 and a path loss"
        raise ValueError(f"--within-{name} {limit:g}: {rule}")
    if name == "joules":  # what a round takes depends on the gradients
        return config.rounds
    one = units.air_seconds(count(config.uplink.ratio, make_task(config, shape_of(config.dataset)).size))
    rule = f"must be a round at least, which takes {one:.3g} s on air"
    _refuse(one > limit, f"--within-seconds {limit:g}: {rule}")
    return min(config.rounds, int(limit / one * (1 + 1e-9)))


def costs(row: Row) -> dict[str, float]:
    """Return what a training has taken so far, as far as it is known."""
    up, down = (row.get(way) for way in WAYS)
    both = None if up is None else up + (down or 0.0)
    known = zip(COSTS, (row["round"], both, row.get("joules"), up, down), strict=True)
    return {name: float(value) for name, value in known if value is not None}


def span(values: Sequence[float], ratios: bool = False) -> Span:
    """Return the mean with Student's prediction interval for one more value.

    Costs are told apart by their ratios: their mean and interval are those of the logarithms.
    """
    known = [math.log(value) for value in values] if ratios else values
    mean, spread = fmean(known), stdev(known) * math.sqrt(1 + 1 / len(known))
    half = float(stdtrit(len(known) - 1, (1 + LEVEL) / 2)) * spread
    ends = mean, mean - half, mean + half
    return Span(*map(math.exp, ends)) if ratios else Span(*ends)


@dataclass(frozen=True)
class Trial:
    """One training: its place in the experiment, and its evaluated rounds within the budget."""

    member: Member
    rows: Sequence[Row]
    last: Row

    def reached(self, target: float) -> dict[str, float] | None:
        """Return what it took to reach an accuracy; None where it does not."""
        return next((costs(row) for row in self.rows if row["accuracy"] >= target), None)

    @property
    def best(self) -> float:
        """The best accuracy within the budget."""
        return max((row["accuracy"] for row in self.rows), default=0.0)


def trials(inquiry: Inquiry, results: ResultsFolder, members: Iterable[Member]) -> list[Trial]:
    """Read the finished runs."""
    found = []
    for member in members:
        run = results.run(member.label)
        if run is None:
            raise ValueError(f"{results.path / 'runs' / member.label}: is damaged or was removed meanwhile")
        known = [row for row in run.rows if row.get("accuracy") is not None]
        limits = inquiry.within.items()
        kept = [row for row in known if all(costs(row)[name] <= limit * (1 + 1e-9) for name, limit in limits)]
        found.append(Trial(member, kept, run.rows[-1]))
    return found
