"""The one table of results, a row per round of every finished run, and what is read from it by group.

Needs the extra ``report``: a table is a pandas DataFrame. A :class:`RunSelection` is the part of it that is
shown together: the runs of an experiment, or those that belong to none. Final accuracies are in percent, so
that their differences are points.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from airfeel._extras import LazyModule
from airfeel.lab.charts import reference
from airfeel.lab.plan import Begun, Experiment, ResultsFolder
from airfeel.lab.store import Array, FinishedRun, RunError
from airfeel.lab.studies.recorded import Observations, observations
from airfeel.registry import SCHEMES
from airfeel.units import decibel, from_decibel

pandas: Any = LazyModule("pandas", "report", "tables of results need")

Frame = Any  # a pandas DataFrame or Series
Line = tuple[str, str]  # curve and variant
BySeed = dict[Any, float]

LINE = ["curve", "variant"]
COLUMNS = (  # of every table, whatever its runs have recorded
    *("round", "accuracy", "loss", "nmse_db", "cumulative_nmse_db", "predicted_nmse_db"),
    *("symbols", "downlink", "iterations", "gap", "printed_bound"),
)
UNITS = {"air_seconds": "time on air (s)", "joules": "energy sent by a device (J)"}
_TINY = 1e-15  # a loss gap that is none


class Mean(NamedTuple):
    """The mean of some values with Student's 95 % confidence interval (none of a single value)."""

    value: float
    low: float
    high: float
    seeds: int

    @property
    def half(self) -> float:
        """Half the width of what is shown: of the interval, or, of two values, from one to the other.

        Student's interval of two is 12.7 times as wide as what lies between them and would hide all else.
        """
        return (self.high - self.value) / (student(2) if self.seeds == 2 else 1)

    def words(self, form: str) -> str:
        """Return the mean and half the width of its interval; a single value has none, of two both are told.

        >>> interval([1.0, 2.0, 3.0]).words(".2f"), interval([0.5]).words(".1f")
        ('2.00 ± 2.48', '0.5')
        >>> interval([2.0, 1.0]).words(".1f")
        '1.0 and 2.0'
        """
        if self.seeds == 2:
            return f"{self.value - self.half:{form}} and {self.value + self.half:{form}}"
        return f"{self.value:{form}}" + (f" ± {self.half:{form}}" if self.seeds > 1 else "")


def interval(values: Collection[float]) -> Mean:
    """Return the mean of ``values`` with Student's 95 % confidence interval.

    >>> mean = interval([1.0, 2.0, 3.0])
    >>> round(mean.value, 3), round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    count = len(values)
    mean = math.fsum(values) / count
    half = 0.0
    if count > 1:
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
        half = student(count) * spread / math.sqrt(count)
    return Mean(mean, mean - half, mean + half, count)


def band(value: Array, half: Array, metric: str) -> dict[str, Array]:
    """Return mean, low and high of a curve's band."""
    low, high = value - half, value + half
    if metric == "accuracy":  # Student's interval does not know that accuracy is a share
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    return {"mean": value, "low": low, "high": high}


@lru_cache
def student(count: int) -> float:
    """Return how many standard errors of so many values the interval goes to either side."""
    return float(stdtrit(count - 1, 0.975))


