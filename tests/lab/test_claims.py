"""The paper's claims: they refer to what is shipped, and clear results get the right verdict."""

import html
import json
import math
from types import SimpleNamespace

import pytest
from scipy import stats

import fakes
from airfeel.lab import claim_rules, table
from airfeel.lab.claim_rules import Claim, comparisons, in_words, shipped_claims
from airfeel.lab.claims import (
    INCOMPLETE,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    SINGLE_SEED,
    UNDECIDED,
    chance_inside,
    chance_outside,
    claims_table,
    corrected,
    holm,
    judge,
    judge_claim,
    rate_per_symbol,
    score,
    to_json,
)
from airfeel.lab.plan import Experiment, shipped
from airfeel.lab.report import render
from airfeel.lab.table import interval

ROUNDS = 30
CLAIMS = {claim.number: claim for claim in shipped_claims()}


def known_lines(name):
    return {(run.curve, run.variant) for run in shipped(name).runs()}


def course(level, per_round=785):
    """A curve that stands at one accuracy, in percent, throughout."""
    return [
        {"round": t, "accuracy": level / 100, "symbols": per_round * t, "nmse_db": -level}
        for t in range(1, ROUNDS + 1)
    ]


def results(experiment, levels, folder=None, planned=0):
    """Return an experiment with a list of accuracies, one per seed, by curve and variant.

    It plans as many seeds as the longest list has, or more.
    """
    lines = {
        line: {seed: fakes.finished(course(of), folder) for seed, of in enumerate(of_seeds)}
        for line, of_seeds in levels.items()
    }
    seeds = range(max(planned, *map(len, levels.values())))
    made_up = Experiment(name=experiment, title="made up", seeds=[*seeds])
    return {experiment: fakes.selection(made_up, lines)}


def measured(name, *runs):
    """Return a measure of runs with these records, one for each that has it."""
    of = {seed: fakes.finished(rows) for seed, rows in enumerate(runs)}
    return fakes.selection(None, {("A", ""): of}).ends(name)["A", ""]


def one_claim(**rule):
    return Claim.model_validate(
        {"number": 1, "claim": "a claim", "place": "nowhere", "rules": [{"measure": "final", **rule}]}
    )


def outcome(claim, experiment, levels):
    return judge_claim(claim, results(experiment, levels)).outcome


def test_numbers_are_unique_and_the_texts_complete():
    numbers = [claim.number for claim in shipped_claims()]
    assert numbers == sorted(set(numbers)) and set(range(1, 21)) <= set(numbers)
    assert all(claim.claim and claim.place for claim in CLAIMS.values())
    names = {place.experiment for place in all_places()}
    assert names >= {"fig2", "fig5a", "fig5b", "fig6", "fig7", "fig8"}


def all_places():
    for claim in CLAIMS.values():
        for rule in (*claim.rules, *map(claim_rules.against_strong_rival, claim.rules)):
            yield from (place for c in comparisons(rule) for _, place in c.terms)


@pytest.mark.parametrize("name", sorted({place.experiment for place in all_places()}))
def test_every_curve_and_variant_exists_in_its_experiment(name):
    wanted = {(place.curve, place.variant) for place in all_places() if place.experiment == name}
    assert wanted <= known_lines(name)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_every_rule_says_what_it_computes(claim):
    for rule in claim.rules:
        found, (low, high) = comparisons(rule), claim_rules.claimed_range(rule)
        assert found and low < high and (math.isfinite(low) or math.isfinite(high))
        text = in_words(rule)
        for limit in (low, high):
            assert not math.isfinite(limit) or limit == 0 or f"{abs(limit):g}" in text
        for _, place in (term for c in found for term in c.terms):
            assert all(label in text for label in place[:2])


ABOVE = {"kind": "above", "each": {"experiment": "e"}, "a": {"curve": "A"}, "b": {"curve": "B"}}
CLOSE = ABOVE | {"kind": "close", "margin": 2.0}
VALUE = ABOVE | {"kind": "value"}


