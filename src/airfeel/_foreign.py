"""What somebody else's code raised (a model, a loss, a data set), in words that fit into one sentence."""

import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

_OURS = __name__.partition(".")[0]
_INSTALLED = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(__file__).parent))


def is_ours(error: Exception) -> bool:
    """Whether airfeel itself raised an error: its message is a sentence already."""
    if type(error).__module__.partition(".")[0] == _OURS:
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(f"{_OURS}.")
    return inside and isinstance(error, ValueError | ImportError | OSError)


def told(error: Exception) -> str:
    """Return kind and first line of an error, and the line of the user's own file that it comes from.

    >>> try:
    ...     int("wide")
    ... except ValueError as error:
    ...     told(error)
    "ValueError: invalid literal for int() with base 10: 'wide'"
    """
    words = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_file(frame.filename)]
    return words + (f", {Path(own[-1].filename).name} line {own[-1].lineno}" if own else "")


def _is_file(name: str) -> bool:
    """Whether a frame's code is in a file, and neither in an installed package nor in ours."""
    return not name.startswith(("<", *_INSTALLED))
