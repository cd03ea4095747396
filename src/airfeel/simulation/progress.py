"""Who hears about a training while it goes on: nobody, or somebody who says so in a few plain lines."""

import logging
from types import TracebackType
from typing import Protocol, Self

from airfeel._checks import visible
from airfeel._timing import Timer
from airfeel.simulation.records import Record

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


class Silent:
    """Show nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Show nothing."""

    def within(self, done: int, of: int) -> None:
        """Show nothing."""

    def update(self, record: Record) -> None:
        """Show nothing."""


class Lines(Silent):
    """Plain lines on stderr, for files, pipes and notebooks: about ten over a whole run, more if it is long.

    They are no log: that is seen only where somebody has arranged for it, and these were asked for.
    """

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Say where the run starts."""
        self._rounds, self._timer = rounds, Timer(rounds, done)
        self._done, self._round = done, Timer(1)
        for note in notes:
            _say(note)

    def within(self, done: int, of: int) -> None:
        """Say something when the round takes seconds, and nothing was said for a while."""
        if self._round.is_due() and self._timer.is_due():
            self._timer.said()
            left = self._timer.left(self._done + done / of)
            _say(f"round {self._done + 1}/{self._rounds}", trained(done, of), left and f"about {left}")

    def update(self, record: Record) -> None:
        """Say something at every tenth part of the run, and when nothing was said for a while."""
        part, done = max(1, self._rounds // _LINES), record.round
        self._done, self._round = done, Timer(1)
        words = timing(self._timer, done)  # in every round, as the first is not timed
        if done % part == 0 or done == self._rounds or self._timer.is_due():
            self._timer.said()
            _say(f"round {done}/{self._rounds}", describe(record), words)


def _say(*words: str) -> None:
    """Write a line to what is stderr now; nothing goes wrong where nobody can read it any more."""
    line = logging.makeLogRecord({"msg": visible("  ".join(filter(None, words)), keep="\n")})
    logging.StreamHandler().handle(line)


def timing(timer: Timer, done: float) -> str:
    """Return how fast rounds are and how much time is left, as far as that is known."""
    speed = timer.per_second(done)
    return "  ".join(filter(None, [f"{speed:.3g} rounds/s" if speed else "", timer.left(done)]))


def trained(done: int, of: int) -> str:
    """Return how far a round is in words."""
    return f"{done} of {of} devices trained"


def describe(record: Record) -> str:
    """Return a round's accuracy and NMSE, its own and that of all rounds so far, as far as they exist."""
    words = [] if record.accuracy is None else [f"accuracy {record.accuracy:.4f}"]
    words += [] if record.nmse_db is None else [f"NMSE {record.nmse_db:.1f} dB"]
    words += [] if record.cumulative_nmse_db is None else [f"cumulative {record.cumulative_nmse_db:.1f} dB"]
    return "  ".join(words)
