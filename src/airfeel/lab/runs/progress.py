"""How a run shows itself: a live line on a terminal, a few plain lines elsewhere, or nothing."""

import logging
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from airfeel._checks import visible
from airfeel._timing import Timer
from airfeel.simulation.records import Lines, Progress, Record, describe, timing, trained

_log = logging.getLogger("airfeel")


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


class Live(Display, Progress):
    """One line that is rewritten in place: round, rounds per second, time left, accuracy, NMSE.

    A narrow terminal cuts its end, so what is missed least stands there.
    """

    def __init__(self, console: Console) -> None:
        self._bar = Bar(BarColumn(bar_width=20), TextColumn("{task.fields[words]}"), console=console)
        super().__init__(self._bar)
        self._task = TaskID(0)

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Draw the line."""
        for note in notes:
            self.note(note)
        self._task = self._bar.add_task("", total=rounds, completed=done, words=f"round {done}/{rounds}")
        self._rounds, self._timer = rounds, Timer(rounds, done)
        self._done, self._round = done, Timer(1)

    def within(self, done: int, of: int) -> None:
        """Redraw it when the round takes seconds."""
        if self._round.is_due():
            self._draw(self._done + done / of, trained(done, of))

    def update(self, record: Record) -> None:
        """Redraw it."""
        self._done, self._round = record.round, Timer(1)
        self._draw(record.round, describe(record))

    def _draw(self, done: float, figures: str) -> None:
        words = [f"round {self._done}/{self._rounds}", timing(self._timer, done), figures]
        self._bar.update(self._task, completed=done, words="  ".join(filter(None, words)))


def choose(shown: bool) -> Progress:
    """Return what suits stderr, or nobody where nothing is to be shown."""
    if not shown:
        return Progress()
    console = Console(stderr=True)
    return Live(console) if console.is_terminal else Lines()
