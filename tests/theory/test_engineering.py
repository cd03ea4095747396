"""Profiles, and what engineers ask: by hand, and through the command line."""

import json
from itertools import pairwise

import pytest

import small
from airfeel.beliefs.chains import ChainParams
from airfeel.experiments.studies import profiles
from airfeel.experiments.studies.engineering import Reaching, swept
from airfeel.experiments.studies.profiles import Measured, Profile
from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import LinkBudget

RADIO = ("--bandwidth-hz", "5e6", "--tx-power-dbm", "10", "--path-loss-db", "120")


def ask(*words):
    return small.call(["airfeel", "predict", *words])


def made(links):
    return Profile("made", "by hand", 100, 5, 0.2, ChainParams(0.2, 0.01, 0.01), 1.0, (10, 20), links)


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


def test_shipped_profiles_are_sound():
    assert profiles.names() == ["fashion-mnist-softmax", "mnist-cnn", "mnist-softmax"]
    for name in profiles.names():
        profile = profiles.load(name)
        assert profile.spread_db < 1 and len(profile.links) == 5
        assert all(len(course) == len(profile.evaluated) for k in profile.links for course in k.accuracy)
        assert all(len(link.accuracy) == 3 for link in profile.links)
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
    assert found["until"]["rounds"] >= 1 and found["radio"]["bandwidth_hz"] == 1e6
    other = ask(folder, "--target-accuracy", "0.3", "--ratio", "0.2")
    assert other.returncode == 2 and "only of its own link" in other.stderr
