"""Trouble with the user's own disk, or with getting a data set at all, in one sentence."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from airfeel import _files


class DataError(RuntimeError):
    """A data set cannot be had or cannot be stored; the message says why and what to do."""


@contextlib.contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Turn trouble with the user's own disk into one sentence; no other source would help."""
    try:
        yield
    except OSError as error:
        trouble = error if isinstance(error, _files.Unreadable) else error.strerror or error
        raise DataError(
            f"cannot store data in {folder}: {trouble}. "
            f"Set AIRFEEL_DATA to a folder with enough room that you may write to."
        ) from error
