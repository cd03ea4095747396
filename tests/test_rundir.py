"""A run's folder: whole files, one owner, and recovery from every kind of damage."""

import hashlib
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fakes
from airfeel import _files
from airfeel.beliefs.chains import ChainParams
from airfeel.config import load_config
from airfeel.lab import rundir
from airfeel.lab.rundir import open_run
from airfeel.lab.store import RunError, finished, read_aggregate
from airfeel.simulation.records import Record
from fuzzing import spoil
from guards import limited, plant

CONFIG = load_config(None, {"rounds": 6})


def state_of(round):
    """A state with everything a checkpoint can hold."""
    chain = ChainParams(0.1, 0.01, 0.02, variance=1 / 3)
    return (round, None, "text", np.float32(0.1), [np.arange(round)], (chain, np.eye(2, dtype=np.float32)))


def line_of(round):
    """A record as it is written, with nothing in it but its round."""
    return Record(**(fakes.EMPTY | {"round": round})).to_json()


def write_rounds(folder, first, last, every=2):
    for round in range(first, last + 1):
        folder.append(line_of(round), round, 0.1)
        if round % every == 0:
            folder.save(round, state_of(round))


def lines_of(folder):
    return [json.loads(line)["round"] for line in folder.rounds.read_text().splitlines()]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damaged_byte_is_noticed(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "checkpoint.npz"
    rundir.save_checkpoint(path, state_of(3), {})
    path.write_bytes(spoil(path.read_bytes(), data))
    with pytest.raises(rundir.Damaged):
        rundir.load_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"not an archive"])
def test_what_is_no_checkpoint_is_one_sentence_with_the_file(tmp_path, content):
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(rundir.Damaged, match=f"^{path}: is no state of airfeel"):
        rundir.load_checkpoint(path)


def test_rounds_after_the_checkpoint_are_cut_and_the_rest_is_kept(tmp_path):
    with open_run(CONFIG, tmp_path) as folder:
        assert folder.restore() is None
        write_rounds(folder, 1, 5)
    with folder.rounds.open("ab") as file:
        file.write(b'{"round": 6, "acc')  # killed in the middle of a line
    with open_run(CONFIG, tmp_path) as folder:
        assert folder.restore()[0] == 4
        assert lines_of(folder) == [1, 2, 3, 4]
        assert len(folder.timings.read_text().splitlines()) == 4
        assert folder.notes == ["continuing after round 4"]


DAMAGE = {
    "flip": lambda content: content[:50] + b"x" + content[51:],
    "cut": lambda content: content[:-9],
    "empty": lambda content: b"",
}
GONE = ("gone", "no such file", "checkpoint.npz")  # the last two are links to nothing, and to itself


@pytest.mark.parametrize("damage", [*DAMAGE, *GONE, "hole", "/dev/zero", "/", "pipe", "socket"])
def test_a_damaged_checkpoint_falls_back_to_the_previous_one(tmp_path, damage):
    with open_run(CONFIG, tmp_path) as folder:
        folder.restore()
        write_rounds(folder, 1, 5)
        content = folder.checkpoint.read_bytes()
        folder.checkpoint.unlink()
        if damage in DAMAGE:
            folder.checkpoint.write_bytes(DAMAGE[damage](content))
        elif damage != "gone":
            plant(folder.checkpoint, damage)
    with limited(), open_run(CONFIG, tmp_path) as folder:
        assert folder.restore()[0] == 2
        assert lines_of(folder) == [1, 2]
        told = folder.notes[0].startswith(f"{folder.checkpoint} is damaged: it")
        assert told != (damage in GONE)
        write_rounds(folder, 3, 4)
    with open_run(CONFIG, tmp_path) as folder:
        assert folder.restore()[0] == 4


@pytest.mark.parametrize("name", ["checkpoint.npz.previous", "checkpoint.npz.new", "summary.json"])
@pytest.mark.parametrize("odd", ["pipe", "/"])
def test_what_stands_in_the_place_of_a_file_does_not_block_a_run(tmp_path, name, odd):
    with open_run(CONFIG, tmp_path) as folder:
        folder.restore()
        write_rounds(folder, 1, 3)
    plant(folder.path / name, odd)
    with open_run(CONFIG, tmp_path) as folder:
        folder.reopen(forget=False)
        assert folder.restore()[0] == 2
        write_rounds(folder, 3, 6)
        folder.finish({})
    assert finished(folder.path) is not None
    assert not {"checkpoint.npz.previous", "checkpoint.npz.new"} & {
        path.name for path in folder.path.iterdir()
    }


def test_a_checkpoint_that_may_not_be_read_is_kept(shared_folder, ordinary_user):
    """Somebody can give the permission back; what is no checkpoint stays none."""
    with open_run(CONFIG, shared_folder) as folder:
        folder.restore()
        write_rounds(folder, 1, 5)
        folder.checkpoint.chmod(0)
        sentence = r"checkpoint.npz: cannot be read \(Permission denied\)"
        with ordinary_user(), pytest.raises(RunError, match=sentence):
            folder.restore()
        folder.checkpoint.chmod(0o600)
        assert folder.restore()[0] == 4


def test_a_checkpoint_of_another_version_is_not_used(tmp_path, monkeypatch):
    with open_run(CONFIG, tmp_path) as folder:
        folder.restore()
        write_rounds(folder, 1, 4)
        monkeypatch.setattr("airfeel.__version__", "0.0.1")
        assert folder.restore() is None
        assert "was written by airfeel" in folder.notes[0]


def test_a_second_process_is_refused_and_the_lock_dies_with_its_owner(tmp_path):
    program = (
        "import sys, time; from pathlib import Path\n"
        "from airfeel.config import load_config; from airfeel.lab.rundir import open_run\n"
        "with open_run(load_config(None, {'rounds': 6}), Path(sys.argv[1])):\n"
        "    print('open', flush=True); time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline() == b"open\n"
        with pytest.raises(RunError, match="in use by another process"), open_run(CONFIG, tmp_path):
            pass
    finally:
        owner.kill()
        owner.wait()
    with open_run(CONFIG, tmp_path) as folder:
        assert folder.path.name == CONFIG.label()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Not a directory"), open_run(CONFIG, tmp_path / "file"):
        pass


HUGE = b"\x93NUMPY\x01\x00\x76\x00" + (
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }".ljust(117) + b"\n"
)  # 745 GiB


def archive_of(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"size": np.array(10**11)}, "promises 100000000000 coefficients, more than 268435456"),
        ({"size": np.array(-1)}, "promises -1 coefficients"),
        ({"size": np.array([4, 4])}, "is not the aggregate of a round"),
        ({"places": np.array([4], np.uint32)}, "is not the aggregate of a round"),
        ({"values": np.array([1.0, 2.0, 3.0])}, "is not the aggregate of a round"),
        ({"values": HUGE}, "is no whole archive of arrays"),
        ({"values": None}, "is not the aggregate of a round"),
    ],
)
def test_a_forged_aggregate_takes_no_memory(tmp_path, members, rule):
    usual = {"size": np.array(4), "places": np.array([1], np.uint32), "values": np.array([2.0], np.float32)}
    raw = {}
    for name, value in {**usual, **members}.items():
        if value is not None:
            buffer = io.BytesIO()
            np.save(buffer, value)
            raw[name] = value if isinstance(value, bytes) else buffer.getvalue()
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "round-000001.npz").write_bytes(archive_of(**raw))
    with limited(), pytest.raises(_files.Unreadable, match=f"round-000001.npz: {rule}"):
        read_aggregate(tmp_path, 1)
