"""The command ``airfeel`` from its first moment to its last; ``python -m airfeel`` is the same.

This module imports next to nothing, so that it is there before all the others: Ctrl-C while they are imported
ends the process without a traceback, and so does Ctrl-C when everything is done. Standard streams that are
closed, or whose reader has left, stand in nobody's way.
"""

import os
import signal
import sys
from typing import NoReturn

_INTERRUPTED = 130


def start() -> NoReturn:
    """Run ``airfeel`` with the arguments of the process, and end the process."""
    _fill_streams()
    sys.unraisablehook = _pass_over
    signal.signal(signal.SIGINT, _leave)
    from airfeel.cli import main  # a second's work

    code = _INTERRUPTED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
    except KeyboardInterrupt:  # one more, while the answer to the first was printed
        pass
    while True:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt: threads are joined
            break
        except KeyboardInterrupt:  # at this very moment
            continue
    _empty_streams()
    sys.exit(code)


def _leave(number: int, frame: object) -> NoReturn:
    """End at once: nothing was begun, and an exception amid imports makes some libraries print and go on."""
    try:
        os.write(2, b"airfeel: interrupted\n")
    finally:
        os._exit(_INTERRUPTED)


def _pass_over(lost: "sys.UnraisableHookArgs") -> None:
    """Say nothing of an interrupt that Python loses, as it came while something was cleared away."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)


def _fill_streams() -> None:
    """Open the null device for streams that are closed, or the next file opened would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _empty_streams() -> None:
    """Write what is left; what nobody takes is dropped, or Python would complain about it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    start()
