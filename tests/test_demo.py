"""The demo and the headline: what a stranger reads first is right, and says what was computed."""

import re

import pytest

import fakes
import small
from airfeel.commands.runs import _DEMO
from airfeel.lab.plan import Experiment, shipped
from airfeel.lab.words import headline, opening, short_table

CURVES = ["error-free", "scheduled (our own)", "TSA-GA", "Turbo-CS, no memory", "A-DSGD, one seed"]


@pytest.mark.long
def test_the_demo_runs_and_says_what_to_look_at(tmp_path):
    pytest.importorskip("altair")
    out = tmp_path / "demo"
    ended = small.succeed(["airfeel", "demo", "--rounds", "2", "--seeds", "1", "--out", str(out)])
    said = [part.replace("\n", " ") for part in ended.stdout.strip().split("\n\n")]  # lines are broken
    assert said[0].startswith("25 devices together learned handwritten digits (mnist) over one noisy")
    assert "sending 25 times fewer symbols than the model has weights" in said[0]
    for name in _DEMO:
        (told,) = (part for part in said if part.startswith(f"{shipped(name).title}: "))
        assert "points of accuracy lost with scheduled (our own)" in told
    assert all(ended.stdout.count(f"\n{curve}  ") == 2 for curve in CURVES)
    assert f"Page with figures: {out / 'report.html'}" in ended.stdout
    assert (out / "report.html").stat().st_size > 1e5
    assert "claim" not in ended.stdout and not (out / "claims.json").exists()


def test_the_commands_to_try_next_exist():
    from airfeel.cli import app
    from airfeel.commands.runs import _NEXT

    for words in _NEXT:
        app.parse_args(re.sub(" >.*", "", words), exit_on_error=False, print_error=False)


@pytest.mark.parametrize("name", _DEMO)
def test_the_demo_is_what_it_promises(name):
    experiment = shipped(name)
    runs = experiment.runs()
    assert list(dict.fromkeys(run.curve for run in runs)) == CURVES
    assert {(run.config.rounds, run.config.uplink.ratio) for run in runs} == {(100, 0.04)}
    assert {run.config.devices.participation for run in runs} == {0.5 if name == "demo-half" else 1.0}
    seeds = {curve: [run.config.seed for run in runs if run.curve == curve] for curve in CURVES}
    assert seeds.pop("A-DSGD, one seed") == [0]
    assert set(map(tuple, seeds.values())) == {(0, 1, 2)}
    short = experiment.shortened(5, 2)
    assert [run.config.seed for run in short.runs() if run.curve in CURVES[-2:]] == [0, 1, 0]


def found_of(experiment, folder):
    fakes.write_experiment(experiment, folder)
    return fakes.collected(experiment, folder)


def test_the_headline_says_the_numbers_of_the_tables(tmp_path):
    found = found_of(shipped("demo").shortened(40), tmp_path)
    lost = {curve: sum(gap.values()) / len(gap) for (curve, _), gap in found.gaps().items()}
    ideal = found.ends("final")["error-free", ""]
    worst = max(lost, key=lost.__getitem__)
    assert opening(found) == (
        "25 devices together learned handwritten digits (mnist) over one noisy radio channel, "
        "sending 25 times fewer symbols than the model has weights."
    )
    assert headline(found) == (
        f"{found.experiment.title}: {lost['scheduled (our own)']:.1f} points of accuracy lost with "
        f"scheduled (our own), {lost['TSA-GA']:.1f} with TSA-GA and {lost[worst]:.1f} with {worst} "
        f"(a perfect channel reaches {sum(ideal.values()) / 3:.1f} %)."
    )
    rows = short_table(found)
    assert [row[0] for row in rows[1:]] == CURVES
    assert [row[3:] for row in rows[1:3]] == [["-", "3"], ["314", "3"]]
    assert rows[-1][3:] == ["314", "1"] and "±" not in rows[-1][1]


def test_a_headline_says_in_a_word_that_nothing_was_lost(tmp_path):
    labels = {"error-free": "tsa_ga", "mine": "scheduled", "also mine": "dense", "theirs": "a_dsgd"}
    curves = [{"label": label, "scheme": scheme} for label, scheme in labels.items()]
    mine = Experiment(name="x", title="x", rounds=20, curves=curves, subjects=["mine", "also mine"])
    assert re.match(
        r"x: no points of accuracy lost with mine, none with also mine and \d+\.\d with theirs \(a perfect",
        headline(found_of(mine, tmp_path)),
    )


def test_a_headline_of_a_sweep_goes_from_its_worst_setting_to_its_best(tmp_path):
    grid = {"uplink.power": [50.0, 500.0], "uplink.ratio": [0.04, 0.1]}
    found = found_of(Experiment(name="mine", title="mine", rounds=20, grid=grid), tmp_path)
    ends = [sum(of.values()) / len(of) for of in found.ends("final").values()]
    assert max(ends) - min(ends) > 0.1
    assert headline(found).endswith(
        f": test accuracy {min(ends):.1f} to {max(ends):.1f} % with scheduled over 4 settings."
    )


def test_a_study_of_the_theory_has_no_headline():
    assert headline(fakes.selection(shipped("recovery"), {})) == ""
