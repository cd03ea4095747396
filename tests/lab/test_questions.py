"""Questions answered by trial trainings: small data, hand-made courses, refusals and the command line."""

import importlib.util
import math
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.cli import main
from airfeel.lab import answers
from airfeel.lab.plan import Member
from airfeel.lab.question import Inquiry, Search, Trial, span

RADIO = {"radio.bandwidth_hz": 1e6, "radio.tx_power_dbm": 10.0, "radio.path_loss_db": 100.0}
NO_POWER = {key: value for key, value in RADIO.items() if "power" not in key}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = small.write_folder(tmp_path_factory.mktemp("data"))
    return {"dataset": str(folder), **small.SETTINGS, "scheme": "common_k", "rounds": 8, **RADIO}


@pytest.mark.parametrize("count", [2, 4, 8])
def test_one_more_value_lies_in_the_interval_as_often_as_promised(count):
    rng = np.random.default_rng(count)
    drawn = rng.normal(3.0, 2.0, (4000, count + 1))
    found = [span(list(row[:-1])) for row in drawn]
    inside = np.mean([one.low <= row[-1] <= one.high for one, row in zip(found, drawn, strict=True)])
    assert abs(inside - 0.98) < 5 * math.sqrt(0.98 * 0.02 / 4000)


def test_costs_are_averaged_by_their_ratios_and_known_to_an_evaluation_but_never_below_the_first():
    inquiry = Inquiry(keys={}, target=0.5)
    for reached, (value, low, high) in {(5, 5): (5, 4, 6), (1, 1): (1, 1, 2), (2, 8): (4, 1, None)}.items():
        tried = []
        for last in reached:
            rows = [
                {"round": t, "air_seconds": 0.1 * t, "accuracy": t / last / 2} for t in range(1, last + 1)
            ]
            tried.append(Trial(None, rows, rows[-1]))
        for name, one in {"rounds": 1.0, "seconds": 0.1}.items():
            found = answers._costs(inquiry, tried)[name]
            assert found[:2] == pytest.approx((one * value, one * low))
            assert high is None or found.high == pytest.approx(one * high)


def test_rounds_seconds_and_joules_until_an_accuracy_are_those_of_the_runs(keys, tmp_path):
    answer = af.plan(keys, target_accuracy=0.5, seeds=3, out=tmp_path, workers=1)
    table = af.read_results(tmp_path) if importlib.util.find_spec("pandas") else None
    assert answer.met and len(answer.table) == 3 and answer.text.endswith("(3 trial runs)")
    assert answer.text.startswith("50 % accuracy takes ")
    assert list(answer.numbers) == ["rounds", "seconds", "joules", "air_seconds", "downlink_seconds"]
    for row in answer.table:
        low, high = answer.numbers["rounds"][1:]
        assert low <= row["rounds"] <= high
        if table is not None:
            run = table[(table["run"] == row["run"]) & (table["accuracy"] >= 0.5)].iloc[0]
            assert (run["round"], run["joules"]) == (row["rounds"], row["joules of a device"])
    shutil.rmtree(tmp_path / "runs" / answer.table[1]["run"])  # as if it had been killed before this one
    assert af.plan(keys, target_accuracy=0.5, seeds=3, out=tmp_path, workers=1) == answer


def test_the_accuracy_within_a_budget(keys, tmp_path):
    three = af.plan(keys, within_rounds=3, seeds=2, out=tmp_path, workers=1)
    one = three.table[0]["seconds"] / 3
    assert one == pytest.approx((three.table[0]["seconds up"] + three.table[0]["seconds down"]) / 3)
    seconds = af.plan(keys, within_seconds=3.5 * one, seeds=2, out=tmp_path, workers=1)
    assert seconds.numbers == three.numbers and seconds.met is None
    assert {row["rounds"] for row in three.table} == {3.0}
    long = af.plan(keys, within_joules=1.0, seeds=2, out=tmp_path, workers=1)
    assert "all 8 rounds took only" in long.text


def test_a_target_out_of_reach_is_told_with_what_was_reached(keys, tmp_path):
    answer = af.plan(keys, target_accuracy=1.0, within_rounds=2, seeds=2, out=tmp_path, workers=1)
    assert answer.met is False and "0 of 2 trainings reach it within 2 rounds" in answer.text


def test_schemes_are_compared_and_doubt_is_told(keys, tmp_path):
    rest = {key: value for key, value in keys.items() if key != "scheme"}
    asked = {"schemes": ["common_k", "scheduled"], "seeds": 2, "out": tmp_path, "workers": 1}
    answer = af.plan(rest, target_accuracy=0.5, **asked)
    assert answer.text.startswith("50 % accuracy takes least of common_k, scheduled: ")
    assert {row["trial"] for row in answer.table} == {"common_k", "scheduled"}
    assert "comes farthest" in af.plan(rest, within_rounds=8, **asked).text


