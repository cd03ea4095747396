"""Many runs at once: skipped when complete, resumed when not, and the others go on when one fails."""

import json
import os
import re
import signal

import pytest

import small
from lab.sweeps import finished, sweep, write_sweep
from processes import airfeel, begin, until, workers_of


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished sweep, carried out by one worker."""
    folder = tmp_path_factory.mktemp("sweep")
    path = write_sweep(folder)
    ended = sweep(path, folder / "one", "--workers", "1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{folder / 'one' / 'results.csv'}\n"
    return path, folder / "one", (folder / "one/results.csv").read_bytes()


@pytest.mark.long
def test_the_number_of_workers_changes_no_byte(done, tmp_path):
    path, one, results = done
    sweep(path, tmp_path, "--workers", "3")
    assert (tmp_path / "results.csv").read_bytes() == results
    for folder in (one / "runs").iterdir():
        for name in ("config.toml", "rounds.jsonl", "summary.json"):
            assert (tmp_path / "runs" / folder.name / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.long
def test_a_finished_sweep_is_not_repeated(done):
    path, out, _ = done
    before = finished(out)
    ended = sweep(path, out)
    assert finished(out) == before
    assert "12 of 12 runs are finished already" in ended.stderr
    assert "0 runs computed, 12 were finished before" in ended.stderr
    the_terminal_shows_what_came_out(ended.stderr, out)


def the_terminal_shows_what_came_out(text, out):
    """One line per scheme and variant: accuracy, both errors, the downlink, rounds that did not settle."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    names = ["accuracy (%)", "NMSE (dB)", "cumulative NMSE (dB)", "downlink"]
    start = lines.index(["curve", "variant", *names, "diverged", "at the limit", "of rounds"])
    found = {(line[0], line[1]): line[2:] for line in lines[start + 1 : start + 7]}
    assert len(found) == 6 and found["common_k", "uplink.ratio = 0.3"][3:] == ["3", "-", "-", "-"]
    runs = [path.parent for path in out.glob("runs/a_dsgd-*/summary.json")]
    runs = [run for run in runs if "ratio = 0.3" in (run / "config.toml").read_text()]
    ended = [json.loads(line)["status"] for run in runs for line in (run / "rounds.jsonl").open()]
    counts = [ended.count("diverged"), ended.count("iteration limit"), 120 - ended.count("silent")]
    assert found["a_dsgd", "uplink.ratio = 0.3"][4:] == list(map(str, counts))


@pytest.mark.long
def test_a_single_run_in_the_same_folder_keeps_the_table(done):
    path, out, _ = done
    table = (out / "results.csv").read_text()
    small.call(small.command(path.parent / "data", out, rounds=2, name="extra"))
    now = (out / "results.csv").read_text()
    assert now.startswith(table)
    assert [line.split(",")[0] for line in now[len(table) :].splitlines()] == ["extra"] * 2


def test_a_failing_run_does_not_stop_the_others(tmp_path):
    path = write_sweep(tmp_path, **{"devices.samples": 100})
    text = path.read_text().replace("uplink.ratio = [0.3, 0.5]", "devices.samples = [100, 5000]")
    path.write_text(text.replace("rounds = 60", "rounds = 2").replace("devices.samples = 100\n", ""))
    ended = sweep(path, tmp_path / "out")
    assert ended.returncode == 1
    assert "6 of 12 runs failed" in ended.stderr
    assert "devices.samples = 5000: must be at most 600" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(finished(tmp_path / "out")) == 6
    assert (tmp_path / "out/results.csv").read_text().count("\n") == 1 + 6 * 2


@pytest.mark.long
def test_a_killed_worker_is_replaced(done, tmp_path):
    path, _, results = done
    process = begin(airfeel("sweep", path, "--out", tmp_path, "--workers", 2))
    until(lambda: len(list(tmp_path.glob("runs/*/rounds.jsonl"))) >= 2, process)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert "a worker process was ended from outside" in errors
    assert (tmp_path / "results.csv").read_bytes() == results


@pytest.mark.long
def test_progress_is_silent_when_asked(done, tmp_path):
    path, *_ = done
    ended = sweep(path, tmp_path, "--quiet")
    assert (ended.returncode, ended.stderr) == (0, "")
