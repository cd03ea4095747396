"""Endless input, and limits for its tests: a wrong implementation fails, and takes no machine with it."""

import contextlib
import os
import resource
import signal
import socket


def plant(path, kind):
    """Put something in the place of a file: a pipe, a folder, a socket, a hole, or a link to ``kind``."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "hole":
        path.touch()
        os.truncate(path, 2**42)
    elif kind == "socket":
        with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)  # there is little room for a whole path
    else:
        path.symlink_to(kind)


@contextlib.contextmanager
def limited(memory=2**30, seconds=600):
    """Allow this process so much more memory, and the block so much time."""

    def give_up(number, frame):
        raise AssertionError(f"not at its end after {seconds} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, give_up)
    resource.setrlimit(resource.RLIMIT_AS, (_used() + memory, before[1]))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _used():
    """Return how much address space this process has taken."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
