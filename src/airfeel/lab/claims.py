"""Judge what the paper says by what was measured: every sentence is a rule over results, in ``claims.toml``.

Student's 95 % interval over the seeds, however many there are, decides on every comparison of a rule: wholly
inside the claimed range, wholly outside, or neither.

A claim is *reproduced* if all of its comparisons hold: a claim that does not hold has one that does not, and
the chance that this one's 95 % interval lies wholly on the claimed side is at most 2.5 % (an
intersection-union test, which needs no correction). A claim is *not reproduced* if any comparison fails, so
that there the chances of all comparisons add up. Over many claims, Holm's method says which verdicts stand.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import TypeAdapter
from scipy.special import stdtr

from airfeel.lab.claim_rules import (
    Claim,
    Comparison,
    against_strong_rival,
    comparisons,
    in_words,
    shipped_claims,
)
from airfeel.lab.table import Frame, Mean, RunSelection, interval, student

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
UNDECIDED = "undecided at this number of seeds"
SINGLE_SEED = "undecided: a single seed has no interval"
NOT_RUN = "not run"
INCOMPLETE = "undecided: not all of it was run"
ORDER = (NOT_REPRODUCED, INCOMPLETE, NOT_RUN, UNDECIDED, SINGLE_SEED, REPRODUCED)
"""Of several parts, the first outcome in this order is that of the whole."""

STANDS = {True: "stands", False: "may be chance", None: ""}
SHORT = {REPRODUCED: REPRODUCED, NOT_REPRODUCED: NOT_REPRODUCED, INCOMPLETE: "not run in full"}
LEVEL = 0.05  # chance that any verdict among those that stand is wrong
GRID = 400  # points at which curves over symbols are compared


@dataclass(frozen=True, slots=True)
class ClaimPart:
    """One comparison: its mean over seeds, Student's 95 % interval (nan: there is none) and the outcome.

    ``chance`` is how easily chance alone gives that outcome, 1 where nothing is decided.
    """

    what: str
    value: float
    low: float
    high: float
    outcome: str
    seeds: int = 0
    chance: float = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim; where A-DSGD is part of it, also with A-DSGD, MMSE in its place.

    ``chance`` is how easily chance alone gives the outcome, in either direction; ``stands`` says whether it
    stands with Holm's correction for all claims judged together, None where nothing is decided.
    """

    number: int
    claim: str
    place: str
    rule: str
    outcome: str
    parts: Sequence[ClaimPart]
    against_mmse: str | None
    mmse_parts: Sequence[ClaimPart]
    note: str
    chance: float = 1.0
    stands: bool | None = None


def judge(collected: Mapping[str, RunSelection]) -> list[Verdict]:
    """Judge the claims, in order of number; those of which nothing was run are left out."""
    verdicts = [judge_claim(claim, collected) for claim in shipped_claims()]
    return corrected([v for v in verdicts if any(part.outcome != NOT_RUN for part in v.parts)])


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Say of every decided verdict whether it stands beside all the others."""
    return [
        replace(verdict, stands=stands if verdict.outcome in (REPRODUCED, NOT_REPRODUCED) else None)
        for verdict, stands in zip(verdicts, holm([verdict.chance for verdict in verdicts]), strict=True)
    ]


def judge_claim(claim: Claim, collected: Mapping[str, RunSelection]) -> Verdict:
    """Judge one claim, a second time with A-DSGD, MMSE where it names A-DSGD."""
    parts = [_judge(comparison, collected) for rule in claim.rules for comparison in comparisons(rule)]
    strong = [against_strong_rival(rule) for rule in claim.rules]
    named = strong != list(claim.rules)
    second = [_judge(c, collected) for rule in strong for c in comparisons(rule)] if named else []
    rule = "; ".join(in_words(rule) for rule in claim.rules)
    return Verdict(
        number=claim.number,
        claim=claim.claim,
        place=claim.place,
        rule=rule[0].upper() + rule[1:],
        outcome=_whole(parts),
        parts=parts,
        against_mmse=_whole(second) if named else None,
        mmse_parts=second,
        note=claim.note,
        chance=_whole_chance(parts),
    )


def claims_table(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return number, verdicts and text of every claim, first the heading."""
    rows = [["claim", "verdict", "with Holm's correction", "against A-DSGD, MMSE", ""]]
    return rows + [
        [str(v.number), v.outcome, STANDS[v.stands], v.against_mmse or "", v.claim] for v in verdicts
    ]


