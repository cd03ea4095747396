"""SIGKILL at random moments: the run goes on, and its records are those of a run nobody disturbed."""

import random
import subprocess
import time

import pytest

import small


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small.write_folder(tmp_path_factory.mktemp("data") / "small")


def lines(out):
    files = list(out.glob("runs/*/rounds.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


def start_and_kill(words, out, moment):
    """Start the run and kill it: at once or a little later (during start), or some time after new rounds."""
    before = lines(out)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    if moment.random() < 0.25:
        time.sleep(moment.uniform(0, 1.5))
    else:
        while lines(out) == before and process.poll() is None and time.monotonic() - began < 60:
            time.sleep(0.001)
        time.sleep(moment.uniform(0, 0.25))
    process.kill()
    return process.wait()


def survive(data, tmp_path, kills, rounds, settings):
    words = small.command(data, tmp_path / "killed", rounds=rounds, run__checkpoint_every=3, **settings)
    moment = random.Random(kills)
    for _ in range(kills):
        assert start_and_kill(words, tmp_path / "killed", moment) == -9, (
            "the run must be long enough to be killed"
        )
    assert lines(tmp_path / "killed") < rounds
    end = small.call(words)
    assert end.returncode == 0, end.stderr
    small.call(small.command(data, tmp_path / "whole", rounds=rounds, **settings))
    (killed,), (whole,) = ((tmp_path / name / "runs").iterdir() for name in ("killed", "whole"))
    for name in ("rounds.jsonl", "summary.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert (tmp_path / "killed/results.csv").read_bytes() == (tmp_path / "whole/results.csv").read_bytes()
    assert not list(killed.glob("*.tmp"))


SETTINGS = {"devices__local_steps": 20, "devices__dropout": 0.2, "receiver__learn_from": 5}


def test_four_kills_leave_no_trace(data, tmp_path):
    survive(data, tmp_path, kills=4, rounds=250, settings={"scheme": "tsa_ga"} | SETTINGS)


def test_kills_with_error_memories_in_files_leave_no_trace(data, tmp_path):
    mapped = {"scheme": "common_k", "run__memory_map_above": 0}
    survive(data, tmp_path, kills=3, rounds=150, settings=SETTINGS | mapped)
    assert not list(tmp_path.glob("*/runs/*/memory*"))


@pytest.mark.slow
@pytest.mark.parametrize("above", [0, 10**9])
@pytest.mark.parametrize("scheme", ["tsa_ga", "a_dsgd", "common_k"])
def test_twenty_five_kills_leave_no_trace(data, tmp_path, scheme, above):
    settings = {"scheme": scheme, "run__memory_map_above": above} | SETTINGS
    survive(data, tmp_path, kills=25, rounds=1500, settings=settings)
