"""Download a file: bounded in size, and in time whatever the server does."""

import logging
import queue
import threading
import time
import urllib.request
from collections.abc import Callable

from airfeel._timing import Timer

_log = logging.getLogger("airfeel")
SLOWEST = 200_000  # bytes per second: what has come gives a download so much more time
_READ_SECONDS = 5.0
_LARGEST = 64 * 2**20


def download(url: str, seconds: float, most: int = _LARGEST) -> bytes:
    """Return what is at ``url``; see :func:`receive`."""
    content = bytearray()
    receive(url, content.extend, seconds, most)
    return bytes(content)


def receive(url: str, keep: Callable[[bytes], None], seconds: float, most: int) -> None:
    """Hand what is at ``url`` to ``keep``, piece by piece.

    Raise ``OSError`` when ``seconds``, and what the bytes that came give on top, are over, whatever the
    server does. A server that drips keeps every single read short: in the name's lookup, the headers or the
    body. So the download has a thread of its own, which is left behind then and ends with its next piece.
    """
    pieces: queue.Queue[bytes | Exception] = queue.Queue(maxsize=64)
    left_alone = threading.Event()
    expected: list[int] = []  # bytes, where the server says how many

    def fetch() -> None:
        try:
            with urllib.request.urlopen(url, timeout=_READ_SECONDS) as stream:
                expected.extend(filter(None, [getattr(stream, "length", None)]))
                while (piece := stream.read1(1 << 16)) and not left_alone.is_set():
                    pieces.put(piece)
            pieces.put(b"")
        except Exception as error:  # raised where it is waited for
            pieces.put(error)

    threading.Thread(target=fetch, daemon=True).start()
    deadline, size, timer = time.monotonic() + seconds, 0, None
    try:
        while piece := _next(pieces, deadline, seconds):
            size += len(piece)
            deadline += len(piece) / SLOWEST
            if size > most:
                raise OSError(f"is larger than {most} bytes")
            keep(piece)
            if expected:
                timer = timer or Timer(expected[0])
                timer.tell(size, _log.info, f"{size / 1e6:.1f} of {expected[0] / 1e6:.1f} MB")
    finally:
        left_alone.set()
        while not pieces.empty():  # the thread may be waiting for room
            pieces.get_nowait()


def _next(pieces: queue.Queue[bytes | Exception], deadline: float, seconds: float) -> bytes:
    left = deadline - time.monotonic()
    try:
        if left <= 0:
            raise queue.Empty
        piece = pieces.get(timeout=left)
    except queue.Empty:
        raise TimeoutError(f"timed out: not there after {seconds:.3g} s") from None
    if isinstance(piece, Exception):
        raise piece
    return piece