def to_json(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as a list in JSON; what is not a number there is null."""
    return TypeAdapter(Sequence[Verdict]).dump_json(verdicts, indent=2).decode() + "\n"


def _judge(comparison: Comparison, collected: Mapping[str, RunSelection]) -> ClaimPart:
    """Compare over the seeds that all lines have."""
    values = _values(comparison, collected)
    if not values:
        return ClaimPart(comparison.what, math.nan, math.nan, math.nan, NOT_RUN)
    mean, claimed = interval(values), (comparison.low, comparison.high)  # limits do not belong to the range
    outcome, chance = UNDECIDED, 1.0
    if mean.seeds == 1:
        outcome = SINGLE_SEED
    elif claimed[0] < mean.low and mean.high < claimed[1]:
        outcome, chance = REPRODUCED, chance_inside(mean, *claimed)
    elif mean.high <= claimed[0] or claimed[1] <= mean.low:
        outcome, chance = NOT_REPRODUCED, chance_outside(mean, *claimed)
    if outcome in (UNDECIDED, SINGLE_SEED) and _seeds_missing(comparison, collected):
        outcome = INCOMPLETE
    low, high = (mean.low, mean.high) if mean.seeds > 1 else (math.nan, math.nan)
    return ClaimPart(comparison.what, mean.value, low, high, outcome, mean.seeds, chance)


def _whole(parts: Sequence[ClaimPart]) -> str:
    """Return the outcome of all parts together."""
    first = min((part.outcome for part in parts), key=ORDER.index)
    return INCOMPLETE if first == NOT_RUN else first


def _whole_chance(parts: Sequence[ClaimPart]) -> float:
    """Return how easily chance gives the outcome of all parts, which could have been the opposite as well."""
    outcome = _whole(parts)
    chances = [part.chance for part in parts if part.outcome == outcome]
    if outcome == REPRODUCED:
        return min(1.0, 2 * max(chances))  # all had to hold
    return min(1.0, 2 * len(parts) * min(chances)) if outcome == NOT_REPRODUCED else 1.0  # any had to fail


def _seeds_missing(comparison: Comparison, collected: Mapping[str, RunSelection]) -> bool:
    """Whether a line of a comparison lacks seeds that its experiment plans."""
    planned = [(collected[p.experiment], p.curve, p.variant) for _, p in comparison.terms]
    return any(
        shown.experiment is None or set(shown.experiment.seeds) - set(shown.lines[curve, variant])
        for shown, curve, variant in planned
    )


def _values(comparison: Comparison, collected: Mapping[str, RunSelection]) -> list[float]:
    """Return one number per seed that all lines of a comparison have finished, with as many rounds."""
    places = [place for _, place in comparison.terms]
    if any(p.experiment not in collected or p[1:] not in collected[p.experiment].lines for p in places):
        return []
    runs = [collected[place.experiment].lines[place.curve, place.variant] for place in places]
    common = sorted(set.intersection(*map(set, runs)))
    seeds = [seed for seed in common if len({len(of[seed].rows) for of in runs}) == 1]
    if comparison.measure == "rate_per_symbol":
        rounds = [collected[p.experiment].rounds_of(p[1:]).dropna(subset=["accuracy"]) for p in places]
        by_seed = [rate_per_symbol([of[of["seed"] == seed] for of in rounds]) for seed in seeds]
    else:
        ends = [collected[p.experiment].ends(comparison.measure)[p.curve, p.variant] for p in places]
        by_seed = [[of.get(seed, math.nan) for of in ends] for seed in seeds]
    weights = [weight for weight, _ in comparison.terms]
    sums = [math.fsum(w * m for w, m in zip(weights, measured, strict=True)) for measured in by_seed]
    return [value for value in sums if math.isfinite(value)]


def rate_per_symbol(courses: Sequence[Frame]) -> list[float]:
    """Return the mean accuracies over the channel uses that all curves have: up to the smallest total.

    They begin where the last of the curves has its first accuracy.
    """
    curves = [(of["symbols"].to_numpy(dtype=float), of["accuracy"].to_numpy(dtype=float)) for of in courses]
    if not all(symbols.size for symbols, _ in curves):
        return [math.nan] * len(curves)
    start, stop = max(symbols[0] for symbols, _ in curves), min(symbols[-1] for symbols, _ in curves)
    if stop < start:
        return [math.nan] * len(curves)
    grid = np.linspace(start, stop, GRID)
    return [100 * float(np.interp(grid, symbols, accuracy).mean()) for symbols, accuracy in curves]


def score(verdicts: Sequence[Verdict]) -> str:
    """Return in words how many claims came out how."""
    outcomes = Counter(SHORT.get(v.outcome, "undecided") for v in verdicts)
    counts = ", ".join(
        f"{outcomes[kind]} {kind}" for kind in (*SHORT.values(), "undecided") if outcomes[kind]
    )
    decided = [v.stands for v in verdicts if v.stands is not None]
    stand = f" With Holm's correction {sum(decided)} of the {len(decided)} decided verdicts stand."
    return f"Of {len(verdicts)} claims: {counts}.{stand if decided else ''}"


def chance_inside(mean: Mean, low: float, high: float) -> float:
    """Return how easily a number outside a range, or at its limits, gives a mean so far inside it."""
    return max(_beyond(mean, low, 1), _beyond(mean, high, -1))


def chance_outside(mean: Mean, low: float, high: float) -> float:
    """Return how easily a number inside a range gives a mean so far outside it."""
    sides = [_beyond(mean, limit, sign) for limit, sign in ((low, -1), (high, 1)) if math.isfinite(limit)]
    return min(1.0, len(sides) * min(sides))


def holm(chances: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Return which of several findings stand, such that any of these is false with a chance below ``level``.

    >>> holm([0.04, 0.01, 0.02]), holm([0.04, 0.012, 0.03])
    ([True, True, True], [False, True, False])
    """
    stands = [False] * len(chances)
    for done, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[place] > level / (len(chances) - done):
            break
        stands[place] = True
    return stands


def _beyond(mean: Mean, limit: float, sign: int) -> float:
    """Return the one-sided p-value of Student's test that the number is above (1) or below (-1) a limit."""
    if not math.isfinite(limit):
        return 0.0
    distance = sign * (mean.value - limit)
    error = (mean.high - mean.value) / student(mean.seeds)
    if error == 0:  # all seeds alike
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(mean.seeds - 1, -distance / error))