@pytest.mark.parametrize(
    ("rule", "text", "levels", "expected"),
    [
        (ABOVE, "A above B", ([90, 91, 92], [80, 81, 83]), REPRODUCED),
        (ABOVE, "A above B", ([80, 81, 83], [90, 91, 92]), NOT_REPRODUCED),
        (ABOVE, "A above B", ([80, 90, 85], [81, 80, 90]), UNDECIDED),
        (ABOVE, "A above B", ([80, 80], [80, 80]), NOT_REPRODUCED),
        (ABOVE | {"margin": 10.0}, "A more than 10 points above B", ([91, 92], [80, 81]), REPRODUCED),
        (ABOVE | {"margin": 10.0}, "A more than 10 points above B", ([89, 90], [80, 81]), NOT_REPRODUCED),
        (ABOVE | {"margin": -2.0}, "A less than 2 points below B", ([89, 90], [90, 91]), REPRODUCED),
        (ABOVE | {"margin": -2.0}, "A less than 2 points below B", ([87, 88], [90, 91]), NOT_REPRODUCED),
        (CLOSE, "A within 2 points of B", ([81, 82], [80, 81]), REPRODUCED),
        (CLOSE, "A within 2 points of B", ([77, 78], [80, 81]), NOT_REPRODUCED),
        (CLOSE, "A within 2 points of B", ([83, 84], [80, 81]), NOT_REPRODUCED),
        (CLOSE, "A within 2 points of B", ([82, 81], [80, 80]), UNDECIDED),
        (VALUE | {"low": 70.0}, "A above 70", ([80, 81], [0, 0]), REPRODUCED),
        (VALUE | {"low": 70.0}, "A above 70", ([60, 61], [0, 0]), NOT_REPRODUCED),
        (VALUE | {"high": 70.0}, "A below 70", ([60, 61], [0, 0]), REPRODUCED),
        (VALUE | {"low": 60.0, "high": 70.0}, "between 60 and 70", ([60, 65], [0, 0]), UNDECIDED),
    ],
)  # fmt: skip
def test_verdicts_on_two_curves(rule, text, levels, expected):
    claim = one_claim(**rule)
    assert outcome(claim, "e", {("A", ""): levels[0], ("B", ""): levels[1]}) == expected
    assert text in in_words(claim.rules[0])


@pytest.mark.parametrize(
    ("lost_a", "lost_b", "expected"),
    [((1, 2), (9, 11), REPRODUCED), ((9, 11), (1, 2), NOT_REPRODUCED), ((1, 6), (6, 2), UNDECIDED)],
)
def test_losing_less(lost_a, lost_b, expected):
    claim = one_claim(**ABOVE | {"kind": "loses_less"} | {
        "each": {"experiment": "e", "variant": "low"}, "start": {"variant": "high"}
    })  # fmt: skip
    levels = {("A", "high"): [90, 91], ("B", "high"): [80, 83]}
    levels[("A", "low")] = [90 - lost_a[0], 91 - lost_a[1]]
    levels[("B", "low")] = [80 - lost_b[0], 83 - lost_b[1]]
    assert outcome(claim, "e", levels) == expected
    assert "A loses less than B against high" in in_words(claim.rules[0])


@pytest.mark.parametrize(
    ("seconds", "exponent", "expected"),
    [
        (lambda n: 4e-9 * n * math.log(n), 1.0, REPRODUCED),
        (lambda n: 2e-4 + 4e-9 * n * math.log(n), None, REPRODUCED),  # calling it costs something as well
        (lambda n: 1e-9 * n, None, REPRODUCED),  # less than the bound
        (lambda n: 1e-9 * n**1.5, None, NOT_REPRODUCED),
        (lambda n: 1e-9 * n**2, None, NOT_REPRODUCED),
        (lambda n: 1e-9 * n**1.5 if n > 5e3 else 1.0, None, NOT_REPRODUCED),  # small N decides nothing
    ],
)
def test_the_order_of_the_cost_is_an_upper_bound_for_large_n(tmp_path, seconds, exponent, expected):
    sizes = {"N = 1,000": 1e3, "N = 10,000": 1e4, "N = 100,000": 1e5, "N = 1,000,000": 1e6}
    courses = [lambda n, noise=noise: seconds(n) * noise for noise in (0.98, 1.0, 1.03)]
    collected = timed(tmp_path, sizes, courses, "cost", "TSA-GA")
    verdict = judge_claim(CLAIMS[20], collected)
    assert verdict.outcome == expected and len(verdict.parts) == 1
    assert exponent is None or verdict.parts[0].value == pytest.approx(exponent)
    assert "from N = 10,000 on, grows as a power of N log N with an exponent below 1.1" in verdict.rule