def test_the_command_says_the_answer_first(keys, tmp_path, capsys):
    words = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    words += ["--target-accuracy", "0.5", "--seeds", "2", "--out", str(tmp_path), "--workers", "1"]
    assert main(["plan", *words, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("2 runs, 0 of them finished already")
    assert not (tmp_path / "runs").exists()
    assert main(["plan", *words]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith("50 % accuracy takes ")
    assert "airfeel report" in err and "--target-accuracy 0.5" in err


PAGE = Path(__file__).parents[2] / "docs" / "planning.md"
ANSWERS = [
    r"40 % accuracy takes \S+ \(\S+ to \S+\) rounds, .* seconds, .* up and .* down, .* joules of a device",
    r"\S+ % \(\S+ to \S+\) accuracy within 0.05 seconds",
    r"40 % accuracy within 8 rounds is reached with any radio|radio.tx_power_dbm = \S+ is the smallest",
    r"40 % accuracy is reached with any uplink.ratio|uplink.ratio = \S+ is the smallest value found",
    r"40 % accuracy takes least of scheduled, tsa_ga_tuned, d_dsgd: ",
    r"\d+ runs, \d+ of them finished already",
]


@pytest.mark.long
def test_the_questions_of_the_page_are_answered(keys, tmp_path, capsys):
    """Each command as it stands there, on less data, with a lower target and fewer rounds."""
    section = PAGE.read_text().partition("## Five questions")[2].partition("## ")[0]
    commands = re.findall(r"^\$ airfeel (plan (?:.*\\\n)*.*)$", section, re.MULTILINE)
    assert len(commands) == len(ANSWERS)
    less = {"0.85": "0.4", "200": "8", "uplink.ratio=0.04": "uplink.ratio=0.3"}
    small_keys = {k: v for k, v in keys.items() if k.partition(".")[0] in ("dataset", "devices", "rounds")}
    for command, answer in zip(commands, ANSWERS, strict=True):
        words = [less.get(word, word) for word in shlex.split(command.replace("\\\n", " "))]
        words += [word for key, value in small_keys.items() for word in ("--set", f"{key}={value}")]
        words += ["--set", "uplink.ratio=0.8"] if "--schemes" in words else []  # bits of d_dsgd
        assert main(["--quiet", *words, "--out", str(tmp_path), "--workers", "1"]) == 0
        assert re.match(answer, capsys.readouterr().out), command


def courses(best, fails=()):
    """Return what stands for computing: a value reaches 80 % where ``best`` says so.

    In every seed alike, but for a value and a seed that ``fails``.
    """

    def computed(inquiry, values=(), sure=()):
        found = []
        for work in inquiry.experiment(values, sure).runs():
            value = getattr(work.config.radio, "tx_power_dbm", None)
            row = {"round": 1, "accuracy": best(value) + 1e-4 * work.config.seed}
            row["accuracy"] -= 0.5 if (value, work.config.seed) == fails else 0
            member = Member(work.curve, work.variant, work.config.seed, work.label)
            found.append(Trial(member, [row], row))
        return found

    return computed


def searched(best, fails=()):
    inquiry = Inquiry(keys=NO_POWER | {"scheme": "common_k"}, target=0.8, vary="radio.tx_power_dbm=0:32")
    return answers._searched(inquiry, lambda *given: courses(best, fails)(inquiry, *given))


def test_a_search_finds_where_the_target_begins_to_be_met():
    text, numbers, met, _ = searched(lambda dbm: 0.9 if dbm >= 12.3 else 0.5)
    found = numbers["radio.tx_power_dbm"]
    assert met and found.low < 12.3 <= found.value <= found.low + 1
    assert "smallest value" in text and "confirmed on other seeds" in text and "not monotone" not in text
    text, numbers, met, _ = searched(lambda dbm: 0.9 if dbm <= 12.3 else 0.5)
    found = numbers["radio.tx_power_dbm"]
    assert met and found.high - 1 <= found.value <= 12.3 < found.high and "largest value" in text
    text, numbers, met, _ = searched(lambda dbm: 0.9, fails=(0.0, 3))  # which only an other seed shows
    assert met and numbers["radio.tx_power_dbm"] == (1.0, 0.0, 1.0) and "smallest value" in text


def test_a_search_says_when_there_is_no_edge():
    assert searched(lambda dbm: 0.5)[0].startswith("80 % accuracy is reached nowhere in radio.tx_power_dbm")
    assert searched(lambda dbm: 0.9)[0].startswith("80 % accuracy is reached with any radio.tx_power_dbm")
    assert "not monotone" in searched(lambda dbm: 0.9 if 10 < dbm < 20 else 0.5)[0]
    assert "not monotone" in searched(lambda dbm: 0.9 if dbm > 12 and not 20 < dbm < 24 else 0.5)[0]
    told = searched(lambda dbm: 0.8 if dbm == 32 else 0.5)[0]
    assert "not for sure" in told and "4 of 4 trainings reach it at radio.tx_power_dbm = 32" in told
    assert "not for sure" in searched(lambda dbm: 0.8)[0]


def test_only_what_looks_like_the_answer_is_computed_on_all_seeds():
    tried = searched(lambda dbm: 0.9 if dbm >= 12.3 else 0.5)[3]
    by_value = {}
    for trial in tried:
        by_value.setdefault(trial.member.variant, []).append(trial.member.seed)
    assert sorted(map(len, by_value.values()))[-2:] == [2, 4] and len(tried) <= 22


def test_values_between_are_whole_or_by_ratios_where_that_is_fit():
    assert Search.read("devices.count=1:100", {}).middle(1, 100) == 10
    assert Search.read("devices.count=5:7", {}).middle(5, 7) == 6
    assert Search.read("uplink.ratio=0.01:1", {}).middle(0.01, 1.0) == pytest.approx(0.1)
    assert Search.read("radio.tx_power_dbm=1:31", {}).middle(1, 31) == 16


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({}, "plan: must ask for --target-accuracy"),
        ({"target_accuracy": 85}, r"--target-accuracy = 85\.0: .* such as 0.8 for 80 %"),
        (
            {"within_rounds": 3, "within_joules": 1.0},
            "--within-rounds and --within-joules: must not be given",
        ),
        ({"within_rounds": 0}, "--within-rounds = 0"),
        ({"within_rounds": 10**18}, "--within-rounds = 1000000000000000000: must be a whole number"),
        ({"target_accuracy": 0.5, "vary": 3}, "--vary 3: must have the form"),
        ({"target_accuracy": 0.5, "schemes": "tsa_ga,foo"}, "scheme = 'foo'"),
        ({"within_seconds": -1.0}, "--within-seconds = -1"),
        ({"within_seconds": 1.0}, "--within-seconds 1: needs a radio"),
        ({"target_accuracy": 0.5, "seeds": 1}, "--seeds = 1"),
        ({"within_rounds": 2, "vary": "uplink.ratio=0.1:1"}, "--vary .*: needs --target-accuracy"),
        ({"target_accuracy": 0.5, "vary": "uplink.ratio"}, "--vary uplink.ratio: must have the form"),
        ({"target_accuracy": 0.5, "vary": "uplink.ratio=1:0.1"}, "must be from a smaller to a larger value"),
        ({"target_accuracy": 0.5, "vary": "devices.count=1.5:3"}, "whole numbers"),
        ({"target_accuracy": 0.5, "vary": "scheme=1:2"}, "must be a key that is a number"),
        ({"target_accuracy": 0.5, "vary": "seed=1:2"}, "must not be seed"),
        ({"target_accuracy": 0.5, "vary": "uplink.ration=0.1:0.2"}, "unknown key.*uplink.ratio"),
        (
            {"target_accuracy": 0.5, "vary": "uplink.clip=1:9", "scheme": "common_k"},
            "must be a key that changes results, and scheme = 'common_k' does not read it",
        ),
        (
            {"target_accuracy": 0.5, "vary": "uplink.ratio=0.1:0.2", "uplink.ratio": 0.3},
            "must not be set too, and uplink.ratio = 0.3 is",
        ),
        (
            {"target_accuracy": 0.5, "vary": "uplink.ratio=0.1:1", "schemes": ["tsa_ga", "common_k"]},
            "--vary and --schemes: must not be given together",
        ),
        ({"target_accuracy": 0.5, "schemes": ["tsa_ga", "tsa_ga"]}, "no scheme may appear twice"),
        ({"target_accuracy": 0.5, "schemes": ["tsa_gaa"]}, "tsa_gaa"),
        ({"target_accuracy": 0.5, "schemes": ["tsa_ga"], "scheme": "common_k"}, "and --schemes: must not"),
        ({"target_accuracy": 0.5, "uplink.ration": 0.3}, "unknown key"),
        ({"within_seconds": 1e-9, **RADIO}, "must be a round at least, which takes"),
        ({"within_joules": 1.0, "schemes": ["scheduled", "split"], **RADIO}, "'split': sends nothing over"),
        ({"target_accuracy": 0.5, "vary": "server.momentum=0:0.9"}, "set devices.momentum instead"),
        ({"target_accuracy": 0.5, "schemes": ","}, "scheme = ''"),
    ],
)
def test_what_is_no_question_gets_one_sentence(asked, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        af.plan(out=tmp_path / "results", **asked)
    assert not (tmp_path / "results").exists()
