"""Real HTTP servers on loopback, honest and otherwise, and processes that fetch from them."""

import contextlib
import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

from airfeel.registry import DATASETS


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()


class Dripping(http.server.BaseHTTPRequestHandler):
    """Sends a byte now and then, each in time for whoever waits for the next one, without an end."""

    begin, piece, released = b"", b"x", threading.Event()

    def handle(self):
        self.raw_requestline = self.rfile.readline(65537)
        with contextlib.suppress(OSError):
            self.wfile.write(self.begin)
            while not self.released.wait(0.02):
                self.wfile.write(self.piece)


_HEAD = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "status line": b"",
    "a header": _HEAD + b"X-Long: ",
    "body of known length": _HEAD + b"Content-Length: 50000\r\n\r\n",
    "body of unknown length": _HEAD + b"\r\n",
    "length of a chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;",
    "chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n",
}


@contextlib.contextmanager
def serving(folder):
    """Serve a folder; ``asked`` of the server notes every request, ``address`` is its own."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.asked, server.address = [], f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def drips(server, begin):
    """Let a server drip after it began its answer like that."""
    released = threading.Event()
    server.RequestHandlerClass = type("", (Dripping,), {"begin": begin, "released": released})
    try:
        yield
    finally:
        released.set()


def names_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def register(monkeypatch, files):
    """Make a data set known by its name for the time of a test."""
    DATASETS.names()
    for table in ("_parts", "_places"):
        monkeypatch.setattr(DATASETS, table, dict(getattr(DATASETS, table)))
    DATASETS.register(files.name, "for tests")(files)


def start_fetch(cache, described, prefix=(), **options):
    """A separate Python that fetches ``described`` (``module.NAME`` in the tests) by the command line."""
    module = described.partition(".")[0]
    code = (
        f"import sys; sys.path.insert(0, 'tests'); import {module}; from airfeel.registry import DATASETS;"
        f"DATASETS.names(); files = {described}; DATASETS.register(files.name, 'for tests')(files);"
        "from airfeel.cli import main; sys.exit(main(['data', files.name]))"
    )
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", code],
        env={**os.environ, "AIRFEEL_DATA": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        **options,
    )
