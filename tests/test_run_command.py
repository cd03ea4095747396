"""``airfeel run`` and ``airfeel config`` as a user meets them: real processes, real signals, real trouble."""

import json
import os
import pty
import resource
import shlex
import signal
import subprocess
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

import small
from airfeel.cli import main
from airfeel.config import load_config
from processes import airfeel, go_on, hold


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """One finished run: its output folder, and the process that made it."""
    out = tmp_path_factory.mktemp("finished")
    return out, small.run(small.command(data, out, rounds=20, scheme="tsa_ga"))


def records(folder):
    path = folder / "rounds.jsonl"
    return path.read_bytes() if path.exists() else b""


def test_a_run_leaves_a_complete_folder_and_prints_it(finished):
    out, process = finished
    assert process.returncode == 0, process.stderr
    (folder,) = (out / "runs").iterdir()
    assert process.stdout == f"{folder}\n"
    written = ["checkpoint.npz", "config.toml", "manifest.json", "rounds.jsonl", "summary.json"]
    assert sorted(path.name for path in folder.iterdir()) == [".lock", *written, "timings.jsonl"]
    assert records(folder).count(b"\n") == 20
    assert "seconds" not in records(folder).decode()
    assert len((folder / "timings.jsonl").read_text().splitlines()) == 20
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy"] == json.loads(records(folder).splitlines()[-1])["accuracy"]
    # A few plain lines, not one for each round: others come only where the machine is busy.
    progress = [line for line in process.stderr.splitlines() if line.startswith("round ")]
    ended = [int(line[6:].partition("/")[0]) for line in progress if "rounds/s" in line]
    assert [round for round in ended if round % 2 == 0] == list(range(2, 21, 2))
    assert len(process.stderr.splitlines()) - len(progress) <= 6
    assert "round 20/20  accuracy 0." in process.stderr
    assert "rounds/s" in process.stderr


def test_rounds_that_did_not_settle_are_counted(data, tmp_path):
    """With one iteration allowed every round ends at the limit; summing coordinates has no iterations."""
    ended = small.call(small.command(data, tmp_path, rounds=4, scheme="tsa_ga", receiver__max_iterations=1))
    (folder,) = (tmp_path / "runs").iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    statuses = [json.loads(line)["status"] for line in records(folder).splitlines()]
    assert statuses == ["iteration limit"] * 4
    assert (summary["rounds_diverged"], summary["rounds_at_limit"]) == (0, 4)
    assert "s, 4 of the rounds ended at the iteration limit; in " in ended.stderr
    assert "diverged" not in ended.stderr
    plain = small.call(small.command(data, tmp_path, rounds=4, scheme="common_k"))
    assert "limit" not in plain.stderr


def test_a_run_ends_with_one_line_that_says_it_all(data, tmp_path):
    def last(**settings):
        ended = small.call(small.command(data, tmp_path, rounds=4, **settings))
        return ended.stderr.splitlines()[-1], Path(ended.stdout.strip())

    def accuracy(folder):
        return json.loads((folder / "summary.json").read_text())["accuracy"]

    line, folder = last(scheme="common_k")
    symbols = json.loads((folder / "summary.json").read_text())["symbols"]
    begin = f"common_k: 4 rounds, accuracy {accuracy(folder):.4f}, {symbols:,} symbols, "
    page = f"s; in {folder}; for a page with figures: airfeel report {shlex.quote(str(tmp_path))}"
    assert line.startswith(begin) and line.endswith(page), line
    line, _ = last(scheme="dense", seed=1)  # which is another training
    assert "error-free" not in line and "symbols" not in line
    assert "error-free" not in last(scheme="common_k")[0]
    line, ideal = last(scheme="dense")
    lost = 100 * (accuracy(ideal) - accuracy(folder))
    side = "above" if lost < 0 else "below"
    line, _ = last(scheme="common_k")
    assert f", {abs(lost):.2f} points {side} error-free training, {symbols:,} symbols, " in line
    assert "finished before, not repeated" in line


def test_a_finished_run_is_not_repeated_unless_forced(finished, data):
    out, first = finished
    folder = next((out / "runs").iterdir())
    before = (folder / "timings.jsonl").read_bytes()
    again = small.call(small.command(data, out, rounds=20, scheme="tsa_ga"))
    assert again.returncode == 0
    assert again.stdout == first.stdout
    assert "not repeated" in again.stderr
    assert (folder / "timings.jsonl").read_bytes() == before
    content = records(folder)
    forced = small.call([*small.command(data, out, rounds=20, scheme="tsa_ga"), "--force", "--quiet"])
    assert forced.returncode == 0
    assert (folder / "timings.jsonl").read_bytes() != before
    assert records(folder) == content
    assert forced.stderr == ""