def timed(tmp_path, sizes, courses, name="e", curve="A"):
    """Return an experiment whose iterations take the seconds that ``courses``, one per seed, make of N."""
    lines = {}
    for variant, size in sizes.items():
        folders = {seed: tmp_path / f"{variant}-{seed}" for seed in range(len(courses))}
        for seed, folder in folders.items():
            folder.mkdir()
            seconds = courses[seed](size)
            rows = [{"round": t, "seconds": seconds * (400 if t == 1 else 4)} for t in (1, 2, 3)]
            (folder / "timings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        iterations = [{"round": t, "iterations": 4} for t in (1, 2, 3)]
        lines[curve, variant] = {seed: fakes.finished(iterations, path) for seed, path in folders.items()}
    return {name: fakes.selection(Experiment(name=name, title=name), lines)}


def test_numbers_by_hand():
    claim = one_claim(**ABOVE)
    collected = results("e", {("A", ""): [85.0, 88.0, 90.0], ("B", ""): [84.0, 86.0, 87.0]})
    (part,) = judge_claim(claim, collected).parts
    low, high = stats.t.interval(0.95, 2, loc=2.0, scale=1 / math.sqrt(3))  # differences 1, 2 and 3
    assert (part.value, part.low, part.high) == pytest.approx((2.0, low, high))
    assert part.what == "final accuracy, e: A − B (points)" and part.outcome == UNDECIDED


def test_seeds_are_paired_and_only_common_ones_count():
    """A difference of one point is clear although seeds differ by ten; a seed that one lacks is left out."""
    claim = one_claim(**ABOVE)
    levels = {("A", ""): [61.0, 71.0, 81.0, 0.0], ("B", ""): [60.0, 70.0, 80.1]}
    (part,) = judge_claim(claim, results("e", levels)).parts
    assert part.outcome == REPRODUCED and part.value == pytest.approx(2.9 / 3)


def test_runs_of_different_length_are_not_compared():
    collected = results("e", {("A", ""): [90, 91, 92], ("B", ""): [80, 81, 82]})
    lines = dict(collected["e"].lines)
    lines["A", ""][1] = fakes.finished(list(lines["A", ""][1].rows)[:5])
    collected = {"e": fakes.selection(collected["e"].experiment, lines)}
    longer = results("e", {("A", ""): [90, 92], ("B", ""): [80, 82]})
    assert judge_claim(one_claim(**ABOVE), collected).parts == judge_claim(one_claim(**ABOVE), longer).parts


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"B": [10, 11], "C": [20, 21]}, REPRODUCED),
        ({"B": [10, 11], "C": [95, 96]}, NOT_REPRODUCED),
        ({"B": [10, 80], "C": [20, 99]}, UNDECIDED),
        ({"B": [99, 99], "C": [20, 99]}, NOT_REPRODUCED),
        ({"B": [10, 11]}, INCOMPLETE),
        ({"B": [10, 99]}, INCOMPLETE),  # B alone would be undecided, but that is not the reason
        ({"B": [99, 99]}, NOT_REPRODUCED),
    ],
)
def test_all_parts_must_hold(others, expected):
    claim = one_claim(**ABOVE | {"b": {"curve": ["B", "C"]}})
    levels = {("A", ""): [90, 91]} | {(curve, ""): values for curve, values in others.items()}
    verdict = judge_claim(claim, results("e", levels))
    assert verdict.outcome == expected and len(verdict.parts) == 2


@pytest.mark.parametrize(
    ("levels", "planned", "expected"),
    [
        (([80, 90], [81, 80]), 2, UNDECIDED),
        (([80, 90], [81, 80]), 3, INCOMPLETE),
        (([80, 90, 85], [81, 80]), 3, INCOMPLETE),
        (([90], [10]), 1, SINGLE_SEED),
        (([90], [10]), 3, INCOMPLETE),
        (([90, 91], [10, 11]), 10, REPRODUCED),  # two seeds are enough
    ],
)
def test_a_verdict_says_when_seeds_are_missing(levels, planned, expected):
    collected = results("e", {("A", ""): levels[0], ("B", ""): levels[1]}, planned=planned)
    assert judge_claim(one_claim(**ABOVE), collected).outcome == expected