class Results:
    """The finished runs of a folder, or those given, and their table, every file read once."""

    def __init__(self, folder: ResultsFolder, runs: Mapping[str, FinishedRun] | None = None) -> None:
        self.folder = folder
        found = {label: folder.run(label) for label in folder.labels()} if runs is None else runs
        self.runs = {label: run for label, run in found.items() if run is not None}

    @cached_property
    def table(self) -> Frame:
        """One row per round of every run: its run, its seconds and all that was recorded."""
        return make_table(self.runs)

    def of(self, begun: Begun) -> "RunSelection":
        """Return the finished runs of an experiment."""
        members = [member for member in begun.members if member.label in self.runs]
        return self._selection(begun.experiment, members, len(begun.members) - len(members))

    def loose(self, labels: Collection[str]) -> "RunSelection":
        """Return runs that belong to no experiment: those that differ only in their seed are one curve."""
        order = {name: place for place, name in enumerate(SCHEMES.names())}
        settings = {label: self.runs[label].settings for label in labels}
        members = [
            (name, "", str(settings[label].get("seed")), label)
            for label, name in group_names(settings).items()
        ]
        members.sort(key=lambda m: (order.get(settings[m[3]]["scheme"], len(order)), m[0]))
        return self._selection(None, members)

    def _selection(
        self, experiment: Experiment | None, members: Sequence[tuple[str, str, Any, str]], missing: int = 0
    ) -> "RunSelection":
        listed = pandas.DataFrame(members, columns=[*LINE, "seed", "run"])
        rounds = self.table[self.table["run"].isin(listed["run"])]
        return RunSelection(experiment, listed, rounds, self.runs, missing)


def make_table(runs: Mapping[str, FinishedRun]) -> Frame:
    """Return the records of some runs as one table."""
    records = [run.rows for run in runs.values()]
    found = (key for of in records for key in of.keys if key not in ("run", "seconds", "status"))
    columns: dict[str, Any] = {
        "run": np.repeat(np.array(list(runs), dtype=object), [len(of) for of in records]),
        "seconds": [
            run.seconds.get(at, math.nan) for run in runs.values() for at in run.rows.values("round")
        ],
    }
    for key in dict.fromkeys([*COLUMNS, *found]):
        columns[key] = np.concatenate([np.zeros(0), *(of.numbers(key) for of in records)])
    return pandas.DataFrame(columns)