def test_the_saved_configuration_reproduces_the_run(finished, tmp_path):
    out, _ = finished
    folder = next((out / "runs").iterdir())
    small.succeed(airfeel("run", folder / "config.toml", "--out", tmp_path))
    assert records(tmp_path / "runs" / folder.name) == records(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint_and_says_how_to_go_on(data, tmp_path, number):
    """It comes after the fifth round, however busy the machine is."""
    many = {"rounds": 12, "scheme": "common_k", "run__checkpoint_every": 5}
    process = hold(tmp_path, small.command(data, tmp_path / "stopped", **many), "call", "RunFolder.save")
    process.send_signal(number)
    go_on(tmp_path)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130 and "Traceback" not in errors
    sentence = errors.splitlines()[-1]
    assert sentence.startswith("airfeel: stopped after round 6 of 12; to continue: airfeel run --set ")
    resumed = small.call(small.command(data, tmp_path / "stopped", **many))
    assert resumed.returncode == 0 and "continuing after round 6\n" in resumed.stderr
    small.call(small.command(data, tmp_path / "whole", **many))
    (left,), (right,) = ((tmp_path / name / "runs").iterdir() for name in ("stopped", "whole"))
    assert records(left) == records(right)


@pytest.mark.long
def test_a_disk_that_fills_up_keeps_the_last_good_checkpoint(data, tmp_path):
    words = small.command(data, tmp_path, rounds=300, scheme="common_k", run__checkpoint_every=5)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write itself shall fail, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    process = small.run(words, preexec_fn=limit)
    assert process.returncode == 2
    assert "cannot write to" in process.stderr.splitlines()[-1]
    assert "what was saved before is kept" in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr
    again = small.call(words)
    assert again.returncode == 0
    assert "continuing after round" in again.stderr


def test_a_read_only_folder_is_one_sentence(shared_folder, ordinary_user, capsys):
    data, out = small.write_folder(shared_folder / "data"), shared_folder / "out"
    out.mkdir()
    out.chmod(0o555)
    words = ["run", "--set", f"dataset={data}", "--set", "devices.samples=100", "--set", "rounds=1"]
    # A run that succeeds imports all there is to import: the other user may not be able to read this Python.
    assert main([*words, "--out", str(shared_folder / "other")]) == 0
    with ordinary_user():
        assert main([*words, "--out", str(out)]) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert sentence.startswith(f"airfeel: cannot write to {out / 'runs'}: Permission denied; ")
    assert list(out.iterdir()) == []


def test_a_terminal_sees_a_live_line(data, tmp_path):
    master, terminal = pty.openpty()
    words = small.command(data, tmp_path, rounds=200, scheme="common_k")
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # the other side is closed
        while part := os.read(master, 65536):
            shown += part
    os.close(master)
    assert process.wait(timeout=600) == 0
    assert all(word in shown.decode() for word in ("200/200", "accuracy 0.", "NMSE", "rounds/s"))


def test_config_prints_toml_on_stdout_and_the_classes_on_stderr(data, tmp_path):
    settings = [f"dataset={data}", "devices.count=3", "devices.samples=20"]
    settings += ["partition.kind=classes", "partition.classes=2"]
    words = ["airfeel", "config", *(word for setting in settings for word in ("--set", setting))]
    process = small.succeed(words)
    assert tomllib.loads(process.stdout)["partition"] == {"kind": "classes", "classes": 2}
    path = tmp_path / "printed.toml"
    path.write_text(process.stdout)
    assert load_config(path).template() == process.stdout
    table = process.stderr.splitlines()
    assert "600 training and 200 test samples of shape (8, 8), uint8; 4 classes" in process.stderr
    assert table[-5].split()[:2] == ["device", "K_m"]
    assert [line.count(".") for line in table[-4:-1]] == [small.CLASSES - 2] * 3
    assert table[-1].startswith("devices share ")
    quiet = small.call([*words, "--quiet"])
    assert (quiet.stdout, quiet.stderr) == (process.stdout, "")


def test_config_fetches_nothing(tmp_path, monkeypatch, capsys):
    """A configuration is printed without the data; how to get it is said beside."""
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("AIRFEEL_MIRROR", (tmp_path / "nothing").as_uri())
    assert main(["config"]) == 0
    shown = capsys.readouterr()
    assert tomllib.loads(shown.out)["dataset"] == "mnist"
    assert "airfeel data mnist" in shown.err and "fetching" not in shown.err
    assert not (tmp_path / "cache").exists()
    assert main(["config", "--set", "dataset=absent"]) == 2
    assert "dataset = 'absent': must be one of 'mnist'" in capsys.readouterr().err.splitlines()[-1]
