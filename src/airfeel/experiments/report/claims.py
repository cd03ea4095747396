"""Judge what the paper says by what was measured: every sentence is a rule over results, in ``claims.toml``.

A rule compares the same seeds of several curves, which met the same data, rows and noise: per seed it makes
one number, a sum of measures with weights, and claims that this number lies in a certain range. Student's
95 % interval over the seeds decides: wholly inside, wholly outside, or neither.
"""

import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from airfeel._files import read_shipped
from airfeel.config.sections import Section
from airfeel.experiments.campaigns.collect import Collected, Line
from airfeel.experiments.report.means import interval
from airfeel.experiments.report.measures import MEASURES

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
UNDECIDED = "undecided at this number of seeds"
SINGLE_SEED = "undecided: a single seed has no interval"
NOT_RUN = "not run"
INCOMPLETE = "undecided: not all of it was run"
ORDER = (NOT_REPRODUCED, UNDECIDED, SINGLE_SEED, NOT_RUN, REPRODUCED)
"""Of several parts, the first outcome in this order is that of the whole."""

STRONGER = {
    "A-DSGD": "A-DSGD, MMSE",
    "AMP with soft threshold, Gaussian": "AMP with MMSE denoiser, Gaussian",
}
"""The rival of the paper and the same with a better receiver, in training and in recovery alone."""

Labels = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else tuple(value)),
]


class Places(Section):
    """Which curves a rule looks at; of several labels, each is looked at in turn."""

    experiment: Labels = ()
    curve: Labels = ()
    variant: Labels = ()


class Rule(Section):
    """A comparison of a with b, or of a alone with limits, wherever ``each`` says."""

    kind: Literal["above", "close", "value", "loses_less", "exponent"]
    """above: a - b > margin; close: |a - b| < margin; value: low < a < high; loses_less: what b has lost
    since ``start`` minus what a has > margin; exponent: a grows as a power of ``sizes``, low to high"""
    measure: Literal[tuple(MEASURES)]  # type: ignore[valid-type]
    each: Places = Places()
    a: Places = Places()
    b: Places = Places()
    start: Places = Places()
    """what differs from a and b before the loss"""
    margin: float = 0.0
    low: float | None = None
    high: float | None = None
    sizes: dict[str, float] = Field(default_factory=dict)
    """size by variant"""


class Claim(Section):
    """A sentence of the paper with its place there; it holds if all of its rules do."""

    number: int
    claim: str
    place: str
    note: str = ""
    """why it does not reproduce, once we know"""
    rules: Annotated[tuple[Rule, ...], Field(strict=False, min_length=1)]


class Place(NamedTuple):
    """One line of one experiment."""

    experiment: str
    curve: str
    variant: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number per seed, a weighted sum of a measure at several places, and the range claimed for it."""

    what: str
    measure: str
    terms: Sequence[tuple[float, Place]]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ClaimPart:
    """One comparison: its mean over seeds, Student's 95 % interval (nan: there is none) and the outcome."""

    what: str
    value: float
    low: float
    high: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim; where A-DSGD is part of it, also with A-DSGD, MMSE in its place."""

    number: int
    claim: str
    place: str
    rule: str
    outcome: str
    parts: Sequence[ClaimPart]
    against_mmse: str | None
    mmse_parts: Sequence[ClaimPart]
    note: str


def shipped_claims() -> list[Claim]:
    """Return the claims of the paper, in order of number."""
    text = read_shipped("airfeel.experiments.report", "claims.toml")
    claims = [Claim.model_validate(entry) for entry in tomllib.loads(text)["claims"]]
    return sorted(claims, key=lambda claim: claim.number)


def judge(collected: Mapping[str, Collected]) -> list[Verdict]:
    """Judge the claims, in order of number; those of which nothing was run are left out."""
    verdicts = (judge_claim(claim, collected) for claim in shipped_claims())
    return [verdict for verdict in verdicts if any(part.outcome != NOT_RUN for part in verdict.parts)]


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
    )


def comparisons(rule: Rule) -> list[Comparison]:
    """Return every comparison that a rule makes."""
    measure, (low, high) = MEASURES[rule.measure], claimed_range(rule)
    unit = f" ({_unit(rule)})" if _unit(rule) else ""
    found = (_terms(rule, a, b) for a, b in _pairs(rule))
    return [
        Comparison(f"{measure.name}, {what}{unit}", rule.measure, terms, low, high) for what, terms in found
    ]


def claimed_range(rule: Rule) -> tuple[float, float]:
    """Return between which limits a rule's number must lie."""
    if rule.kind == "close":
        return -rule.margin, rule.margin
    if rule.kind in ("above", "loses_less"):
        return rule.margin, math.inf
    low = -math.inf if rule.low is None else rule.low
    return low, math.inf if rule.high is None else rule.high