def compared(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that two runs must share to be averaged: those that determined the result."""
    return {key: settings.get(key) for key in settings["identity.keys"] if key != "seed"}


def group_names(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return by run what its group is called: its scheme, and those keys in which runs of it differ."""
    every = {label: compared(of) for label, of in settings.items()}
    names = {}
    for scheme in dict.fromkeys(of["scheme"] for of in every.values()):
        same = {label: of for label, of in every.items() if of["scheme"] == scheme}
        differ = differing(same.values())
        for label, of in same.items():
            names[label] = ", ".join([str(scheme), *(f"{key} = {of.get(key)}" for key in differ)])
    return names


def differing(every: Collection[Mapping[str, Any]]) -> list[str]:
    """Return the keys in which settings are not all alike."""
    keys = sorted({key for of in every for key in of})
    return [key for key in keys if len({repr(of.get(key)) for of in every}) > 1]


@dataclass(frozen=True, eq=False)
class RunSelection:
    """Runs that are shown together: those of an experiment, or, without one, those that belong to none."""

    experiment: Experiment | None
    members: Frame
    """one row for each: curve, variant, seed, and the name of the run, which several may share"""
    rounds: Frame
    """the rows of these runs in the table"""
    runs: Mapping[str, FinishedRun]
    """by name; there may be others"""
    missing: int = 0
    """how many planned runs are not there"""
    target: float | None = None
    """an accuracy to reach, where somebody asked"""
    _ends: dict[str, dict[Line, BySeed]] = field(default_factory=dict)

    @cached_property
    def lines(self) -> dict[Line, dict[Any, FinishedRun]]:
        """The runs by seed of every curve and variant of which any is there, in their order."""
        found: dict[Line, dict[Any, FinishedRun]] = {}
        for curve, variant, seed, run in self.members.itertuples(index=False):
            found.setdefault((curve, variant), {})[seed] = self.runs[run]
        return found

    @cached_property
    def every(self) -> list[FinishedRun]:
        """All of these runs, each once."""
        return [self.runs[label] for label in self.members["run"].unique()]

    @property
    def variants(self) -> list[str]:
        """What curves are shown under."""
        return list(dict.fromkeys(variant for _, variant in self.lines))

    @property
    def subjects(self) -> list[str]:
        """The curves that the experiment is about, as far as something of them is there."""
        shown = {curve for curve, _ in self.lines}
        return [name for name in (self.experiment.subjects if self.experiment else ()) if name in shown]

    @property
    def is_training(self) -> bool:
        """Whether models were trained; studies of the theory train nothing."""
        return self.experiment is None or self.experiment.kind == "training"

    @property
    def schemes(self) -> dict[str, str]:
        """The scheme of every curve."""
        return {
            curve: str(next(iter(of.values())).settings.get("scheme"))
            for (curve, _), of in self.lines.items()
        }

    @property
    def ideal(self) -> str:
        """The curve without radio that the others are held against; empty where there is none."""
        return reference(self.schemes)

    @cached_property
    def by_line(self) -> Frame:
        """The rounds once for every curve and variant that they belong to, with these and the seed."""
        return self.members.merge(self.rounds, on="run", how="inner")

    def rounds_of(self, line: Line) -> Frame:
        """Return the rounds of one curve and variant."""
        return self.by_line[(self.by_line["curve"] == line[0]) & (self.by_line["variant"] == line[1])]

    def ends(self, measure: str) -> dict[Line, BySeed]:
        """Return a measure by line and seed, where it is a number."""
        if measure not in self._ends:
            found = MEASURES[measure].take(self)
            members = self.members.assign(value=self.members["run"].map(found)).dropna(subset=["value"])
            self._ends[measure] = {line: {} for line in self.lines} | {
                line: dict(zip(rows["seed"], rows["value"], strict=True))
                for line, rows in members.groupby(LINE, sort=False)
                if len(rows)
            }
        return self._ends[measure]

    def gaps(self) -> dict[Line, BySeed]:
        """Return by how many points every seed stays behind training without radio, where both exist.

        Of runs that belong to no experiment, only those count that differ in nothing else.
        """
        finals, ideal, found = self.ends("final"), self.ideal, {}
        for line, of in finals.items():
            held = ideal, line[1]
            gap = {
                seed: finals[held][seed] - value
                for seed, value in of.items()
                if seed in finals.get(held, {})
                and (self.experiment or self.lines[line][seed].is_like(self.lines[held][seed]))
            }
            if gap and line != held:
                found[line] = gap
        return found

    def course(self, metric: str) -> Iterator[tuple[Line, int, dict[str, Array]]]:
        """Yield for every line its number of seeds and, over rounds, its band, symbols and units.

        Only rounds count in which every seed has a value.
        """
        if metric not in self.by_line:
            return
        rows = self.by_line[self.by_line[metric].notna()]
        units = [key for key in UNITS if key in rows]
        for line, of in rows.groupby(LINE, sort=False):
            seeds = len(self.lines[line])
            rounds = of[of.groupby("round")[metric].transform("size") == seeds].groupby("round", sort=True)
            if not rounds.ngroups:
                continue
            found = rounds[metric].agg(["mean", "std"])
            wide = (student(seeds) if seeds > 2 else 1.0) / math.sqrt(seeds)  # as Mean.half
            half = np.nan_to_num(found["std"].to_numpy()) * wide
            columns = {"round": found.index.to_numpy(), **band(found["mean"].to_numpy(), half, metric)}
            columns["symbols"] = np.nan_to_num(rounds["symbols"].first().to_numpy())
            yield (
                line,
                seeds,
                columns | {key: rounds[key].mean().to_numpy() for key in units if of[key].notna().all()},
            )


def late(rounds: Frame, key: str, parts: int, first: bool = False) -> Frame:
    """Return a column of one of so many parts of every run's rounds that have a value: the last, or first."""
    known = rounds[rounds[key].notna()]
    groups = known.groupby("run", sort=False)[key]
    chosen = groups.cumcount(ascending=first) < np.ceil(groups.transform("size") / parts)
    return known[chosen].groupby("run")[key]


def steady(rounds: Frame, key: str) -> Frame:
    """Return by run the mean NMSE of the second half of the rounds, taken of ratios and not of their dB."""
    return late(rounds, key, 2).agg(lambda values: decibel(float(np.mean(from_decibel(values.to_numpy())))))


def _bound_over_gap(shown: RunSelection) -> Frame:
    rows = shown.rounds.dropna(subset=["gap", "printed_bound"])
    ratio = np.log10(rows["printed_bound"] / np.maximum(rows["gap"], _TINY))
    return ratio.groupby(rows["run"]).min()


def _log_seconds(shown: RunSelection) -> Frame:
    rows = timed(shown.rounds)
    return np.log10((rows["seconds"] / rows["iterations"])[rows["seconds"] > 0].groupby(rows["run"]).median())


def timed(rounds: Frame) -> Frame:
    """Return the rounds that have both seconds and a receiver's iterations."""
    return rounds[rounds["seconds"].notna() & (rounds["iterations"] > 0)]


@lru_cache(maxsize=64)
def observed(run: FinishedRun) -> Observations:
    """Return the observations on a run's recorded aggregates, which take long to read."""
    return observations(run)


def _observed(name: str) -> Callable[[RunSelection], Frame]:
    """Return the measure that takes a number from the observations on a run's recorded aggregates."""

    def of(run: FinishedRun) -> float:
        try:
            return float(getattr(observed(run), name))
        except RunError:  # too few rounds, or no aggregates
            return math.nan

    return lambda shown: pandas.Series({run: of(shown.runs[run]) for run in shown.members["run"].unique()})


class Measure(NamedTuple):
    """A number of every run that says how it went: its name, how it is made, its unit, and the group-by.

    ``take`` returns a Series by run, or None for a measure of several curves together.
    """

    name: str
    how: str
    unit: str
    take: Callable[[RunSelection], Frame]


_TENTH, _HALF = "mean of the last tenth of the rounds", "mean of the second half of the rounds"
MEASURES: dict[str, Measure] = {
    "final": Measure(
        "final accuracy", _TENTH, "points", lambda s: 100 * late(s.rounds, "accuracy", 10).mean()
    ),
    "rate": Measure(
        "rate",
        "mean accuracy of the first third of the rounds",
        "points",
        lambda s: 100 * late(s.rounds, "accuracy", 3, first=True).mean(),
    ),
    "rate_per_symbol": Measure(
        "rate per symbol", "mean accuracy over the channel uses that both have", "points", lambda s: None
    ),
    "nmse_db": Measure("NMSE", _HALF, "dB", lambda s: steady(s.rounds, "nmse_db")),
    "unpredicted_db": Measure(
        "NMSE above state evolution",
        _HALF,
        "dB",
        lambda s: steady(s.rounds, "nmse_db") - steady(s.rounds, "predicted_nmse_db"),
    ),
    "improvement_db": Measure(
        "improvement of the NMSE",
        "first round over second half",
        "dB",
        lambda s: late(s.rounds, "nmse_db", 1).first() - steady(s.rounds, "nmse_db"),
    ),
    "bound_over_gap": Measure(
        "bound over loss gap", "smallest ratio of any round", "decades", _bound_over_gap
    ),
    "log_seconds": Measure("time", "log10 of the median seconds of an iteration", "decades", _log_seconds),
    "sparsity": Measure("sparsity", "share of coefficients that are zero", "", _observed("sparsity")),
    "persistence": Measure(
        "persistence", "share of the support that is left one round later", "", _observed("persistence")
    ),
    "correlation": Measure("correlation", "of amplitudes one round apart", "", _observed("correlation")),
    # What figures and tables show beside those; no claim is about them.
    "late_loss": Measure("final loss", _TENTH, "", lambda s: late(s.rounds, "loss", 10).mean()),
    "cumulative_nmse_db": Measure(
        "cumulative NMSE",
        "after the last round",
        "dB",
        lambda s: late(s.rounds, "cumulative_nmse_db", 1).last(),
    ),
    "predicted_nmse_db": Measure(
        "predicted NMSE", _HALF, "dB", lambda s: steady(s.rounds, "predicted_nmse_db")
    ),
    "downlink": Measure("downlink", "mean of all rounds", "", lambda s: late(s.rounds, "downlink", 1).mean()),
}
