"""How a run shows itself: a live line on a terminal, a few plain lines elsewhere, or nothing."""

import logging
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from airfeel._checks import visible
from airfeel._pace import Pace
from airfeel.simulation import Record

_log = logging.getLogger("airfeel")
_LINES = 10  # how many plain lines a short run prints


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

    def within(self, done: int, of: int) -> None:
        """Hear how many devices have trained in the round under way."""
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

    def note(self, sentence: str) -> None:
        """Say something, above the bar where there is one; brackets in it are no markup."""
        if self._shown is None:
            _log.info(sentence)
        else:
            self._shown.console.out(visible(sentence, keep="\n"), highlight=False)


class Silent(Display):
    """Show nothing."""

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Show nothing."""

    def within(self, done: int, of: int) -> None:
        """Show nothing."""

    def update(self, record: Record) -> None:
        """Show nothing."""


class Lines(Silent):
    """Plain lines for log files and pipes: about ten over a whole run, more where it takes long."""

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Say where the run starts."""
        self._rounds, self._pace = rounds, Pace(rounds, done)
        self._done, self._round = done, Pace(1)
        for note in notes:
            self.note(note)

    def within(self, done: int, of: int) -> None:
        """Say something when the round takes seconds, and nothing was said for a while."""
        if self._round.is_due() and self._pace.is_due():
            self._pace.said()
            left = self._pace.left(self._done + done / of)
            _log.info(f"round {self._done + 1}/{self._rounds}  {trained(done, of)}  about {left}")

    def update(self, record: Record) -> None:
        """Say something at every tenth part of the run, and when nothing was said for a while."""
        part, pace, done = max(1, self._rounds // _LINES), self._pace, record.round
        self._done, self._round = done, Pace(1)
        if done % part and done != self._rounds and not pace.is_due():
            return
        pace.said()
        words = f"{pace.per_second(done):.3g} rounds/s  {pace.left(done)}"
        _log.info(f"round {done}/{self._rounds}  {describe(record)}  {words}")


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
            self.note(note)
        self._task = self._bar.add_task("", total=rounds, completed=done, figures="", speed="")
        self._done, self._round = done, Pace(1)

    def within(self, done: int, of: int) -> None:
        """Redraw it when the round takes seconds."""
        if self._round.is_due():
            self._bar.update(self._task, completed=self._done + done / of, figures=trained(done, of))

    def update(self, record: Record) -> None:
        """Redraw it."""
        pace = self._bar.tasks[0].speed
        speed = f"{pace:.3g} rounds/s" if pace else ""
        self._done, self._round = record.round, Pace(1)
        self._bar.update(self._task, completed=record.round, figures=describe(record), speed=speed)


def trained(done: int, of: int) -> str:
    """Return how far a round is in words."""
    return f"{done} of {of} devices trained"


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
