"""Ctrl-C, termination and kills at awkward moments: no traceback, nothing half-written, and on it goes."""

import os
import re
import signal

import pytest

import small
from lab.sweeps import finished, write_sweep
from processes import (
    airfeel,
    begin,
    go_on,
    hold,
    press_control_c,
    read_until,
    require_quiet,
    until,
    until_gone,
    workers_of,
)

STOPPED = "airfeel: stopped; what was computed is kept, and the same command goes on from there"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A data folder, and a finished run that kept its aggregates."""
    place = tmp_path_factory.mktemp("results")
    small.write_folder(place / "data")
    words = small.command(
        place / "data", place / "out", rounds=12, devices__samples=20, run__record_aggregates="true"
    )
    small.succeed(words)
    return place


@pytest.fixture(scope="module")
def sweep_file(tmp_path_factory):
    return write_sweep(tmp_path_factory.mktemp("sweep"))


@pytest.mark.parametrize("module", ["numpy", "cyclopts"])
def test_while_modules_are_imported(tmp_path, module):
    words = airfeel("reproduce", "cost", "--rounds", 1, "--seeds", 1, "--out", tmp_path / "out")
    process = hold(tmp_path, words, "import", module)
    press_control_c(process)
    assert process.communicate(timeout=300) == ("", "airfeel: interrupted\n")
    assert process.returncode == 130
    assert not (tmp_path / "out").exists()


def words_of(command, results, out):
    """Return a command line that does something, and finds all it needs."""
    (run,) = (results / "out/runs").iterdir()
    return {
        "run": small.command(results / "data", out, rounds=3),
        "config": airfeel("config", "--set", f"dataset={results / 'data'}", "--set", "devices.samples=20"),
        "reproduce": airfeel("reproduce", "cost", "--rounds", 1, "--seeds", 1, "--out", out),
        "report": airfeel("report", results / "out"),
        "predict": airfeel("predict", run, "--samples", 1000, "--rounds", 2),
        "inspect": airfeel("inspect", run, "--out", out),
    }[command]


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "event", "what"),
    [
        ("run", "open", "train-images-idx3-ubyte"),
        ("run", "open", "rounds.jsonl"),
        ("config", "open", "train-labels-idx1-ubyte"),
        ("reproduce", "open", "cost.toml"),
        ("report", "import", "altair.vegalite"),
        ("report", "open", "rounds.jsonl"),
        ("predict", "open", "rounds.jsonl"),
        ("inspect", "open", "round-000002.npz"),
    ],
)
def test_while_something_is_read_or_begun(results, tmp_path, command, event, what):
    words = words_of(command, results, tmp_path / "out")
    process = hold(tmp_path, words, event, what)
    press_control_c(process)
    go_on(tmp_path)
    output, errors = process.communicate(timeout=300)
    require_quiet(errors)
    assert (process.returncode, output) == (130, ""), errors
    assert errors.splitlines()[-1].startswith("airfeel: interrupted")
    assert not list(tmp_path.rglob("*.tmp"))
    if command != "reproduce":
        small.succeed(words)


@pytest.mark.long
def test_while_a_data_set_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("AIRFEEL_MIRROR", (tmp_path / "nothing").as_uri())
    process = hold(tmp_path, airfeel("data", "mnist"), "urllib.Request", ".gz")
    press_control_c(process)
    output, errors = process.communicate(timeout=300)
    require_quiet(errors)
    assert (process.returncode, output) == (130, "")
    assert errors.endswith("airfeel: interrupted\n")
    assert {path.name for path in (tmp_path / "cache/mnist").iterdir()} <= {".lock"}


@pytest.mark.long
def test_while_workers_are_imported(sweep_file, tmp_path):
    """A terminal sends Ctrl-C to the workers too, whatever they are at."""
    words = airfeel("sweep", sweep_file, "--out", tmp_path / "out", "--workers", "2")
    process = hold(tmp_path, words, "import", "airfeel.workers", "worker", count=2)
    press_control_c(process)
    said = read_until(process, "stopping after the rounds under way")
    go_on(tmp_path)
    _, errors = process.communicate(timeout=300)
    require_quiet(said + errors)
    assert process.returncode == 130
    assert errors.endswith(f"{STOPPED}\n")
    assert not finished(tmp_path / "out")


@pytest.mark.long
def test_a_second_control_c_waits_for_nobody(sweep_file, tmp_path):
    words = airfeel("sweep", sweep_file, "--out", tmp_path / "out", "--workers", "2")
    process = hold(tmp_path, words, "open", "train-images-idx3-ubyte", "worker", count=2)
    workers = workers_of(process)
    press_control_c(process)
    said = read_until(process, "stopping after the rounds under way")
    press_control_c(process)
    _, errors = process.communicate(timeout=300)  # nobody lets the workers go on
    require_quiet(said + errors)
    assert process.returncode == 130
    assert errors.endswith("airfeel: interrupted; the same command goes on from what is saved\n")
    assert len(workers) == 2
    until_gone(workers)


@pytest.mark.long
def test_a_second_control_c_while_a_generator_is_closed(results, tmp_path):
    """Python cannot pass on an exception then, and would print it."""
    words = small.command(results / "data", tmp_path / "out", rounds=10**6, run__threads=2)
    process = hold(tmp_path, words, "call", "ThreadPoolExecutor.shutdown", count=0)
    said = read_until(process, "round ")
    press_control_c(process)
    said += read_until(process, "held")
    press_control_c(process)
    go_on(tmp_path)
    _, errors = process.communicate(timeout=600)
    require_quiet(said + errors)
    assert process.returncode == 130
    assert re.match("airfeel: (stopped|interrupted)", errors.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize("everybody", [False, True])
def test_a_campaign_that_is_asked_to_terminate(sweep_file, tmp_path, everybody):
    process = begin(airfeel("sweep", sweep_file, "--out", tmp_path / "out", "--workers", "2"))
    until(lambda: finished(tmp_path / "out"), process)
    workers = workers_of(process)
    (os.killpg if everybody else os.kill)(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    require_quiet(errors)
    assert process.returncode == 130
    assert errors.endswith(f"{STOPPED}\n")
    until_gone(workers)
