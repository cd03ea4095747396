"""A run goes on only with the data it began with, where its configuration names files."""

import hashlib
import re

import numpy as np
import pytest

import small
from airfeel.config import load_config
from airfeel.config.identity import content_digest
from airfeel.lab.runner import execute
from airfeel.lab.store import RunError

NAMES = ("train_inputs", "train_labels", "test_inputs", "test_labels")


def write_npz(place, arrays):
    path = place / "mine.npz"
    np.savez(path, **dict(zip(NAMES, arrays, strict=True)))
    return path


def write_npy(place, arrays):
    folder = place / "mine"
    folder.mkdir(exist_ok=True)
    for name, array in zip(NAMES, arrays, strict=True):
        np.save(folder / f"{name}.npy", array)
    return folder


def other(arrays):
    """One pixel of one image is another: file sizes and everything else stay."""
    images = arrays[0].copy()
    images[0, 0, 0] ^= 1
    return (images, *arrays[1:])


@pytest.mark.parametrize("write", [write_npz, write_npy])
def test_a_run_goes_on_only_with_the_data_it_began_with(tmp_path, write):
    arrays, out = small.arrays(), tmp_path / "out"
    path = write(tmp_path, arrays)
    config = load_config(None, small.SETTINGS | {"dataset": str(path), "rounds": 3})
    stopped = execute(config, out, stop=lambda: True)
    file = stopped.folder / "config.toml"
    assert stopped.round == 1 and f'content.dataset = "{content_digest(str(path))}"' in file.read_text()

    write(tmp_path, other(arrays))
    kept, sentence = file.read_bytes(), f"dataset = '{path}': its content has changed since"
    with pytest.raises(RunError, match=re.escape(sentence)):
        execute(config, out)
    told = small.call(small.command(path, out, rounds=3))
    assert told.returncode == 2 and sentence in told.stderr and "Traceback" not in told.stderr
    assert file.read_bytes() == kept

    write(tmp_path, arrays)  # the same bytes at another time
    resumed = small.call(small.command(path, out, rounds=3))
    assert resumed.returncode == 0 and "continuing after round 1" in resumed.stderr, resumed.stderr
    write(tmp_path, other(arrays))
    (note,) = execute(config, out).notes
    assert f"content of dataset = '{path}' has changed" in note


def test_a_run_without_the_note_goes_on(tmp_path):
    """As folders of earlier versions are: nobody can tell, and from now on it is noted."""
    data, out = small.write_folder(tmp_path / "data"), tmp_path / "out"
    config = load_config(None, small.SETTINGS | {"dataset": str(data), "rounds": 3})
    stopped = execute(config, out, stop=lambda: True)
    file = stopped.folder / "config.toml"
    text = file.read_text()
    older = re.sub(r"content\.dataset = .*\n", "", text)
    assert older != text
    file.write_text(older)
    resumed = small.call(small.command(data, out, rounds=3))
    assert resumed.returncode == 0 and "continuing after round 1" in resumed.stderr, resumed.stderr
    assert file.read_text() == text


def test_the_digest_of_a_folder_is_that_of_its_data(tmp_path):
    folder = small.write_folder(tmp_path / "data")
    before = content_digest(str(folder))
    (folder / "notes.txt").write_text("mine")
    assert content_digest(str(folder)) == before != ""
    (folder / "train-labels-idx1-ubyte").rename(folder / "train-labels.idx1-ubyte")
    assert content_digest(str(folder)) != before
    path = folder / "notes.txt"
    assert content_digest(str(path)) == hashlib.sha256(b"mine").hexdigest()


@pytest.mark.parametrize("dataset", ["mnist", "small:arrays"])
def test_a_data_set_with_a_name_has_no_note(tmp_path, monkeypatch, dataset):
    """Also where a folder of that name is there, which is not read."""
    monkeypatch.chdir(tmp_path)
    small.write_folder(tmp_path / "mnist")
    assert "content" not in load_config(None, {"dataset": dataset}).to_toml()
    assert "content.dataset" in load_config(None, {"dataset": "./mnist"}).to_toml()


@pytest.mark.parametrize("path", ["\x00", "~nobody has this name/data", "no/such/file", "x" * 5000])
def test_what_is_no_path_has_no_content(path):
    assert content_digest(path) == ""
