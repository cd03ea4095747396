"""Profiles, and what engineers ask: by hand, and through the command line."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import small
from airfeel.beliefs.chains import ChainParams
from airfeel.experiments.report.own_reaching import run_reaching
from airfeel.experiments.studies import profiles
from airfeel.experiments.studies.engineering import ByProfile, Reaching, rounds_to, swept
from airfeel.experiments.studies.other_devices import Changed, OtherDevices
from airfeel.experiments.studies.profiles import Measured, Profile
from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import LinkBudget, LinkDraws

RADIO = ("--bandwidth-hz", "5e6", "--tx-power-dbm", "10", "--path-loss-db", "120")


def ask(*words):
    return small.call(["airfeel", "predict", *words])


OTHERS = OtherDevices(25, [Changed(-12.0, -1.0, -1.5, -4.0), Changed(-8.0, -0.5, -0.5, -1.0)])


def made(links, others=OTHERS):
    return Profile("made", "by hand", 100, 5, 0.2, ChainParams(0.2, 0.01, 0.01), 1.0, (10, 20), links, others)


def test_between_the_links_of_a_profile():
    links = [
        Measured(-20, -10, [[0.5, 0.9]]),
        Measured(-10, -8, [[0.4, 0.8]]),
        Measured(-6, -6, [[0.2, 0.4]]),
    ]
    profile = made(links)
    assert profile.measured_db(-15)[0] == pytest.approx(-9)
    assert profile.measured_db(-30)[0] == pytest.approx(-20) and profile.measured_db(-4)[0] == pytest.approx(
        -4
    )
    assert profile.spread_db == pytest.approx(8 - (6 + 4 * 4 / 14))  # the middle one told by its neighbours
    assert profile.rounds_to(0.8, -8) == pytest.approx([20.0])
    assert profile.rounds_to(0.7, -10) == pytest.approx([15.0])
    assert profile.rounds_to(0.7, -9) == pytest.approx([(15 * 17.5) ** 0.5])
    assert profile.rounds_to(0.7, -7) == [] and profile.rounds_to(0.3, 3) == []
    assert profile.rounds_to(0.9, -40) == pytest.approx([20.0])  # better than all measured: the best speaks


def test_another_seed_may_differ_more_than_the_three_of_a_profile():
    links = [Measured(-20, -10, [[0.5, 0.9], [0.7, 0.9], [0.6, 0.9]]), Measured(-10, -8, [[0.1, 0.2]] * 3)]
    profile = made(links)
    logs = np.log([profile._first(course, 0.8) for course in links[0].accuracy])  # the other never gets there
    half = 4.302653 * np.std(logs, ddof=1) * (4 / 3) ** 0.5  # Student's t with two degrees of freedom
    assert profile.seeds_factor(0.8) == pytest.approx(np.exp(half), rel=1e-5)
    assert profile.seeds_factor(0.99) == 1.0


def test_other_devices_change_what_was_measured_and_nothing_changes_nothing():
    assert OTHERS.change_db(-10.0, 25) == (0.0, 0.0)
    assert OTHERS.change_db(-12.0, 50)[0] == pytest.approx(-1.0)
    assert OTHERS.change_db(-12.0, 25, silent=0.09)[0] == pytest.approx(-1.5)
    assert OTHERS.change_db(-30.0, 50, silent=0.5)[0] == pytest.approx(
        -4.0
    )  # beyond, the nearest link speaks
    assert OTHERS.change_db(-10.0, 50, silent=0.01)[0] == pytest.approx(-2.5)
    assert OTHERS.change_db(-4.0, 50)[0] == pytest.approx(-0.25) and OTHERS.change_db(0.0, 2)[0] == 0
    assert OTHERS.change_db(-10.0, 50, silent=0.09)[1] > OTHERS.change_db(-10.0, 50)[1] > 0


def test_errors_fall_with_the_devices_and_never_to_nothing():
    for silent in (0.0, 0.005, 0.2):
        changes = [
            OTHERS.change_db(-12.0, devices, silent)[0] for devices in (2, 5, 12, 25, 40, 50, 90, 10**6)
        ]
        assert all(a >= b for a, b in pairwise(changes)) and changes[-1] > -4 - 3.1
    # The part that averages out is b/M: of an error a + b/M, as much is gained from 25 to 50 as from 50 on.
    linear = [10 ** (OTHERS.change_db(-12.0, devices)[0] / 10) for devices in (12.5, 25, 50, 100)]
    assert linear[0] - linear[1] == pytest.approx(2 * (linear[1] - linear[2]))
    assert linear[1] - linear[2] == pytest.approx(2 * (linear[2] - linear[3]))


def test_a_promise_for_other_devices_is_moved_and_wider():
    profile = profiles.load("mnist-softmax")
    plan = replace(profiles.plan_for(profile.chain), rounds=4, samples=1600)
    link = LinkBudget(excess=profile.excess)
    own = ByProfile(plan, profile).promise(link)
    assert own.plain_db == own.steady_db and "in place of" not in own.margin
    more = replace(link, devices=50, power=link.power / 4)
    found = ByProfile(plan, profile).promise(more)
    assert found.plain_db == pytest.approx(own.steady_db)
    change = profile.others.change_db(found.plain_db, 50)[0]
    assert change < 0 and found.steady_db == pytest.approx(found.plain_db + change)
    assert "50 devices in place of 25" in found.margin
    air = LinkDraws(np.ones((2, 4)), np.full((2, 4), 0.9), np.full((2, 4), 0.9), silent=0.1)
    quiet = ByProfile(replace(plan, air=air), profile).promise(more)
    assert "10 % of the devices silent" in quiet.margin
    assert quiet.worst_db - quiet.best_db > found.worst_db - found.best_db > 0
    some = replace(air, sent=np.ones((2, 4)), arriving=np.ones((2, 4)), silent=0.5, computing=0.5)
    fewer = ByProfile(replace(plan, air=some), profile).promise(more)  # 25 of the 50 in every round
    assert fewer.steady_db - fewer.plain_db == pytest.approx(
        profile.others.change_db(fewer.plain_db, 25, silent=0.5)[0]
    )
    assert "in place of" not in fewer.margin and "50 % of the devices silent" in fewer.margin
    late = ByProfile(replace(plan, air=replace(air, silent=0.3, late=0.3)), profile).promise(more)
    assert late.best_db == pytest.approx(quiet.best_db) and late.steady_db == pytest.approx(
        quiet.steady_db + 1.5
    )
    assert late.worst_db == pytest.approx(quiet.worst_db + 3) and "so many were not measured" in late.margin
    with pytest.raises(
        ValueError, match="cannot send = 0.50: must be at most 0.35 with --profile; train with"
    ):
        ByProfile(replace(plan, air=replace(air, silent=0.5, late=0.5)), profile).promise(more)
    alike = rounds_to(profile, 0.8, replace(own, steady_db=-9.0, best_db=-9.2, worst_db=-8.8, plain_db=-9.0))
    moved = rounds_to(profile, 0.8, replace(own, steady_db=-10, best_db=-10.5, worst_db=-9.5, plain_db=-9.0))
    assert moved.rounds < alike.rounds and moved.fewest <= alike.fewest and moved.most >= alike.rounds


def test_shipped_profiles_are_sound():
    assert profiles.names() == ["fashion-mnist-softmax", "mnist-cnn", "mnist-softmax"]
    for name in profiles.names():
        profile = profiles.load(name)
        assert profile.spread_db < 1 and len(profile.links) == 5
        assert all(len(course) == len(profile.evaluated) for k in profile.links for course in k.accuracy)
        assert all(len(link.accuracy) == 3 for link in profile.links)
        assert profile.others.links and profile.others.devices == profile.devices
        for known in profile.others.links:
            assert known.nmse_db in [link.nmse_db for link in profile.links]
            assert known.both_db < min(known.doubled_db, known.silent_db) and known.doubled_db < 0
        told = profiles.plan_for(profile.chain)
        assert (told.rounds, told.samples) == (profiles.ROUNDS, profiles.SAMPLES)


def test_words_of_an_answer():
    assert Reaching(100, 90, 120).times(0.01) == "1 (0.9 to 1.2)"
    assert Reaching(100, 90, None).times(1) == "100 (90 to never)"
    assert Reaching(None, None, None).times(1) == "not reached"


def test_a_wider_band_is_faster_and_noisier():
    units, link = RadioUnits(1e6, 10, 110), LinkBudget()
    radios = [radio for radio, _ in swept(units, link, "bandwidth")]
    assert [round(a.snr / b.snr, 6) for a, b in pairwise(radios)] == [2.0] * 4
    powers = [round(other.power / units.power(link.rows), 3) for _, other in swept(units, link, "power")]
    assert powers == [0.01, 0.1, 0.316, 1.0, 3.162, 10.0, 100.0]


def test_an_engineer_s_question():
    told = ask("--profile", "mnist-softmax", *RADIO, "--target-accuracy", "0.8", "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["radio"]["air_seconds"] == pytest.approx(785 / 2 / 5e6 * 1.3)
    assert found["radio"]["joules"] == pytest.approx(0.01 * found["radio"]["air_seconds"])
    assert 100 < found["until"]["rounds"] < 300 and found["until"]["fewest"] < found["until"]["most"]
    assert "mnist-softmax" in found["margin"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--profile", "mnist"], "--profile = 'mnist': must be one of 'fashion-mnist-softmax'"),
        (["--profile", "mnist-cnn", "--beta", "0.1"], "--beta: must not be given with --profile"),
        (["--profile", "mnist-cnn", "--set", "scheme=turbo_cs"], "must be 'tsa_ga' with --profile"),
        ([*RADIO, "--power", "5"], "--power: must not be given with a bandwidth"),
        (["--table", "power"], "--table power: must be given with --profile and --bandwidth-hz"),
        (
            ["--target-accuracy", "0.8"],
            "--target-accuracy: must be given with --profile or the folder of a run",
        ),
        (["--profile", "mnist-cnn", "--target-accuracy", "80"], "--target-accuracy = 80.0: must be a finite"),
        (["--bandwidth-hz", "1e6"], "radio.tx_power_dbm is missing"),
    ],
)
def test_mistakes(words, sentence):
    told = ask(*words)
    assert told.returncode == 2 and sentence in told.stderr and "Traceback" not in told.stderr


def test_a_run_tells_when_it_reached_an_accuracy(tmp_path):
    data = small.write_folder(tmp_path / "small")
    keys = {"radio__bandwidth_hz": 1e6, "radio__tx_power_dbm": 10.0, "radio__path_loss_db": 100.0}
    done = small.call(small.command(data, tmp_path / "out", rounds=12, devices__learning_rate=0.1, **keys))
    folder = done.stdout.strip().splitlines()[-1]
    told = ask(folder, "--target-accuracy", "0.3", "--json", "--samples", "4000")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    until = found["until"]
    assert 1 <= until["fewest"] <= until["rounds"] <= until["most"] and "stays" in until["basis"]
    assert found["radio"]["bandwidth_hz"] == 1e6
    other = ask(folder, "--target-accuracy", "0.3", "--ratio", "0.2")
    assert other.returncode == 2 and "only of its own link" in other.stderr


def course(*accuracies, every=5):
    """Return the records of a run that was evaluated so often."""
    rounds = [{"round": t, "accuracy": None} for t in range(1, every * len(accuracies) + 1)]
    for place, accuracy in enumerate(accuracies, start=1):
        rounds[place * every - 1]["accuracy"] = accuracy
    return rounds


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ((0.5, 0.7, 0.8), (10.0, 6.0, 10.0)),
        ((0.7, 0.8, 0.9), (5.0, 1.0, 5.0)),
        ((0.5, 0.7, 0.6, 0.7), (10.0, 6.0, 20.0)),  # it fell back once
        ((0.5, 0.7, 0.6), (10.0, 6.0, None)),
        ((0.5, 0.6, 0.6), (None, None, None)),
    ],
)
def test_limits_of_one_run(tmp_path, accuracies, expected):
    found = run_reaching(tmp_path, course(*accuracies), 0.65)
    assert (found.rounds, found.fewest, found.most) == expected


def test_runs_with_other_seeds_give_an_interval(tmp_path):
    data = small.write_folder(tmp_path / "small")
    firsts = []
    for seed in (1, 2, 3):
        keys = {"rounds": 12, "devices__learning_rate": 0.1, "seed": seed}
        done = small.call(small.command(data, tmp_path / "out", **keys))
        folder = Path(done.stdout.strip().splitlines()[-1])
        rows = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
        firsts.append(next(row["round"] for row in rows if row["accuracy"] >= 0.3))
    other = small.command(data, tmp_path / "out", rounds=13, devices__learning_rate=0.1)
    small.call(other)  # another training, which must not be counted
    found = run_reaching(folder, rows, 0.3)
    assert found.rounds == pytest.approx(np.mean(firsts)) and "3 of 3 seeds" in found.basis
    half = 4.302653 * np.std(firsts, ddof=1) / 3**0.5  # Student's t with two degrees of freedom
    assert found.most == pytest.approx(np.mean(firsts) + half)
    assert found.fewest == pytest.approx(max(1.0, np.mean(firsts) - half))
    assert run_reaching(folder, rows, 0.9999).rounds is None
