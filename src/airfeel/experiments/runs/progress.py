"""How a run shows itself: a live line on a terminal, a few plain lines elsewhere, or nothing."""

import logging
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from airfeel.simulation import Record

_log = logging.getLogger("airfeel")
_LINES = 10  # how many plain lines a short run prints
_FIRST, _EVERY = 3.0, 30.0  # seconds after which a long one says something for the first time, and then again


class Progress(Protocol):
    """Somebody who wants to hear about a run while it goes on."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        ...

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Hear how many rounds there will be, how many exist, and what happened on the way here."""
        ...

    def update(self, record: Record) -> None:
        """Hear about one more round."""
        ...


class Display:
    """What is on the terminal while a ``with`` block lasts: a bar, or nothing."""

    def __init__(self, bar: Bar | None = None) -> None:
        self._shown = bar

    def __enter__(self) -> Self:
        if self._shown is not None:
            self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()


class Silent(Display):
    """Show nothing."""

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Show nothing."""

    def update(self, record: Record) -> None:
        """Show nothing."""


class Lines(Silent):
    """Plain lines for log files and pipes: about ten over a whole run, more where it takes long."""

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Say where the run starts."""
        self._rounds, self._done, self._clock = rounds, done, time.perf_counter()
        self._due = self._clock + _FIRST
        for note in notes:
            _log.info(note)

    def update(self, record: Record) -> None:
        """Say something at every tenth part of the run, and when nothing was said for a while."""
        part, now = max(1, self._rounds // _LINES), time.perf_counter()
        if record.round % part and record.round != self._rounds and now < self._due:
            return
        self._due = now + _EVERY
        speed = (record.round - self._done) / max(now - self._clock, 1e-9)
        left = (self._rounds - record.round) / speed
        pace = f"{speed:.3g} rounds/s  {duration(left)} left"
        _log.info(f"round {record.round}/{self._rounds}  {describe(record)}  {pace}")


class Live(Silent):
    """One line that is rewritten in place: round, accuracy, NMSE, rounds per second, time left."""

    def __init__(self, console: Console) -> None:
        self._bar = Bar(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[figures]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=console,
        )
        super().__init__(self._bar)
        self._task = TaskID(0)

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Draw the line."""
        for note in notes:
            self._bar.console.print(note, highlight=False)
        self._task = self._bar.add_task("", total=rounds, completed=done, figures="", speed="")

    def update(self, record: Record) -> None:
        """Redraw it."""
        pace = self._bar.tasks[0].speed
        speed = f"{pace:.1f} rounds/s" if pace else ""
        self._bar.update(self._task, completed=record.round, figures=describe(record), speed=speed)


def describe(record: Record) -> str:
    """Return a round's accuracy and NMSE, its own and that of all rounds so far, as far as they exist."""
    words = [] if record.accuracy is None else [f"accuracy {record.accuracy:.4f}"]
    words += [] if record.nmse_db is None else [f"NMSE {record.nmse_db:.1f} dB"]
    words += [] if record.cumulative_nmse_db is None else [f"cumulative {record.cumulative_nmse_db:.1f} dB"]
    return "  ".join(words)


def choose() -> Progress:
    """Return what suits stderr and the verbosity in force."""
    if not _log.isEnabledFor(logging.INFO):
        return Silent()
    console = Console(stderr=True)
    return Live(console) if console.is_terminal else Lines()


def duration(seconds: float) -> str:
    """Return a time span in the unit people use for it.

    >>> duration(4260), duration(59.94), duration(90000)
    ('71 min', '59.9 s', '25.0 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.1f} h"
