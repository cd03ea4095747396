"""The sentences of the paper as rules over results: what ``claims.toml`` may say, in numbers and in words.

A rule compares the same seeds of several curves, which met the same data, rows and noise: per seed it makes
one number, a sum of measures with weights, and claims that this number lies in a certain range.
"""

import itertools
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from airfeel._checks import listed
from airfeel._files import read_shipped
from airfeel.config.sections import Section
from airfeel.lab.table import MEASURES

STRONGER = {
    "A-DSGD": "A-DSGD, MMSE",
    "AMP with soft threshold, Gaussian": "AMP with MMSE denoiser, Gaussian",
}
"""The rival of the paper and the same with a better receiver, in training and in recovery alone."""

GROWTHS: dict[str, Callable[[float], float]] = {"N": lambda n: n, "N log N": lambda n: n * math.log(n)}

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
    since ``start`` minus what a has > margin; exponent: a grows as ``growth`` to a power, low to high"""
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
    """N by variant"""
    growth: Literal["N", "N log N"] = "N"
    """of what the exponent is, as a function of the size"""


class Claim(Section):
    """A sentence of the paper with its place there; it holds if all of its rules do."""

    number: int
    claim: str
    place: str
    note: str = ""
    """why it does not reproduce, once we know"""
    rules: Annotated[tuple[Rule, ...], Field(strict=False, min_length=1)]


class CurveName(NamedTuple):
    """One line of one experiment."""

    experiment: str
    curve: str
    variant: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number per seed, a weighted sum of a measure at several places, and the range claimed for it."""

    what: str
    measure: str
    terms: Sequence[tuple[float, CurveName]]
    low: float
    high: float


def shipped_claims() -> list[Claim]:
    """Return the claims of the paper, in order of number."""
    text = read_shipped("airfeel.lab", "claims.toml")
    claims = [Claim.model_validate(entry) for entry in tomllib.loads(text)["claims"]]
    return sorted(claims, key=lambda claim: claim.number)


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


def _pairs(rule: Rule) -> Iterator[tuple[CurveName, CurveName]]:
    """Yield the places that a rule compares: ``each`` is shared, what a and b list is combined."""
    axes = []
    for name in CurveName._fields:
        shared = getattr(rule.each, name)
        own = itertools.product(getattr(rule.a, name) or ("",), getattr(rule.b, name) or ("",))
        axes.append([(label, label) for label in shared] if shared else list(own))
    for labels in itertools.product(*axes):
        yield CurveName(*(a for a, _ in labels)), CurveName(*(b for _, b in labels))


def _terms(rule: Rule, a: CurveName, b: CurveName) -> tuple[str, list[tuple[float, CurveName]]]:
    """Return what a comparison is about, and its weighted places."""
    if rule.kind == "value":
        return _name(a), [(1.0, a)]
    if rule.kind == "exponent":
        weights = zip(_slope([GROWTHS[rule.growth](n) for n in rule.sizes.values()]), rule.sizes, strict=True)
        return f"{_name(a)}: exponent", [(w, a._replace(variant=variant)) for w, variant in weights]
    if rule.kind == "loses_less":
        changes = {
            name: getattr(rule.start, name)[0] for name in CurveName._fields if getattr(rule.start, name)
        }
        before_a, before_b = a._replace(**changes), b._replace(**changes)
        what = f"{_difference(b, a)}, loss against {', '.join(changes.values())}"
        return what, [(1.0, before_b), (-1.0, b), (-1.0, before_a), (1.0, a)]
    return _difference(a, b), [(1.0, a), (-1.0, b)]


def _slope(sizes: Sequence[float]) -> list[float]:
    """Return the weights that make of logarithms the slope of a straight line over those of the sizes."""
    centred = np.log10(sizes) - np.mean(np.log10(sizes))
    return [float(weight) for weight in centred / np.sum(centred**2)]


def _difference(a: CurveName, b: CurveName) -> str:
    """Return "what both share: a - b" in words."""
    shared = [x for x, y in zip(a, b, strict=True) if x == y and x]
    own_a, own_b = (", ".join(x for x, y in zip(p, q, strict=True) if x != y) for p, q in ((a, b), (b, a)))
    return f"{', '.join(shared)}: {own_a} − {own_b}"


def _name(place: CurveName) -> str:
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
        start = f"from {min(rule.sizes, key=rule.sizes.__getitem__)} on,"
        growth = f"grows as a power of {rule.growth} with an exponent {_limits(rule)}"
        return " ".join(word for word in (start, a, growth) if word)
    return f"{a} {_limits(rule)}".strip()


def _listed(places: Places, several: str = "") -> str:
    """Return all labels of some places in words, with ``several`` before more than one."""
    found = [getattr(places, name) for name in CurveName._fields if getattr(places, name)]
    mark = "; " if any("," in label for labels in found for label in labels) else ", "
    return mark.join((several if len(labels) > 1 else "") + listed(labels, mark) for labels in found)


def _unit(rule: Rule) -> str:
    return "" if rule.kind == "exponent" else MEASURES[rule.measure].unit


def _limits(rule: Rule) -> str:
    """Return the limits of a rule in words."""
    if rule.low is not None and rule.high is not None:
        words = f"between {rule.low:g} and {rule.high:g}"
    else:
        words = f"above {rule.low:g}" if rule.low is not None else f"below {rule.high:g}"
    return f"{words} {_unit(rule)}".strip()