@pytest.mark.parametrize(("low", "high"), [(0.0, math.inf), (-math.inf, 2.5), (-0.5, 2.5)])
def test_chances_are_those_of_students_test(low, high):
    values = [0.4, 1.1, 0.7, 1.9]
    mean = interval(values)

    def beyond(limit, side):
        return stats.ttest_1samp(values, limit, alternative=side).pvalue if math.isfinite(limit) else 0.0

    expected = max(beyond(low, "greater"), beyond(high, "less"))
    assert chance_inside(mean, low, high) == pytest.approx(expected)
    away = [value + 9 for value in values]
    limits = math.isfinite(low) + math.isfinite(high)
    if math.isfinite(high):
        p = stats.ttest_1samp(away, high, alternative="greater").pvalue
        assert chance_outside(interval(away), low, high) == pytest.approx(limits * p)
    # An interval that just touches a limit has the chance of the interval.
    assert chance_inside(mean, mean.low, math.inf) == pytest.approx(0.025)
    assert chance_outside(mean, mean.high, math.inf) == pytest.approx(0.025)


def test_holm_by_adjusted_values():
    """Adjusted values are running maxima of p times the number of those not smaller."""
    for p in ([0.001, 0.02, 0.04, 0.3], [0.013, 0.013, 0.013], [0.5], [0.06, 0.012, 0.03, 0.0249, 0.0001]):
        ranked, adjusted = sorted(p), []
        for place, value in enumerate(ranked):
            adjusted.append(max([(len(p) - place) * value, *adjusted]))
        assert holm(p) == [adjusted[ranked.index(value)] <= 0.05 for value in p]


def test_verdicts_are_corrected_for_their_number():
    """Differences of 1, 1.5 and 2 points are clear for one claim (p = 0.035), and not for one of three."""

    def verdict(a, b):
        return judge_claim(one_claim(**ABOVE), results("e", {("A", ""): a, ("B", ""): b}))

    clear, weak = verdict([90, 91, 92], [10, 11.5, 12]), verdict([81, 82, 83], [80, 80.5, 81])
    undecided = verdict([80, 90], [81, 80])
    assert [v.outcome for v in (clear, weak, undecided)] == [REPRODUCED, REPRODUCED, UNDECIDED]
    assert weak.chance == pytest.approx(stats.ttest_1samp([1, 1.5, 2], 0).pvalue)
    assert [v.stands for v in corrected([weak])] == [True]
    assert [v.stands for v in corrected([weak, clear])] == [True, True]
    assert [v.stands for v in corrected([weak, undecided, clear])] == [False, None, True]


def test_the_page_says_how_many_verdicts_stand():
    levels = {("A-DSGD", "s/N = 0.5"): [80, 81], ("A-DSGD", "s/N = 0.04"): [40, 41]}
    levels |= {("TSA-GA", "s/N = 0.04"): [80, 85], ("TSA-GA", "s/N = 0.1"): [82, 83.1]}
    verdicts = judge(results("fig6", levels))
    text = " ".join(html.unescape(render("page", [], verdicts=verdicts)).split())
    stands = [verdict.stands for verdict in verdicts if verdict.stands is not None]
    said = f"With Holm's correction {sum(stands)} of the {len(stands)} decided verdicts stand."
    assert sum(stands) and said in text
    assert "Holm" not in score([verdict for verdict in verdicts if verdict.stands is None])
    assert "at most 2.5 %" in text and "stands with Holm's correction" in text
    missing = sum(verdict.outcome == INCOMPLETE for verdict in verdicts)
    assert f"{missing} not run in full" in score(verdicts)


def test_the_stronger_rival_stands_beside():
    levels = {("TSA-GA", "s/N = 0.04"): [80, 81], ("error-free", "s/N = 0.04"): [82, 83]}
    levels |= {("A-DSGD", "s/N = 0.04"): [40, 41], ("A-DSGD, MMSE", "s/N = 0.04"): [85, 86]}
    verdict = judge_claim(CLAIMS[9], results("fig6", levels))
    assert (verdict.outcome, verdict.against_mmse) == (REPRODUCED, NOT_REPRODUCED)
    assert [part.outcome for part in verdict.mmse_parts] == [REPRODUCED, NOT_REPRODUCED]
    assert "A-DSGD, MMSE" in verdict.mmse_parts[1].what
    assert judge_claim(CLAIMS[4], {}).against_mmse is None


