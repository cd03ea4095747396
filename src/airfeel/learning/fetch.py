"""Fetch the named data sets once, verify them by content, keep them in the user's cache folder.

The sha256 of the decompressed file decides, whatever the source. A file appears under its final name only
when it is complete (temporary file, fsync, rename), so several processes may fetch at once: the lock only
spares them the second download.
"""

import contextlib
import fcntl
import gzip
import hashlib
import http.client
import logging
import lzma
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from airfeel import _checks, _files
from airfeel.learning.sources import CATALOGUE, DatasetFiles, File, sources_of
from airfeel.learning.storing import DataError as DataError
from airfeel.learning.storing import storing
from airfeel.registry import DATASETS

_log = logging.getLogger("airfeel")
_SOURCE_TROUBLE = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    http.client.HTTPException,
    subprocess.SubprocessError,
)


def cache_folder() -> Path:
    """Return where data sets live: AIRFEEL_DATA, else XDG_CACHE_HOME/airfeel, else ~/.cache/airfeel."""
    if chosen := os.environ.get("AIRFEEL_DATA"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "airfeel"


def is_present(name: str) -> bool:
    """Whether every file of the data set is in the cache with the right content."""
    return not _missing(described(name), cache_folder() / name)


def ensure(name: str) -> Path:
    """Return the folder with the verified files of data set ``name``, fetching what is not there."""
    return ensure_files(described(name), cache_folder() / name)


def described(name: str) -> DatasetFiles:
    """Return the files of a data set and where they can be had, by its name."""
    DATASETS.names()  # imports the catalogue
    return CATALOGUE[_checks.choice("dataset", name, list(CATALOGUE))]


def ensure_files(dataset: DatasetFiles, folder: Path) -> Path:
    """Bring every file of ``dataset`` into ``folder``; a complete folder is only read, never written."""
    if not _missing(dataset, folder):
        return folder
    with _locked(folder):
        reasons = _try_sources(dataset, folder)
        missing = _missing(dataset, folder)
    if missing:
        raise DataError(
            f"{dataset.name}: could not fetch {', '.join(f.name for f in missing)} ({'; '.join(reasons)}). "
            f"Without a network, put these files into {folder} or give your own data as the data set."
        )
    return folder


def _try_sources(dataset: DatasetFiles, folder: Path) -> list[str]:
    """Ask one source after the other until nothing is missing; return why the others failed."""
    reasons: list[str] = []
    size = sum(file.size for file in _missing(dataset, folder))
    _log.info("%s: fetching, %.0f MB, kept in %s", dataset.name, size / 1e6, folder)
    for label, deliver in sources_of(dataset):
        missing = {file.name: file for file in _missing(dataset, folder)}
        if not missing:
            break
        _log.debug("%s: asking %s", dataset.name, label)
        try:
            with _workplace(folder) as work, contextlib.closing(deliver(list(missing), work)) as deliveries:
                for name, stream in deliveries:
                    _accept(name, stream, missing, folder)
            if missing:
                reasons.append(f"{label}: has no {', '.join(missing)}")
        except _SOURCE_TROUBLE as error:
            reasons.append(f"{label}: {getattr(error, 'reason', '') or error or type(error).__name__}")
            _log.debug("%s: not from %s", dataset.name, reasons[-1])
    return reasons


def _accept(name: str, stream: IO[bytes], missing: dict[str, File], folder: Path) -> None:
    """Store what a source delivered if its content is the published one; it is missing no longer."""
    file = missing.get(name.removesuffix(".gz"))
    if file is None:
        return
    # One byte more than published is enough to see that the content is wrong, however large it would grow.
    plain = gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
    content = plain.read(file.size + 1)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise OSError(f"{file.name} has the wrong content: {len(content)} bytes with another sha256")
    _store(content, folder / file.name)
    del missing[file.name]


def _missing(dataset: DatasetFiles, folder: Path) -> list[File]:
    return [file for file in dataset.files if not _is_valid(folder / file.name, file)]


def _is_valid(path: Path, file: File) -> bool:
    try:
        with _files.opened(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            return size == file.size and hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def _store(content: bytes, path: Path) -> None:
    """Write ``content`` under its final name: all of it or nothing."""
    with storing(path.parent):
        _files.write_atomically(path, content)


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A place for archives beside the final files, so that a small /tmp does not matter."""
    with storing(folder):
        work = Path(tempfile.mkdtemp(dir=folder, prefix=".incoming-"))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process fetch at a time; its successor removes what a killed one left behind."""
    with contextlib.ExitStack() as stack:
        with storing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(_files.lock_file(folder / ".lock"))
        if _flock(lock.fileno()):
            for leftover in [*folder.glob(f"*.{'?' * 16}.tmp"), *folder.glob(".incoming-*")]:
                if leftover.is_dir() and not leftover.is_symlink():
                    shutil.rmtree(leftover)
                else:
                    leftover.unlink()
        yield


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # some network file systems know no locks
        return False
    return True
