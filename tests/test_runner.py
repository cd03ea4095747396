"""A run that is stopped, damaged and continued ends with the same bytes as one nobody touched."""

import pickle
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

import small
from airfeel.config import load_config
from airfeel.lab import runner
from airfeel.lab.runner import execute


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    data = small.write_folder(tmp_path_factory.mktemp("data") / "small")
    flat = {"dataset": str(data), "rounds": 12, "run.checkpoint_every": 2, "receiver.learn_from": 4}
    return load_config(None, small.SETTINGS | flat)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    return execute(config, tmp_path_factory.mktemp("whole"))


def test_a_run_stopped_again_and_again_comes_to_the_same_end(config, whole, tmp_path):
    for rounds in (1, 1, 3, 2):
        assert execute(config, tmp_path, stop=small.stop_after(rounds)).summary is None
    ended = execute(config, tmp_path)
    assert (ended.folder / "rounds.jsonl").read_bytes() == (whole.folder / "rounds.jsonl").read_bytes()
    assert not execute(config, tmp_path).computed


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from airfeel import _files as files
from airfeel.lab.runner import execute

whole = files.write_atomically

def write(path, *content):
    whole(path, *content)
    if path.name == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

files.write_atomically = write
execute(pickle.loads(sys.stdin.buffer.read()), Path(sys.argv[2]))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["manifest.json", "summary.json"])
def test_a_run_killed_in_its_last_moments_leaves_one_checkpoint(config, whole, tmp_path, name):
    words = [sys.executable, "-c", KILLED, name, str(tmp_path)]
    killed = subprocess.run(words, input=pickle.dumps(config), check=False)
    assert killed.returncode == -signal.SIGKILL
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "summary.json").exists() == (name == "summary.json")
    kept = [path.name for path in run.iterdir()]
    assert (run / "checkpoint.npz").exists() and "checkpoint.npz.previous" not in kept
    assert execute(config, tmp_path).summary is not None
    assert (run / "summary.json").read_bytes() == (whole.folder / "summary.json").read_bytes()
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in whole.folder.iterdir())


@dataclass(frozen=True)
class Taken:
    """The state of somebody's own part."""

    steps: int = 0


@dataclass(frozen=True)
class Counting:
    """An optimizer that is not airfeel's, with a state that is not airfeel's either."""

    def init(self, size):
        return Taken()

    def update(self, state, theta, mean, rate):
        return theta - (rate / (1 + state.steps)) * mean, Taken(state.steps + 1)


def test_a_run_with_a_part_of_one_s_own_goes_on_from_its_state(config, tmp_path, monkeypatch):
    real = runner.assemble
    monkeypatch.setattr(runner, "assemble", lambda *given: replace(real(*given), optimizer=Counting()))
    whole = execute(config, tmp_path / "whole")
    execute(config, tmp_path / "parts", stop=small.stop_after(7))
    heard = small.Heard()
    ended = execute(config, tmp_path / "parts", progress=heard)
    assert (heard.done, heard.notes[0]) == (7, "continuing after round 7")
    assert "600 training and 200 test samples of shape (8, 8), uint8; 4 classes" in heard.notes[1]
    assert heard.notes[2].startswith("devices share samples: ")
    assert re.fullmatch(
        r"the run takes about [\d.]+ MB of memory; the SNR of a device is [-\d.]+ dB .*", heard.notes[3]
    )
    assert (ended.folder / "rounds.jsonl").read_bytes() == (whole.folder / "rounds.jsonl").read_bytes()
    # Without that part, nobody vouches for the class that the checkpoint names.
    monkeypatch.undo()
    execute(config, tmp_path / "parts", force=True, stop=small.stop_after(1))
    (tmp_path / "parts/runs" / ended.folder.name / "checkpoint.npz").write_bytes(
        (whole.folder / "checkpoint.npz").read_bytes()
    )
    execute(config, tmp_path / "parts", progress=heard)
    assert heard.done == 0 and f"names the class {__name__}:Taken, which is not trusted" in heard.notes[0]