def test_claims_without_results_are_left_out():
    assert judge({}) == []
    levels = {("TSA-GA", ""): [90, 91], ("error-free", ""): [91, 92], ("A-DSGD", ""): [50, 51]}
    found = {verdict.number: verdict for verdict in judge(results("fig5a", levels))}
    assert {1, 3, 4} <= set(found) and not {2, 5, 7, 18} & set(found)
    assert found[4].outcome == INCOMPLETE  # E = 5 is missing
    assert NOT_RUN in {part.outcome for part in found[4].parts}


def test_table_and_json():
    levels = {("A-DSGD", "s/N = 0.5"): [80, 81], ("A-DSGD", "s/N = 0.04"): [40, 41]}
    verdicts = judge(results("fig6", levels))
    heading, row = claims_table(verdicts)
    assert len(heading) == len(row) and row[0] == "10"
    assert row[1:4] == [REPRODUCED, "stands", INCOMPLETE]
    (entry,) = json.loads(to_json(verdicts))
    assert entry["outcome"] == REPRODUCED and entry["parts"][0]["value"] == pytest.approx(40)
    assert entry["parts"][0]["seeds"] == 2 and entry["stands"] is True
    assert entry["mmse_parts"][0]["low"] is None and "nan" not in to_json(verdicts).lower()


def test_measures_at_any_number_of_rounds():
    rows = [{"round": t, "accuracy": t / 100, "symbols": 10 * t, "nmse_db": -10.0} for t in range(1, 31)]
    rows[-1]["nmse_db"] = 0.0
    runs = rows, rows[:1], [row | {"accuracy": None} for row in rows]
    assert measured("final", *runs) == pytest.approx({0: 29, 1: 1})  # the third has none
    assert measured("rate", *runs) == pytest.approx({0: 5.5, 1: 1})
    assert measured("nmse_db", rows)[0] == pytest.approx(10 * math.log10((14 * 0.1 + 1) / 15))


def test_measures_of_the_theory():
    predicted = (-3.0, -6.0, -5.5, -10.0, -10.0, -10.0)
    rows = [{"round": t, "nmse_db": -9.0, "predicted_nmse_db": p} for t, p in enumerate(predicted, 1)]
    assert measured("unpredicted_db", rows, course(50)) == pytest.approx({0: 1})
    rows[0]["nmse_db"] = -4.0
    assert measured("improvement_db", rows)[0] == pytest.approx(5)
    rows = [{"round": 1, "gap": 1.0, "printed_bound": 10.0}, {"round": 2, "gap": 0.5, "printed_bound": 0.05}]
    assert measured("bound_over_gap", rows[:1], rows) == pytest.approx({0: 1, 1: -1})


def test_rate_per_symbol_ends_with_the_smaller_budget():
    """One curve spends 10 symbols per round and rises by a point each, the other 50 and 10 points."""
    slow, fast = (
        table.pandas.DataFrame([{"accuracy": t * up, "symbols": uses * t} for t in range(1, 21)])
        for up, uses in ((0.01, 10), (0.1, 50))
    )
    # From 50 to 200 symbols: 5 to 20 % against 10 to 40 %.
    assert rate_per_symbol([slow, fast]) == pytest.approx([12.5, 25.0])
    assert all(map(math.isnan, rate_per_symbol([slow, fast[:0]])))


@pytest.mark.parametrize(
    ("observed", "expected"), [((0.7, 0.95, 0.9), REPRODUCED), ((0.7, 0.5, 0.9), NOT_REPRODUCED)]
)
def test_observations(tmp_path, monkeypatch, observed, expected):
    found = SimpleNamespace(**dict(zip(("sparsity", "persistence", "correlation"), observed, strict=True)))
    monkeypatch.setattr(table, "observations", lambda folder: found)
    collected = results("fig2", {("error_free", ""): [0, 0]}, tmp_path)
    verdict = judge_claim(CLAIMS[18], collected)
    assert verdict.outcome == expected
    assert tuple(part.value for part in verdict.parts) == pytest.approx(observed)
