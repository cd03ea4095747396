"""Answers to questions about a system before it is built, see :mod:`airfeel.lab.question`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel._checks import listed
from airfeel.config import ConfigLike, build_config, mistakes, opened
from airfeel.lab.api import compute, planned
from airfeel.lab.campaign import forecast
from airfeel.lab.engines import check_engine
from airfeel.lab.question import (
    COSTS,
    FIRST,
    LIMITS,
    STEPS,
    TRIALS,
    WAYS,
    Inquiry,
    Search,
    Span,
    Trial,
    costs,
    span,
    trials,
)

INTERVAL = "one more training lies in the interval with 98 %"


@dataclass(frozen=True)
class Answer:
    """What trial trainings say.

    ``text`` is the answer in a sentence, and ``numbers`` are those in it by name, each with its interval.
    ``met`` says whether the target is reached; None where there is none. ``table`` has a row for each trial.
    """

    text: str
    numbers: dict[str, Span]
    met: bool | None
    table: list[dict[str, Any]]
    folder: Path

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


def plan(
    config: ConfigLike | None = None,
    *,
    target_accuracy: float | None = None,
    within_rounds: int | None = None,
    within_seconds: float | None = None,
    within_joules: float | None = None,
    vary: str = "",
    schemes: str | Sequence[str] = (),
    seeds: int = TRIALS,
    out: str | Path = "results",
    engine: str | None = None,
    workers: int | None = None,
    force: bool = False,
    dry_run: bool = False,
    **keys: Any,
) -> Answer:
    """Answer a question by trial trainings, which are ordinary runs in a results folder, computed once.

    ::

        answer = af.plan({"uplink.ratio": 0.04}, scheme="scheduled", target_accuracy=0.85)
        print(answer)
        answer.numbers["rounds"].high

    Parameters
    ----------
    config, keys
        As for :func:`airfeel.train`, without parts of your own.
    target_accuracy
        What it takes to reach this accuracy: rounds, and with a table [radio] seconds, of uplink and downlink
        together, and joules.
    within_rounds, within_seconds, within_joules
        The accuracy that is reached within one of these; with a target, it must be reached within it.
    vary
        ``"key=low:high"``: which value of this key it takes to reach the target.
    schemes
        Which of these, a list or ``"scheduled,common_k"``, takes the least time, or comes farthest within the
        budget.
    seeds
        How many trainings of each setting.
    out, engine, workers, force
        As ``--out``, ``--engine``, ``--workers`` and ``--force`` of ``airfeel plan``.
    dry_run
        Only say what it would take.
    """
    limits = zip(LIMITS, (within_rounds, within_seconds, within_joules), strict=True)
    schemes = tuple(schemes.split(",") if isinstance(schemes, str) and schemes else schemes)
    inquiry = Inquiry(
        keys=_given(config, keys, vary, schemes),
        target=target_accuracy,
        within={name: limit for name, limit in limits if limit is not None},
        vary=vary,
        schemes=schemes,
        seeds=seeds,
    )
    folder = Path(out)
    check_engine(engine)
    if dry_run:
        return Answer(_cost(inquiry, folder, workers), {}, None, [], folder)

    def computed(*values: Sequence[float]) -> list[Trial]:
        results, begun = compute([inquiry.experiment(*values)], folder, engine, workers, force)
        return trials(inquiry, results, begun[0].members)

    met: bool | None
    if inquiry.vary:
        text, numbers, met, tried = _searched(inquiry, computed)
    else:
        tried = computed()
        by = _compared if inquiry.schemes else _until if inquiry.target is not None else _within
        text, numbers, met = by(inquiry, tried)
    unit = "trial run" if len(tried) == 1 else "trial runs"
    return Answer(f"{text} ({len(tried)} {unit})", numbers, met, _table(inquiry, tried), folder)


def _given(
    config: ConfigLike | None, keys: Mapping[str, Any], vary: str, schemes: Sequence[str]
) -> dict[str, Any]:
    """Return the given keys by dotted name; what is asked for completes them, as it may be required."""
    tree, source = opened(config)
    flat = {**mistakes.flatten(tree), **keys}
    search = Search.read(vary, flat) if vary else None
    more: dict[str, Any] = {} if search is None else {search.key: search.low}
    more |= {"scheme": schemes[0]} if schemes and "scheme" not in flat else {}
    found = build_config(tree, {**keys, **more}, source)
    dumped = mistakes.flatten(found.model_dump(mode="json", exclude_unset=True))
    return {key: value for key, value in dumped.items() if key not in more}


def _cost(inquiry: Inquiry, out: Path, workers: int | None) -> str:
    """Say what an answer would take; a search as if it met as many values as it can."""
    if not inquiry.vary:
        return forecast(planned([inquiry.experiment()], out)[1], out, workers)
    search = inquiry.search
    most = STEPS + 4  # beyond the first, of which all but three may have to be confirmed
    values = sorted({search.middle(search.low, search.high, place / most) for place in range(most + 1)})
    runs = planned([inquiry.experiment(values, values[-STEPS - 2 :])], out)[1]
    return f"at most {forecast(runs, out, workers)}"


def _until(inquiry: Inquiry, tried: Sequence[Trial]) -> tuple[str, dict[str, Span], bool]:
    """Say what it takes to reach the target."""
    goal = f"{100 * (inquiry.target or 0):g} % accuracy"
    if None in _reached(inquiry, tried):
        limit = "".join(f" within {value:g} {name}" for name, value in inquiry.within.items())
        told, best = _fared(inquiry, tried, limit or f" in {tried[0].last['round']} rounds")
        return f"{goal} is not reached for sure: {told}; {INTERVAL}", {"best_accuracy": best}, False
    numbers = _costs(inquiry, tried)
    words = [_words(numbers, name) for name in LIMITS if name in numbers]
    return f"{goal} takes {', '.join(words)}; {INTERVAL}", numbers, True


def _within(inquiry: Inquiry, tried: Sequence[Trial]) -> tuple[str, dict[str, Span], None]:
    """Say what accuracy is reached within the budget."""
    ((name, limit),) = inquiry.within.items()
    if any(not trial.rows for trial in tried):
        first = costs(tried[0].last)[name] / tried[0].last["round"]
        raise ValueError(f"--within-{name} {limit:g}: must be a round at least, {first:.3g} in the mean")
    found = _accuracy([trial.rows[-1]["accuracy"] for trial in tried])
    text = f"{_percent(found)} accuracy within {limit:g} {name}; {INTERVAL}"
    spent = max(costs(trial.last)[name] for trial in tried)
    if spent * (1 + 1 / tried[0].last["round"]) < limit:
        text += f"; all {tried[0].last['round']} rounds took only {spent:.3g}: --set rounds=... trains longer"
    return text, {"accuracy": found}, None


def _compared(inquiry: Inquiry, tried: Sequence[Trial]) -> tuple[str, dict[str, Span], bool | None]:
    """Say which scheme takes least, or comes farthest."""
    by = {name: [trial for trial in tried if trial.member.curve == name] for name in inquiry.schemes}
    if inquiry.target is None:
        found = {name: _within(inquiry, of)[1]["accuracy"] for name, of in by.items()}
        best, *others = sorted(found, key=lambda name: -found[name].value)
        unsure = [name for name in others if found[name].high >= found[best].low]
        text = f"{best} comes farthest: {_percent(found[best])} accuracy"
        return f"{text}{_doubt(unsure)}; {INTERVAL}", {"accuracy": found[best]}, None
    spans = {name: _until(inquiry, of) for name, of in by.items()}
    sure = {name: numbers for name, (_, numbers, met) in spans.items() if met}
    goal = f"{100 * inquiry.target:g} % accuracy"
    if not sure:
        return f"{goal} is reached for sure by none of {', '.join(by)}", {}, False
    words, chosen = list[str](), dict[str, Span]()
    for name in reversed(LIMITS):  # time last: it decides whose numbers are told
        known = {scheme: numbers[name] for scheme, numbers in sure.items() if name in numbers}
        if known and not (name == "rounds" and words):
            best = min(known, key=lambda scheme: known[scheme].value)
            unsure = [one for one in known if one != best and known[one].low <= known[best].high]
            words.insert(0, f"{best} with {_words(sure[best], name)}{_doubt(unsure)}")
            chosen = sure[best]
    words += [f"{name} does not reach it for sure" for name in by if name not in sure]
    silent = [name for name, numbers in sure.items() if len(numbers) < len(chosen)]
    words += [
        f"{name} sends nothing over the air and takes {_words(sure[name], 'rounds')}" for name in silent
    ]
    return f"{goal} takes least of {', '.join(by)}: {'; '.join(words)}; {INTERVAL}", chosen, True


def _doubt(unsure: Sequence[str]) -> str:
    return f", not told apart from {listed(unsure)}" if unsure else ""


def _searched(
    inquiry: Inquiry, computed: Callable[..., list[Trial]]
) -> tuple[str, dict[str, Span], bool, list[Trial]]:
    """Bisect on half of the seeds, and confirm on all of them.

    A value is confirmed if one more training would reach the target too, by the lower end of the interval of
    the best accuracies. Two values on either side of the answer, or three within a range without one, show
    whether the target is met on one side only, as a bisection assumes.
    """
    search, values, sure = inquiry.search, list[float](), list[float]()
    tried: list[Trial] = []

    def of(value: float, curve: str = "") -> list[Trial]:
        label = search.label(value)
        return [one for one in tried if one.member.variant == label and curve in ("", one.member.curve)]

    def try_out(*more: float) -> list[bool]:
        values.extend(value for value in more if value not in values)
        tried[:] = computed(values, sure)
        return [None not in _reached(inquiry, of(value, FIRST)) for value in more]

    def confirmed(value: float) -> bool:
        sure.append(value)
        try_out()
        low = span([trial.best for trial in of(value)]).low
        return None not in _reached(inquiry, of(value)) and low >= (inquiry.target or 0)

    goal = f"{100 * (inquiry.target or 0):g} % accuracy"
    goal += "".join(f" within {limit:g} {name}" for name, limit in inquiry.within.items())
    shown = f"{search.key} from {search.low:g} to {search.high:g}"
    ends = dict(zip((search.low, search.high), try_out(search.low, search.high), strict=True))
    if len(set(ends.values())) == 1:
        inner = [search.middle(search.low, search.high, share) for share in (0.25, 0.5, 0.75)]
        does = ends[search.low]
        odd = [f"{value:g}" for value, same in zip(inner, try_out(*inner), strict=True) if same != does]
        if odd:
            here, there = ("missed", "reached") if does else ("reached", "missed")
            said = f"{here} at {listed(odd)} and {there} at both ends"
            return f"{goal} is not monotone in {shown}: {said}; ask for a narrower range", {}, False, tried
        if not does:
            most = 100 * max(trial.best for trial in tried)
            return f"{goal} is reached nowhere in {shown}; at best {most:.1f} %", {}, False, tried
        ends = {value: confirmed(value) for value in ends}
        if all(ends.values()):
            return f"{goal} is reached with any {shown}", {search.key: _value(search.low)}, True, tried
    good, bad = sorted(ends, key=lambda value: not ends[value])
    edge, end = good, bad
    for _ in range(STEPS if ends[good] else 0):
        middle = search.middle(edge, bad)
        if middle in (edge, bad):
            break
        edge, bad = (middle, bad) if try_out(middle)[0] else (edge, middle)
    candidates = (value for value in values if min(edge, good) <= value <= max(edge, good))
    ranked = sorted(candidates, key=lambda value: abs(value - bad))
    answer = next((value for value in ranked if confirmed(value)), None)
    if answer is None:
        told, best = _fared(inquiry, of(good), f" at {search.label(good)}")
        text = f"{goal} is only just reached, and not for sure at any value tried: {told}; {INTERVAL}"
        return text, {"best_accuracy": best}, False, tried
    beyond, before = search.middle(answer, good), search.middle(bad, end)
    again, still = try_out(beyond, before)
    which = "smallest" if good > bad else "largest"
    text = f"{search.key} = {answer:g} is the {which} value found that reaches {goal} for sure, confirmed on "
    text += f"other seeds; {bad:g} does not"
    wrong = ((beyond, not again), (before, still and before != bad))
    odd = [f"{value:g}" for value, other in wrong if other]
    if odd:
        text += f"; not monotone: {listed(odd)} does otherwise"
    return text, {search.key: _value(answer, bad)}, True, tried


def _value(value: float, other: float | None = None) -> Span:
    other = value if other is None else other
    return Span(value, min(value, other), max(value, other))


def _reached(inquiry: Inquiry, tried: Sequence[Trial]) -> list[dict[str, float] | None]:
    """Return what every trial took to reach the target; None for one that does not."""
    return [trial.reached(inquiry.target or 0.0) for trial in tried]


def _fared(inquiry: Inquiry, tried: Sequence[Trial], where: str) -> tuple[str, Span]:
    """Return how trials fared of which some may miss the target, in words, and their best accuracies."""
    best = _accuracy([trial.best for trial in tried])
    found = sum(cost is not None for cost in _reached(inquiry, tried))
    told = f"{found} of {len(tried)} trainings reach it{where}, and the best accuracy of each is"
    return f"{told} {_percent(best)}", best


def _costs(inquiry: Inquiry, tried: Sequence[Trial]) -> dict[str, Span]:
    """Return the intervals of all costs of trials that reach the target.

    What happens between two evaluations is not seen, so they are wider by one, and begin with the first.
    """
    every, found = inquiry.config.run.evaluate_every, dict[str, Span]()
    reached = [cost for cost in _reached(inquiry, tried) if cost is not None]
    for name in COSTS:
        if all(cost.get(name) for cost in reached):
            step = every * max(cost[name] / cost["rounds"] for cost in reached)
            first = min(costs(trial.rows[0])[name] for trial in tried)
            value, low, high = span([cost[name] for cost in reached], ratios=True)
            found[name] = Span(value, max(low - step, first), high + step)
    return found


def _words(numbers: Mapping[str, Span], name: str) -> str:
    """Return a cost in words; of seconds also how they are shared out."""
    ways = [f"{numbers[way].value:.3g} {end}" for way, end in WAYS.items() if way in numbers]
    told = f"{numbers[name].words()} {COSTS[name]}"
    return f"{told}, {' and '.join(ways)}" if name == "seconds" and ways else told


def _accuracy(values: Sequence[float]) -> Span:
    found = span(values)
    return Span(found.value, max(0.0, found.low), min(1.0, found.high))


def _percent(share: Span) -> str:
    return Span(*(100 * part for part in share)).words(".1f", " %")


def _table(inquiry: Inquiry, tried: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return a row for each trial; of a search those of a value together."""
    rows, places = [], list(dict.fromkeys(trial.member.variant for trial in tried))
    for trial in sorted(tried, key=lambda trial: places.index(trial.member.variant)):
        found = trial.reached(inquiry.target) if inquiry.target is not None else None
        spent = found or (costs(trial.rows[-1]) if inquiry.target is None and trial.rows else {})
        row = {"trial": trial.member.variant or trial.member.curve, "seed": trial.member.seed}
        row |= {COSTS[name]: value for name, value in spent.items()}
        row |= {} if inquiry.target is None else {"reached": found is not None}
        last = trial.rows[-1]["accuracy"] if trial.rows else None
        rows.append(row | {"accuracy": last, "run": trial.member.label})
    return rows
