"""A run goes on only with the data it began with, where its configuration names files."""

import hashlib
import re
import shutil

import numpy as np
import pytest

import small
from airfeel.config import load_config
from airfeel.config.identity import content_digest
from airfeel.lab.runner import execute
from airfeel.lab.store import RunError


def write_responses(place, arrays):
    """Responses of as many devices as a small run has; which ones, one pixel decides."""
    small.write_folder(place / "data")
    draws = np.random.default_rng(arrays[0][0, 0, 0]).standard_normal((2, 3, 5, 40))
    np.savez(place / "street.npz", responses=draws[0] + 1j * draws[1])
    return place / "street.npz"


def other(arrays):
    """One pixel of one image is another: file sizes and everything else stay."""
    images = arrays[0].copy()
    images[0, 0, 0] ^= 1
    return (images, *arrays[1:])


@pytest.mark.parametrize("write", [small.write_npz, small.write_npy, write_responses])
def test_a_run_goes_on_only_with_the_files_it_began_with(tmp_path, write):
    arrays, out = small.arrays(), tmp_path / "out"
    path = write(tmp_path, arrays)
    key, settings = "dataset", {"dataset": str(path), "rounds": 3}
    if write is write_responses:
        key, settings["dataset"] = "channel.source", str(tmp_path / "data")
        settings |= {"channel.kind": "response", key: str(path)}
    config = load_config(None, small.SETTINGS | settings)
    words = small.command(out=out, folder=settings.pop("dataset"), **settings)
    stopped = execute(config, out, stop=lambda: True)
    file = stopped.folder / "config.toml"
    assert stopped.round == 1 and f'content.{key} = "{content_digest(str(path))}"' in file.read_text()

    write(tmp_path, other(arrays))
    kept, sentence = file.read_bytes(), f"{key} = '{path}': its content has changed since"
    with pytest.raises(RunError, match=re.escape(sentence)):
        execute(config, out)
    told = small.call(words)
    assert told.returncode == 2 and sentence in told.stderr and "Traceback" not in told.stderr
    assert file.read_bytes() == kept

    write(tmp_path, arrays)  # the same bytes at another time
    resumed = small.call(words)
    assert resumed.returncode == 0 and "continuing after round 1" in resumed.stderr, resumed.stderr
    write(tmp_path, other(arrays))
    ended = execute(config, out)
    assert f"content of {key} = '{path}' has changed" in ended.notes[0] and len(ended.notes) == 1
    anew = execute(config, tmp_path / "anew")  # with what is there now
    assert anew.summary != ended.summary == execute(config, out).summary
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert execute(config, out).summary == ended.summary  # a finished run needs it no more


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
