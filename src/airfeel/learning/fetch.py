"""Fetch the named data sets once, verify them by content, keep them in the user's cache folder.

The sha256 of the decompressed file decides, whatever the source. A file appears under its final name only
when it is complete, so several processes may fetch at once: the lock only spares them the second download.
"""

import errno
import fcntl
import gzip
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from airfeel import _files
from airfeel.learning.readers import Arrays, idx_folder
from airfeel.learning.sources import deliver

_log = logging.getLogger("airfeel")
_ROOM = 64 * 2**20  # bytes of an archive beside the files that are wanted
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no other source would help
_BYTES: np.dtype[Any] = np.dtype(np.uint8)


class DataError(RuntimeError):
    """A data set cannot be had or cannot be stored; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a data set: its name, size and sha256 after decompression."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """A data set that can be fetched: its files, everywhere they can be had, and what is in them.

    Parameters
    ----------
    name
        As configurations call it; also that of its folder.
    files
        What must be there, known by content.
    sources
        Asked in this order. An address with a closing slash has every file as ``<address><file>.gz``, any
        other is that of an archive; ``pip:``, ``npm:`` and ``apt:`` stand before a package. The sha256 of
        archives and packages stands behind, as ``#sha256=...``.
    shape, classes, dtype, label_shape
        Of the samples and their labels, so that a model can be built before anything is fetched.
    pool
        The devices draw from the first so many training samples unless told otherwise; None: from all.
    read
        Called with the folder of the files, returns train inputs and labels, test inputs and labels.
    """

    name: str
    files: tuple[File, ...]
    sources: tuple[str, ...] = ()
    shape: tuple[int, ...] = (28, 28)
    classes: int = 10
    dtype: np.dtype[Any] = _BYTES
    label_shape: tuple[int, ...] = ()
    pool: int | None = None
    read: Callable[[Path], Arrays] = idx_folder

    def __call__(self) -> Arrays:
        """Return what the files hold, fetched if need be."""
        return self.read(ensure_files(self, self.folder))

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return cache_folder() / self.name

    def missing(self, folder: Path | None = None) -> dict[str, File]:
        """Return the files by name that are not in the folder with the right content."""
        folder = self.folder if folder is None else folder
        return {file.name: file for file in self.files if not _is_valid(folder / file.name, file)}


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
        missing, reasons = _fetch(dataset, folder)
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


def _fetch(dataset: DatasetFiles, folder: Path) -> tuple[dict[str, File], list[str]]:
    """Let one process fetch at a time; return what is still missing, and why."""
    folder.mkdir(parents=True, exist_ok=True)
    with _files.lock_file(folder / ".lock") as lock:
        with suppress(OSError):  # some network file systems know no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
            _files.remove_abandoned(folder)  # by a process that was killed
            for leftover in folder.glob(".incoming-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        missing = dataset.missing(folder)
        return missing, _try_sources(dataset, missing, folder) if missing else []


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


def _is_valid(path: Path, file: File) -> bool:
    try:
        return _files.digest(path, file.size) == file.sha256
    except OSError:
        return False
