"""What a shell does to a command: Ctrl-C, termination and kills at awkward moments, closed and full streams.

No traceback, nothing half-written, and on it goes; whoever listens, the exit code says what happened.
"""

import os
import re
import shlex
import signal

import pytest

import small
from lab.sweeps import finished, write_sweep
from processes import (
    WAITS,
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
    said += read_until(process, WAITS)
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


# --- streams that are closed, full, or read by somebody who leaves -----------------------------------------


def left():
    """Return a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def end(words, stdout, **options):
    """Run a command with the given standard output and return its exit code and what it said."""
    process = begin(words, stdout=stdout, **options)
    os.close(stdout)
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors or ""


def closed(words, streams):
    """Return a command line with standard streams closed by a shell."""
    return ["sh", "-c", f'exec "$@" {streams}', "sh", *words]


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [["list"], ["--help"], ["config"], ["data"], ["predict", "--samples", "1000"]]
)
def test_a_reader_that_leaves_early(words):
    code, errors = end(airfeel(*words, "--quiet"), left())
    assert (code, errors) == (0, "")


def test_head_sees_its_line():
    command = shlex.join(airfeel("list"))
    ended = small.run(["bash", "-c", f"set -o pipefail; {command} | head -1"])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "schemes (scheme = ...)\n"


@pytest.mark.long
@pytest.mark.parametrize("command", ["inspect", pytest.param("predict", marks=pytest.mark.slow)])
def test_figures_are_drawn_though_nobody_reads_the_table(results, tmp_path, command):
    (run,) = (results / "out/runs").iterdir()
    options = {"inspect": ["--json", "--out", tmp_path], "predict": ["--json", "--figure", tmp_path / "map"]}
    few = ["--samples", 1000, "--rounds", 2] if command == "predict" else []
    code, errors = end(airfeel(command, run, *options[command], *few), left())
    require_quiet(errors)
    assert code == 0
    assert list(tmp_path.glob("*.png")) and list(tmp_path.glob("*.svg"))


@pytest.mark.long
@pytest.mark.parametrize("streams", [">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_place_for_files(results, tmp_path, streams):
    """The first file opened would become standard output, and everything printed would go there."""
    words = small.command(results / "data", tmp_path, rounds=2)
    process = begin(closed(words, streams))
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (0, ""), errors
    require_quiet(errors)
    small.call(small.command(results / "data", tmp_path / "open", rounds=2))
    (run,), (other,) = ((place / "runs").iterdir() for place in (tmp_path, tmp_path / "open"))
    for name in ("config.toml", "rounds.jsonl", "summary.json", ".lock"):
        assert (run / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("streams", ["> /dev/full", ">&- 2> /dev/full", "> /dev/full 2>&-"])
def test_a_mistake_has_its_exit_code_whoever_listens(streams):
    process = begin(closed(airfeel("data", "minst"), streams))
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (2, "")
    require_quiet(errors)


def test_output_that_cannot_be_written_is_one_sentence():
    process = begin(closed(airfeel("list"), "> /dev/full"))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert errors == "airfeel: [Errno 28] No space left on device\n"
