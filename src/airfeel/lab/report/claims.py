"""Judge what the paper says by what was measured: every sentence is a rule over results, in ``claims.toml``.

Student's 95 % interval over the seeds, however many there are, decides on every comparison of a rule: wholly
inside the claimed range, wholly outside, or neither. What it means that many claims are judged at once is in
:mod:`airfeel.lab.report.evidence`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from airfeel.lab.collect import Collected, Line
from airfeel.lab.report.claim_rules import (
    Claim,
    Comparison,
    CurveName,
    against_strong_rival,
    comparisons,
    in_words,
    shipped_claims,
)
from airfeel.lab.report.evidence import chance_inside, chance_outside, holm
from airfeel.lab.report.means import Mean, interval
from airfeel.lab.report.measures import MEASURES

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
UNDECIDED = "undecided at this number of seeds"
SINGLE_SEED = "undecided: a single seed has no interval"
NOT_RUN = "not run"
INCOMPLETE = "undecided: not all of it was run"
ORDER = (NOT_REPRODUCED, INCOMPLETE, NOT_RUN, UNDECIDED, SINGLE_SEED, REPRODUCED)
"""Of several parts, the first outcome in this order is that of the whole."""

STANDS = {True: "stands", False: "may be chance", None: ""}


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


def judge(collected: Mapping[str, Collected]) -> list[Verdict]:
    """Judge the claims, in order of number; those of which nothing was run are left out."""
    verdicts = [judge_claim(claim, collected) for claim in shipped_claims()]
    begun = [verdict for verdict in verdicts if any(part.outcome != NOT_RUN for part in verdict.parts)]
    return corrected(begun)


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Say of every decided verdict whether it stands beside all the others."""
    stands = holm([verdict.chance for verdict in verdicts])
    decided = [verdict.outcome in (REPRODUCED, NOT_REPRODUCED) for verdict in verdicts]
    return [
        replace(verdict, stands=stand if is_decided else None)
        for verdict, stand, is_decided in zip(verdicts, stands, decided, strict=True)
    ]


def judge_claim(claim: Claim, collected: Mapping[str, Collected]) -> Verdict:
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
    return json.dumps([_plain(asdict(verdict)) for verdict in verdicts], indent=2, ensure_ascii=False) + "\n"


def _judge(comparison: Comparison, collected: Mapping[str, Collected]) -> ClaimPart:
    """Compare over the seeds that all lines have."""
    values = _values(comparison, collected)
    if not values:
        return ClaimPart(comparison.what, math.nan, math.nan, math.nan, NOT_RUN)
    mean = interval(0, values)
    outcome = _outcome(mean, comparison)
    if outcome in (UNDECIDED, SINGLE_SEED) and _seeds_missing(comparison, collected):
        outcome = INCOMPLETE
    low, high = (mean.low, mean.high) if mean.seeds > 1 else (math.nan, math.nan)
    chance = _chance(outcome, mean, comparison)
    return ClaimPart(comparison.what, mean.value, low, high, outcome, mean.seeds, chance)


def _outcome(mean: Mean, claimed: Comparison) -> str:
    """Say where an interval lies; the limits of the claimed range do not belong to it."""
    if mean.seeds == 1:
        return SINGLE_SEED
    if claimed.low < mean.low and mean.high < claimed.high:
        return REPRODUCED
    return NOT_REPRODUCED if mean.high <= claimed.low or claimed.high <= mean.low else UNDECIDED


def _chance(outcome: str, mean: Mean, claimed: Comparison) -> float:
    """Return how easily chance alone gives the outcome of a comparison."""
    if outcome == REPRODUCED:
        return chance_inside(mean, claimed.low, claimed.high)
    return chance_outside(mean, claimed.low, claimed.high) if outcome == NOT_REPRODUCED else 1.0


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


def _seeds_missing(comparison: Comparison, collected: Mapping[str, Collected]) -> bool:
    """Whether a line of a comparison lacks seeds that its experiment plans."""
    for _, place in comparison.terms:
        line = _find(place, collected)
        if line is None or set(collected[place.experiment].experiment.seeds) - set(line.runs):
            return True
    return False


def _values(comparison: Comparison, collected: Mapping[str, Collected]) -> list[float]:
    """Return one number per seed that all lines of a comparison have finished, with as many rounds."""
    lines = [_find(place, collected) for _, place in comparison.terms]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return []
    take, weights = MEASURES[comparison.measure].take, [weight for weight, _ in comparison.terms]
    common = sorted(set.intersection(*(set(line.runs) for line in known)))
    seeds = [seed for seed in common if len({len(line.runs[seed].rows) for line in known}) == 1]
    sums = [math.fsum(w * m for w, m in zip(weights, take(known, seed), strict=True)) for seed in seeds]
    return [value for value in sums if math.isfinite(value)]


def _find(place: CurveName, collected: Mapping[str, Collected]) -> Line | None:
    experiment = collected.get(place.experiment)
    return None if experiment is None else experiment.line(place.curve, place.variant)


def _plain(item: Any) -> Any:
    """Return the same without infinities and nan, which JSON does not have."""
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_plain(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item