def against_strong_rival(rule: Rule) -> Rule:
    """Return the rule with the MMSE denoiser in the place of A-DSGD's soft threshold."""

    def replaced(places: Places) -> Places:
        curve = tuple(STRONGER.get(label, label) for label in places.curve)
        return places.model_copy(update={"curve": curve})

    return rule.model_copy(
        update={name: replaced(getattr(rule, name)) for name in ("each", "a", "b", "start")}
    )


def in_words(rule: Rule) -> str:
    """Return the rule as a sentence; it is made from the same keys as the comparisons."""
    measure, where = MEASURES[rule.measure], _listed(rule.each)
    return f"{measure.name} ({measure.how}): {_claimed(rule)}{f' ({where})' if where else ''}"


def claims_table(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return number, verdicts and text of every claim, first the heading."""
    rows = [["claim", "verdict", "against A-DSGD, MMSE", ""]]
    return rows + [[str(v.number), v.outcome, v.against_mmse or "", v.claim] for v in verdicts]


def to_json(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as a list in JSON; what is not a number there is null."""
    return json.dumps([_plain(asdict(verdict)) for verdict in verdicts], indent=2, ensure_ascii=False) + "\n"


def _judge(comparison: Comparison, collected: Mapping[str, Collected]) -> ClaimPart:
    """Compare over the seeds that all lines have."""
    values = _values(comparison, collected)
    if not values:
        return ClaimPart(comparison.what, math.nan, math.nan, math.nan, NOT_RUN)
    mean = interval(0, values)
    if len(values) == 1:
        return ClaimPart(comparison.what, mean.value, math.nan, math.nan, SINGLE_SEED)
    return ClaimPart(
        comparison.what, mean.value, mean.low, mean.high, _outcome(mean.low, mean.high, comparison)
    )


def _outcome(low: float, high: float, claimed: Comparison) -> str:
    """Say where an interval lies; the limits of the claimed range do not belong to it."""
    if claimed.low < low and high < claimed.high:
        return REPRODUCED
    return NOT_REPRODUCED if high <= claimed.low or claimed.high <= low else UNDECIDED


def _whole(parts: Sequence[ClaimPart]) -> str:
    """Return the outcome of all parts together."""
    first = min((part.outcome for part in parts), key=ORDER.index)
    return INCOMPLETE if first == NOT_RUN else first


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


def _find(place: Place, collected: Mapping[str, Collected]) -> Line | None:
    experiment = collected.get(place.experiment)
    return None if experiment is None else experiment.line(place.curve, place.variant)


def _pairs(rule: Rule) -> Iterator[tuple[Place, Place]]:
    """Yield the places that a rule compares: ``each`` is shared, what a and b list is combined."""
    axes = []
    for name in Place._fields:
        shared = getattr(rule.each, name)
        own = itertools.product(getattr(rule.a, name) or ("",), getattr(rule.b, name) or ("",))
        axes.append([(label, label) for label in shared] if shared else list(own))
    for labels in itertools.product(*axes):
        yield Place(*(a for a, _ in labels)), Place(*(b for _, b in labels))


def _terms(rule: Rule, a: Place, b: Place) -> tuple[str, list[tuple[float, Place]]]:
    """Return what a comparison is about, and its weighted places."""
    if rule.kind == "value":
        return _name(a), [(1.0, a)]
    if rule.kind == "exponent":
        weights = zip(_slope(list(rule.sizes.values())), rule.sizes, strict=True)
        return f"{_name(a)}: exponent", [(w, a._replace(variant=variant)) for w, variant in weights]
    if rule.kind == "loses_less":
        changes = {name: getattr(rule.start, name)[0] for name in Place._fields if getattr(rule.start, name)}
        before_a, before_b = a._replace(**changes), b._replace(**changes)
        what = f"{_difference(b, a)}, loss against {', '.join(changes.values())}"
        return what, [(1.0, before_b), (-1.0, b), (-1.0, before_a), (1.0, a)]
    return _difference(a, b), [(1.0, a), (-1.0, b)]


def _slope(sizes: Sequence[float]) -> list[float]:
    """Return the weights that make of logarithms the slope of a straight line over those of the sizes."""
    centred = np.log10(sizes) - np.mean(np.log10(sizes))
    return [float(weight) for weight in centred / np.sum(centred**2)]


def _difference(a: Place, b: Place) -> str:
    """Return "what both share: a - b" in words."""
    shared = [x for x, y in zip(a, b, strict=True) if x == y and x]
    own_a, own_b = (", ".join(x for x, y in zip(p, q, strict=True) if x != y) for p, q in ((a, b), (b, a)))
    return f"{', '.join(shared)}: {own_a} − {own_b}"


def _name(place: Place) -> str:
    return ", ".join(label for label in place if label)


def _claimed(rule: Rule) -> str:
    """Return what a rule claims about a and b, in words."""
    a, b = _listed(rule.a, "each of "), _listed(rule.b, "each of ")
    margin = f"{abs(rule.margin):g} {MEASURES[rule.measure].unit}".strip()
    if rule.kind == "above":
        side = f"less than {margin} below" if rule.margin < 0 else f"more than {margin} above"
        return f"{a} {side if rule.margin else 'above'} {b}"
    if rule.kind == "close":
        return f"{a} within {margin} of {b}"
    if rule.kind == "loses_less":
        by = f", by more than {margin}" if rule.margin else ""
        return f"{a} loses less than {b} against {_listed(rule.start)}{by}"
    if rule.kind == "exponent":
        return f"{a} grows as a power of the size, with an exponent {_limits(rule)}".strip()
    return f"{a} {_limits(rule)}".strip()


def _listed(places: Places, several: str = "") -> str:
    """Return all labels of some places in words, with ``several`` before more than one."""
    found = [getattr(places, name) for name in Place._fields if getattr(places, name)]
    mark = "; " if any("," in label for labels in found for label in labels) else ", "
    return mark.join((several if len(labels) > 1 else "") + _and(labels, mark) for labels in found)


def _and(labels: Sequence[str], mark: str) -> str:
    """Return "x", "x and y" or "x, y and z"."""
    *others, last = labels
    return f"{mark.join(others)} and {last}" if others else last


def _unit(rule: Rule) -> str:
    return "" if rule.kind == "exponent" else MEASURES[rule.measure].unit


def _limits(rule: Rule) -> str:
    """Return the limits of a rule in words."""
    if rule.low is not None and rule.high is not None:
        words = f"between {rule.low:g} and {rule.high:g}"
    else:
        words = f"above {rule.low:g}" if rule.low is not None else f"below {rule.high:g}"
    return f"{words} {_unit(rule)}".strip()


def _plain(item: Any) -> Any:
    """Return the same without infinities and nan, which JSON does not have."""
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_plain(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item
