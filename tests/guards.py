"""Limits for tests of endless input: a wrong implementation fails, and takes no machine with it."""

import contextlib
import resource
import signal


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
