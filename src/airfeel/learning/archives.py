"""Read packages and archives from elsewhere: bounded, with the standard library, nothing unpacked.

Members are only read, never written under their own names; the caller takes those whose name and content it
knows. Links, devices and names that lead out of the archive are passed over.
"""

import contextlib
import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from airfeel import _files

Member = tuple[str, IO[bytes]]


def zip_members(path: Path) -> Iterator[Member]:
    """Yield the files of a zip archive, such as a wheel."""
    with _explained(), _files.opened(path) as packed, zipfile.ZipFile(packed) as archive:
        for name in filter(_stays_inside, archive.namelist()):
            with archive.open(name) as stream:
                yield _own_name(name), stream


def tar_gz_members(path: Path, room: int) -> Iterator[Member]:
    """Yield the files of a .tar.gz archive that holds at most ``room`` bytes when unpacked."""
    with _files.opened(path) as packed, gzip.GzipFile(fileobj=packed) as plain:
        yield from tar_members(plain, room)


def tar_members(plain: IO[bytes] | gzip.GzipFile, room: int) -> Iterator[Member]:
    """Yield the files of a tar archive of at most ``room`` bytes."""
    with _explained(), _opened(plain, room) as archive:
        for member in archive:
            if not (member.isfile() and _stays_inside(member.name)):
                continue
            if (stream := archive.extractfile(member)) is not None:
                with contextlib.closing(stream):
                    yield _own_name(member.name), stream


def _opened(plain: IO[bytes] | gzip.GzipFile, room: int) -> tarfile.TarFile:
    limited: Any = _Limited(plain, room)
    return tarfile.open(fileobj=limited, mode="r:")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Make one kind of error of the many that false headers can lead the standard library to."""
    try:
        yield
    except (ValueError, LookupError, ArithmeticError, RuntimeError) as error:
        raise OSError(f"is no whole archive ({str(error) or type(error).__name__})") from error


class _Limited:
    """A stream that is refused where it is read, or skipped, beyond a limit: nothing grows without end.

    A header may promise any size, and the reader of archives would take the memory for a name of that size.
    """

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, room: int) -> None:
        self._stream, self._room = stream, room
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, of which a number must be given."""
        self._check(self.tell() + size if size >= 0 else self._room + 1)
        return self._stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        """Go to a place counted from the start."""
        self._check(position)
        return self._stream.seek(position, whence)

    def _check(self, position: int) -> None:
        if position > self._room:
            raise OSError(f"promises more than {self._room} bytes, which it cannot hold")


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _own_name(member: str) -> str:
    """Return a member's own name in the catalogue's spelling; some write ``train-images.idx3-ubyte``."""
    return member.rsplit("/", 1)[-1].replace(".idx", "-idx")
