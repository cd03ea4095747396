"""Ctrl-C while rounds are computed: the first one asks, the second one insists."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_AGAIN = "interrupted; the same command goes on from what is saved"


@contextmanager
def stop_asked(*, at_once: bool = False) -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C (or SIGTERM) a request that the given function tells of; a second one interrupts.

    With ``at_once`` the first one interrupts too until somebody has asked for the first time: what comes
    before, such as a download, can take long and has nothing to save.
    """
    asked: list[int] = []
    waiting = not at_once

    def hear(number: int, frame: object) -> None:
        if asked or not waiting:
            raise KeyboardInterrupt(_AGAIN)
        asked.append(number)

    def answer() -> bool:
        nonlocal waiting
        waiting = True
        return bool(asked)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield answer
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C wait for a moment; processes started meanwhile never hear of it.

    A process starts with the signals blocked that its parent blocks. One that is importing modules would
    otherwise answer Ctrl-C, which a terminal sends to everybody, with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
