"""A results folder of somebody else's: nothing is imported, called or opened because its files name it."""

import json
import os
import shutil
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import fakes
import small
from airfeel.lab import plan
from airfeel.lab.plan import Experiment, remember_experiment
from airfeel.lab.results import read_results
from airfeel.lab.studies.recorded import read_recorded
from airfeel.radio.response import Response
from airfeel.registry import DATASETS

SETTINGS = {"rounds": 14, "run__record_aggregates": "true", "run__checkpoint_every": 5}
RADIO = {"radio__bandwidth_hz": 1e6, "radio__tx_power_dbm": 10.0}
BRIEF = ("--rounds", "12", "--json")
CANARY = """
from pathlib import Path

def leave(*given, **more):
    with Path(__file__).with_name("trace").open("a") as file:
        file.write("called")

leave()
Scheme = Channel = Model = load = leave
"""
# What a file of a run names in place of what the run had.
NAMES = {
    "scheme": ('scheme = "tsa_ga"', 'scheme = "canary:Scheme"'),
    "model": ('kind = "softmax"', 'kind = "canary:Model"'),
    "channel": ('kind = "gaussian"', 'kind = "canary:Channel"\nthreshold = 0.2'),
    "data": ('dataset = "{data}"', 'dataset = "canary:load"'),
    "entry point": ('dataset = "{data}"', 'dataset = "canary"'),
    "file": ('dataset = "{data}"', 'dataset = "{canary}/data.npz"'),
    "folder": ('dataset = "{data}"', 'dataset = "{canary}"'),
    "responses": ('kind = "gaussian"', 'kind = "response"\nsource = "{canary}/responses.npz"'),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run that kept its aggregates, and a run over recorded responses with a radio."""
    place = tmp_path_factory.mktemp("place")
    data = small.write_folder(place / "data")
    np.savez(place / "mine.npz", 1e-4 * np.random.default_rng(0).standard_normal((3, 5, 20)))
    air = {"channel__kind": "response", "channel__source": place / "mine.npz"}
    for out, more in (("own", {}), ("air", air | RADIO)):
        small.succeed(small.command(data, place / out, **SETTINGS, **more))
    own = f'base.dataset = "{data}"\nbase.devices.samples = 100\n'
    (place / "tiny.toml").write_text(f"seeds = [0]\nrounds = 1\n{own}")
    return place


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A module that leaves a trace when it is imported or called, and data; all of it can be found."""
    folder = small.write_folder(tmp_path / "canary")
    names = ("x_train", "y_train", "x_test", "y_test")
    np.savez(folder / "data.npz", **dict(zip(names, small.arrays(), strict=True)))
    np.savez(folder / "responses.npz", np.ones((3, 5, 20)))
    (folder / "canary.py").write_text(CANARY)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    entry = EntryPoint("canary", "canary:load", DATASETS.group)
    monkeypatch.setitem(vars(DATASETS), "_entry_points", {"canary": entry})
    monkeypatch.setattr(DATASETS, "_parts", dict(DATASETS._parts))
    return folder


@pytest.fixture
def opened(monkeypatch):
    """The paths of all files that are opened."""
    paths, real = [], os.open

    def spy(path, *rest, **more):
        paths.append(os.fspath(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", spy)
    return paths


def forged(place, out, canary, name):
    """Return a copy of the run whose configuration names something else, with hashes and name that fit."""
    (own,) = (place / "own/runs").iterdir()
    old, new = (words.format(data=place / "data", canary=canary) for words in NAMES[name])

    def edit(text):
        assert old in text
        return text.replace(old, new)

    run = shutil.copytree(own, out / "runs" / f"{name.replace(' ', '_')}-0")
    return fakes.rewrite(run, edit)


def quiet(canary, opened):
    """Nothing was run, and nothing of the canary's was opened."""
    return not (canary / "trace").exists() and not [path for path in opened if str(canary) in str(path)]


def ended(*words):
    done = small.call(["airfeel", *map(str, words)])
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.long
@pytest.mark.parametrize("state", ["finished", "begun"])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_read_and_nothing_that_it_names(place, tmp_path, canary, opened, name, state):
    run = forged(place, tmp_path / "out", canary, name)
    if state == "begun":
        (run / "summary.json").unlink()
    brief = ("--json",) if name == "scheme" else BRIEF  # the default stands for it, which is linear
    told = ended("predict", run, *brief)
    assert told.returncode == 0, told.stderr
    (own,) = (place / "own/runs").iterdir()
    same = json.loads(told.stdout) == json.loads(ended("predict", own, *brief).stdout)
    assert same == (name != "scheme")
    assert ended("predict", run, *brief, "--set", "uplink.ratio=0.2").returncode == 0
    (run / "aggregates" / "round-000014.npz").unlink()  # then N comes from s/N
    assert state == "finished" or json.loads(ended("predict", run, *brief).stdout)["link"]["size"] == 260
    assert quiet(canary, opened)
    stands = "is not loaded because a file names it" in told.stderr
    assert stands == (name in ("scheme", "model", "channel"))


COMMANDS = {
    "run": lambda place, out: [small.command(place / "data", out, **SETTINGS | {"rounds": 1})[3:]],
    "report": lambda place, out: [["report", out]],
    "tables": lambda place, out: [["report", out, "--csv"]],
    "sweep": lambda place, out: [["sweep", place / "tiny.toml", "--out", out, "--workers", "1"]],
    "inspect": lambda place, out: [["inspect", run] for run in out.glob("runs/*s*-*")],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_leaves_a_folder_s_names_alone(place, tmp_path, canary, opened, monkeypatch, command):
    pytest.importorskip("altair")
    fakes.draw_nothing(monkeypatch)
    out = tmp_path / "out"
    runs = {name: forged(place, out, canary, name).name for name in NAMES}
    base = {"dataset": "canary:load", "model": {"kind": "canary:Model"}, "scheme": "canary:Scheme"}
    grid = {"channel": {"kind": ["canary:Channel"], "source": [f"{canary}/responses.npz"]}}
    remember_experiment(Experiment(name="planted", title="planted", base=base, grid=grid), out, [])
    listed = [{"curve": "theirs", "variant": "", "seed": 0, "label": runs["scheme"]}]
    (out / "experiments/planted.json").write_text(json.dumps(listed))
    commands = COMMANDS[command](place, out)
    if command in ("report", "tables"):  # which build no configuration
        monkeypatch.setattr(plan, "KINDS", {})
    for words in commands:
        assert ended(*words).returncode == 0
    table = read_results(out)
    assert len(table) == 14 * len(NAMES) + (command in ("run", "sweep"))
    assert set(table["scheme"]) >= {"tsa_ga", "canary:Scheme"}  # each under its own name
    if command in ("report", "tables"):
        assert (out / "results.csv").read_text().count("\nplanted,canary:Scheme,0,") == 14
    if command == "report":
        page = (out / "report.html").read_text()
        assert "<h2>planted</h2>" in page and "canary:Scheme" in page
    assert quiet(canary, opened)


def test_a_run_goes_on_by_the_user_s_words_not_by_its_folder_s(place, tmp_path, canary, opened):
    out = shutil.copytree(place / "own", tmp_path / "out")
    (run,) = (out / "runs").iterdir()
    (run / "summary.json").unlink()
    whole = (run / "config.toml").read_text()
    text = whole
    for old, new in NAMES.values():
        old, new = (words.format(data=place / "data", canary=canary) for words in (old, new))
        text = text.replace(old, new)
    (run / "config.toml").write_text(text)
    done = ended(*small.command(place / "data", out, **SETTINGS)[3:])
    assert done.returncode == 0 and "continuing after round 14" in done.stderr
    assert (run / "config.toml").read_text() == whole
    assert quiet(canary, opened)


def test_records_tell_the_path_loss_of_recorded_responses(place, opened):
    """The file that holds them is the run's own: it is opened by whoever names it, and not by its folder."""
    (run,) = (place / "air/runs").iterdir()
    losses = []
    for more in ([], ["--set", "radio.noise_figure_db=3", "--set", "radio.overhead=0.1"]):
        told = ended("predict", run, *BRIEF, *more)
        assert told.returncode == 0, told.stderr
        losses.append(json.loads(told.stdout)["radio"]["path_loss_db"])
    assert read_recorded(run).noise.all()
    assert str(place / "mine.npz") not in opened
    assert losses == pytest.approx([Response(str(place / "mine.npz")).reference_loss_db] * 2)
