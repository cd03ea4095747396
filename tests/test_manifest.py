"""Only what a run wrote is believed: whatever else is in its folder is named, left out and computed again."""

import json
import logging
import shutil

import pytest

import fakes
import small
from airfeel.config import load_config
from airfeel.lab import store
from airfeel.lab.plan import KINDS, ResultsFolder
from airfeel.lab.report import loose_runs
from airfeel.lab.results import read_results, write_results
from airfeel.lab.rundir import open_run
from airfeel.lab.runner import execute
from airfeel.lab.store import Damage, FinishedRun, examine
from airfeel.lab.table import Results

ROUNDS = 4


def config(seed):
    return load_config(None, {"scheme": "tsa_ga", "seed": seed, "rounds": ROUNDS})


@pytest.fixture
def out(tmp_path):
    """Two finished runs."""
    for seed in range(2):
        fakes.write_run(config(seed), tmp_path / "out")
    return tmp_path / "out"


def run_of(out, seed=0):
    return out / "runs" / config(seed).label()


def replace_in(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


EDITS = {
    "summary.json": lambda run: replace_in(run / "summary.json", "{", '{"accuracy": 0.9,'),
    "config.toml": lambda run: replace_in(run / "config.toml", "seed = 0", "seed = 8"),
    "rounds.jsonl": lambda run: replace_in(run / "rounds.jsonl", '"accuracy": 0.', '"accuracy": 0.9'),
    "timings.jsonl": lambda run: replace_in(run / "timings.jsonl", "0.05", "0.01"),
    "manifest.json": lambda run: replace_in(run / "manifest.json", '"format": 1', '"format": 2'),
    "no manifest.json": lambda run: (run / "manifest.json").unlink(),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_file_is_named_and_its_run_left_out_while_others_stay(out, caplog, name):
    run, other = run_of(out), run_of(out, 1)
    EDITS[name](run)
    notes = []
    table = write_results(ResultsFolder(out), notes.append).read_text()
    assert table.count("\n") == 1 + ROUNDS
    write_results(ResultsFolder(out), notes.append)  # said again, though the run was not read again
    assert notes == 2 * notes[:1] and "left out" in notes[0]
    assert notes[0].startswith(f"{run.name}: {name.removeprefix('no ')} ")
    with caplog.at_level(logging.WARNING, "airfeel"):
        assert set(read_results(out)["run"]) == {other.name}
    assert caplog.messages == [notes[0]]
    runs, left_out = loose_runs(Results(ResultsFolder(out)), [run.name])  # of an experiment or not
    assert runs == [other.name] and left_out == [notes[0]]


def test_a_configuration_and_its_hash_together_are_not_that_of_the_folder(out):
    run = run_of(out)
    EDITS["config.toml"](run)
    fakes.seal(run)
    found = examine(run)
    assert found.file == "config.toml" and "the folder's name does not end with it" in found.rule


@pytest.mark.parametrize("other", ["true", "1.0", '"1"', "0", "null", " 1", '1, "format": 1'])
def test_a_manifest_that_only_means_the_same_is_damage(out, other):
    path = run_of(out) / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', f'"format": {other}'))
    assert examine(run_of(out)).file == "manifest.json"


def test_a_run_that_does_not_say_what_was_hashed_is_not_read(out):
    path = run_of(out) / "config.toml"
    path.write_text(path.read_text().partition("[identity]")[0])
    fakes.seal(run_of(out))
    assert str(examine(run_of(out))).startswith("config.toml does not say which keys were hashed")


def test_a_finished_run_is_not_touched_by_who_opens_it(out):
    before = {file: file.read_bytes() for file in run_of(out).iterdir()}
    other = load_config(None, {"scheme": "tsa_ga", "seed": 0, "rounds": ROUNDS, "run.threads": 1})
    with open_run(other, out) as folder:
        assert folder.path == run_of(out)
    assert {file: file.read_bytes() for file in run_of(out).iterdir()} == before


def test_studies_have_manifests_too(tmp_path):
    work = KINDS["recovery"]({"size": 100, "ratio": 0.5, "rounds": 2}, "test")
    assert work.do(tmp_path)
    path = tmp_path / "runs" / work.label
    written = (path / "rounds.jsonl").read_bytes()
    replace_in(path / "config.toml", "seed = 0", "seed = 1")
    fakes.seal(path)
    assert "the folder's name does not end with it" in examine(path).rule
    assert work.do(tmp_path) and isinstance(examine(path), FinishedRun)
    assert (path / "rounds.jsonl").read_bytes() == written


# --- computing again ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run with aggregates, its configuration, and the folder."""
    place = tmp_path_factory.mktemp("trained")
    data = small.write_folder(place / "data")
    flat = {"dataset": str(data), "rounds": 6, "run.checkpoint_every": 2, "run.record_aggregates": True}
    config = load_config(None, small.SETTINGS | flat)
    return config, execute(config, place / "out").folder


@pytest.mark.parametrize("name", ["summary.json", "timings.jsonl", "aggregates/round-000002.npz", "lost"])
def test_a_damaged_run_is_computed_again_and_its_damage_never_sealed(trained, tmp_path, name):
    config, whole = trained
    run = shutil.copytree(whole, tmp_path / "runs" / whole.name)
    file = run / ("aggregates/round-000002.npz" if name == "lost" else name)
    file.write_bytes(file.read_bytes()[:-9] + b" " * 9)
    if name == "lost":
        file.unlink()
    assert isinstance(examine(run), Damage)
    assert execute(config, tmp_path).computed
    assert isinstance(examine(run), FinishedRun)
    for kept in ("rounds.jsonl", "summary.json", "aggregates/round-000002.npz"):
        assert (run / kept).read_bytes() == (whole / kept).read_bytes()
    assert len((run / "timings.jsonl").read_text().splitlines()) == 6
    assert not execute(config, tmp_path).computed


@pytest.mark.parametrize("first", ["summary.json", "config.toml", "manifest.json"])
def test_damage_does_not_hide_behind_other_damage(trained, tmp_path, first):
    config, whole = trained
    run = shutil.copytree(whole, tmp_path / "runs" / whole.name)
    (run / first).write_bytes(b"{}")
    shutil.copyfile(run / "aggregates" / "round-000001.npz", run / "aggregates" / "round-000002.npz")
    assert execute(config, tmp_path).computed
    for round in (1, 2):
        name = f"aggregates/round-{round:06d}.npz"
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_in_progress_with_a_damaged_aggregate_starts_again(trained, tmp_path):
    config, whole = trained
    run = execute(config, tmp_path, stop=small.stop_after(5)).folder
    file = run / "aggregates" / "round-000001.npz"
    content = file.read_bytes()
    file.write_bytes(content[:-60] + bytes(60))
    assert execute(config, tmp_path).summary is not None
    assert file.read_bytes() == content
    assert (run / "rounds.jsonl").read_bytes() == (whole / "rounds.jsonl").read_bytes()


# --- sentences ---------------------------------------------------------------------------------------------


ROWS = {
    "a key lost": (lambda row: row.pop("accuracy"), "line 2: it is no record like the others"),
    "no object": (lambda row: row.clear(), "line 2: it is no record like the others"),
    "text": (lambda row: row.update(nmse_db="low"), "line 2: nmse_db is no number"),
    "infinite": (lambda row: row.update(loss=float("inf")), "line 2: loss is no number"),
    "huge": (lambda row: row.update(symbols=10**400), "line 2: symbols is no number"),
    "nested": (lambda row: row.update(loss=[1]), "line 2: loss is no number"),
}


@pytest.mark.parametrize("kind", ROWS)
def test_records_that_are_none_are_a_sentence_though_every_hash_fits(out, kind):
    edit, rule = ROWS[kind]
    path = run_of(out) / "rounds.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    edit(rows[1])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fakes.seal(run_of(out))
    assert str(examine(run_of(out))) == f"rounds.jsonl is damaged in {rule}"
    (run_of(out) / "summary.json").unlink()
    with pytest.raises(store.RunError, match=f"rounds.jsonl is damaged in {rule}"):
        store.read_records(run_of(out))
