"""How runs show themselves: a live line on a terminal, a few plain lines elsewhere, or nothing."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from airfeel._checks import visible
from airfeel._timing import Timer
from airfeel.lab import store
from airfeel.lab.runner import Work
from airfeel.simulation.records import Lines, Progress, Record, describe, timing, trained

_log = logging.getLogger("airfeel")


class Display:
    """What is on the terminal while a ``with`` block lasts: a bar, or nothing."""

    def __init__(self, console: Console | None = None) -> None:
        columns = BarColumn(bar_width=20), TextColumn("{task.fields[words]}")
        self._bar = None if console is None else Bar(*columns, console=console)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *ended: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def note(self, sentence: str) -> None:
        """Say something, above the bar where there is one; brackets in it are no markup."""
        if self._bar is None:
            _log.info(sentence)
        else:
            self._bar.console.out(visible(sentence, keep="\n"), highlight=False)

    def draw(self, total: float, done: float, words: str) -> None:
        """Rewrite the line in place; a narrow terminal cuts its end, so what is missed least stands there."""
        if self._bar is not None:
            task = self._bar.task_ids[0] if self._bar.task_ids else self._bar.add_task("", words="")
            self._bar.update(task, total=total, completed=done, words=words)


class Live(Display, Progress):
    """One line that is rewritten in place: round, rounds per second, time left, accuracy, NMSE."""

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Draw the line."""
        for note in notes:
            self.note(note)
        super().begin(rounds, done, notes)
        self.draw(rounds, done, f"round {done}/{rounds}")

    def within(self, done: int, of: int) -> None:
        """Redraw it when the round takes seconds."""
        if self._round.is_due():
            self._redraw(self._done + done / of, trained(done, of))

    def update(self, record: Record) -> None:
        """Redraw it."""
        self._done, self._round = record.round, Timer(1)
        self._redraw(record.round, describe(record))

    def _redraw(self, done: float, figures: str) -> None:
        words = [f"round {self._done}/{self._rounds}", timing(self._timer, done), figures]
        self.draw(self._rounds, done, "  ".join(filter(None, words)))


def choose(shown: bool) -> Progress:
    """Return what suits stderr, or nobody where nothing is to be shown."""
    console = Console(stderr=True)
    return Progress() if not shown else Live(console) if console.is_terminal else Lines()


class Overview(Display):
    """Follows runs by the length of their records on disk, so that it works for every engine alike."""

    def begin(self, runs: Sequence[Work], skipped: int, out: Path) -> None:
        """Hear what is to be done."""
        self._out = out
        self._efforts = {run.label: run.effort for run in runs}
        self._rounds = {run.label: run.config.rounds for run in runs}
        self._settled: set[str] = set()
        self._seen: dict[str, tuple[store.Stamp | None, int]] = dict.fromkeys(self._efforts, (None, 0))
        dearest = max((run.effort / run.config.rounds for run in runs), default=1.0)  # of all rounds
        self._timer = Timer(sum(self._efforts.values()), self._done(), dearest)
        if skipped:
            self.note(f"{skipped} of {skipped + len(runs)} runs are finished already")
        self.draw(sum(self._efforts.values()), self._done(), self.words())

    def update(self) -> None:
        """Redraw the line, if there is one; after a run has ended too."""
        self.draw(sum(self._efforts.values()), self._done(), self.words())

    def settled(self, label: str, error: str | None) -> None:
        """Hear that a run has ended."""
        self._settled.add(label)
        if error is not None:
            self.note(f"{label} failed: {error}")

    def words(self) -> str:
        """Return how far things are, with the time left."""
        total, done = sum(self._efforts.values()), self._done()
        words = [f"{len(self._settled)}/{len(self._efforts)} runs", f"{done / total if total else 1:.0%}"]
        if left := self._timer.left(done):
            words.append(f"about {left}")
        elif not self._settled:
            words.append("the first rounds are under way")
        return "  ".join(words)

    def _done(self) -> float:
        """Return the effort behind us: settled runs, and the others by their rounds so far."""
        return sum(
            effort if label in self._settled else effort * min(1.0, self._lines(label) / self._rounds[label])
            for label, effort in self._efforts.items()
        )

    def _lines(self, label: str) -> int:
        """Count the rounds on record, reading a file only when it has changed."""
        path = self._out / "runs" / label
        stamp = store.stamp(path / store.ROUNDS)
        if self._seen[label][0] != stamp:
            self._seen[label] = stamp, store.count_records(path)
        return self._seen[label][1]


class CampaignLines(Overview):
    """One plain line per finished run, for log files and pipes, and some in between where runs take long."""

    _vague = False  # whether something was said without the time left

    def update(self) -> None:
        """Say how far things are, if nothing was said for long, and the time left once it is known."""
        words = self.words()  # at every look, as the first rounds are not timed
        known = words.endswith("left")
        if self._timer.is_due() or (self._vague and known):
            self._timer.said()
            self.note(words)
            self._vague = not known

    def settled(self, label: str, error: str | None) -> None:
        """Say so, and how much is left."""
        super().settled(label, error)
        if error is None:
            self._timer.said()
            self.note(f"{self.words()}  {label}")


def choose_overview() -> Overview:
    """Return what suits stderr and the verbosity in force."""
    if not _log.isEnabledFor(logging.INFO):
        return Overview()
    console = Console(stderr=True)
    return Overview(console) if console.is_terminal else CampaignLines()
