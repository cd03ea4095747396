"""Error memories in files: the same bytes, a kill loses nothing, damage is one sentence, nothing is left."""

import errno
import os
import shutil

import numpy as np
import pytest

import small
from airfeel import storage
from airfeel.config import load_config
from airfeel.lab import rundir
from airfeel.lab.runner import execute
from airfeel.lab.store import RunError
from airfeel.simulation.loop import train

ROUNDS = 9
SETTINGS = {"rounds": ROUNDS, "run.checkpoint_every": 3, "devices.dropout": 0.3, "receiver.learn_from": 4}
RESULTS = ("rounds.jsonl", "summary.json")


def settings(data, above=0, **changes):
    given = {"dataset": str(data), "run.memory_map_above": above} | changes
    return load_config(None, small.SETTINGS | SETTINGS | given)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """The results of a run in memory that nobody disturbed."""
    folder = execute(settings(data, above=10**9), tmp_path_factory.mktemp("whole")).folder
    return {name: (folder / name).read_bytes() for name in RESULTS}


def memories(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("memory"))


def results(folder):
    return {name: (folder / name).read_bytes() for name in RESULTS}


def stopped(config, out, after):
    """Leave a run after some round, with a checkpoint of it."""
    return execute(config, out, stop=small.stop_after(after)).folder


def resume(config, out):
    heard = small.Heard()
    return execute(config, out, progress=heard).folder, heard


def test_files_change_no_byte_and_none_is_left(data, tmp_path, whole):
    there = set()
    listener = small.Heard(then=lambda: there.update(memories(next((tmp_path / "runs").iterdir()))))
    folder = execute(settings(data), tmp_path, progress=listener).folder
    assert results(folder) == whole
    assert {"memory-000003.bin", "memory-000006.bin"} <= there
    assert memories(folder) == [] and b"memory" not in (folder / "manifest.json").read_bytes()
    assert folder.name == settings(data, above=10**9).label()
    assert any("on disk for the devices' memories" in note for note in listener.notes)


@pytest.mark.long
def test_from_any_moment_on_a_run_ends_in_the_same_bytes(data, tmp_path, whole, monkeypatch):
    """The folder as a kill would leave it: in mid-round, and before, during and after every checkpoint."""
    run, moments = tmp_path / "run", []

    def photograph():
        moments.append(tmp_path / f"moment-{len(moments)}")
        shutil.copytree(run, moments[-1], symlinks=True)

    real_save, real_replace, real_create = rundir.save_checkpoint, os.replace, storage.create_map

    def save(*given):
        photograph()
        real_save(*given)
        photograph()

    def replaced(*given):
        real_replace(*given)
        photograph()

    def create(*given):
        arrays = real_create(*given)
        arrays["error"][:] = np.nan  # half a round is in the file
        photograph()
        return arrays

    monkeypatch.setattr(rundir, "save_checkpoint", save)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(storage, "create_map", create)
    folder = stopped(settings(data), run, after=8)
    monkeypatch.undo()
    assert memories(folder) == ["memory-000006.bin", "memory-000008.bin"]
    assert len(moments) > 20
    continued = []
    for moment in moments:
        if not (moment / "runs").exists():
            continue
        folder, listener = resume(settings(data), moment)
        assert results(folder) == whole and memories(folder) == []
        continued.append(listener.done)
    assert set(continued) == {0, 3, 6, 8}


DAMAGE = {
    "flipped": (
        lambda path: path.write_bytes(b"\xff" + path.read_bytes()[1:]),
        "is damaged: its checksum does",
    ),
    "cut": (lambda path: os.truncate(path, 100), "is damaged: it has 100 bytes and should have 5200"),
    "missing": (lambda path: path.unlink(), "is missing"),
    "device": (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "is not a regular file"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_a_sentence_and_the_previous_checkpoint_helps(data, tmp_path, whole, damage):
    harm, sentence = DAMAGE[damage]
    folder = stopped(settings(data), tmp_path, after=7)
    harm(folder / "memory-000007.bin")
    again, listener = resume(settings(data), tmp_path)
    assert listener.done == 6 and results(again) == whole
    (note,) = (note for note in listener.notes if "memory-000007.bin" in note)
    assert sentence in note and note.endswith(": checkpoint.npz not used")


@pytest.mark.parametrize(("before", "after"), [(0, 10**9), (10**9, 0)])
def test_the_threshold_may_change_on_the_way(data, tmp_path, whole, before, after):
    stopped(settings(data, above=before), tmp_path, after=5)
    folder, listener = resume(settings(data, above=after), tmp_path)
    assert listener.done == 5 and results(folder) == whole and memories(folder) == []


def test_a_full_disk_is_a_sentence_and_the_run_goes_on_later(data, tmp_path, whole, monkeypatch):
    real, calls = os.posix_fallocate, []

    def full(*given):
        calls.append(given)
        if len(calls) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*given)

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        RunError, match=r"^cannot write to .*memory.*: has no room for 5.2e-06 GB \(No space left"
    ):
        execute(settings(data), tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert memories(folder) == ["memory-000003.bin"]
    again, listener = resume(settings(data), tmp_path)
    assert listener.done == 3 and results(again) == whole


def test_without_a_folder_the_file_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    flat = small.SETTINGS | {"rounds": 4}
    plain = [record.to_json() for record in train(load_config(None, flat), dataset=small.arrays())]
    config = load_config(None, flat | {"run.memory_map_above": 5199})
    found, made, real = [], [], storage.create_map
    monkeypatch.setattr(
        storage, "create_map", lambda path, *given, **more: (made.append(path), real(path, *given, **more))[1]
    )
    for record in train(config, dataset=small.arrays()):
        found.append(record.to_json())
        assert list(tmp_path.iterdir()) == []
    assert found == plain and len(made) == 4 and {path.parent for path in made} == {tmp_path}
    list(train(load_config(None, flat | {"run.memory_map_above": 5200}), dataset=small.arrays()))
    assert len(made) == 4  # 5 devices with 260 coefficients of 4 bytes: not above
