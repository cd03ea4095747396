"""How long work that has begun will still take, and when to say so where there is no terminal."""

import time
from collections.abc import Callable

_FIRST, _EVERY = 3.0, 30.0  # seconds after which something is said for the first time, and then again
_STEPS, _SECONDS = 3, 2.0  # that are timed at least before anything is said of the time left


class Timer:
    """Work in equal steps, of which the first is not timed: it loads and prepares, as no other does.

    There is ``total`` to do, of which ``done`` was done before the clock starts and one step does ``step``.
    """

    def __init__(
        self,
        total: float,
        done: float = 0.0,
        step: float = 1.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._total, self._step, self._clock = total, step, clock
        self._first = done + step
        self._timed: tuple[float, float] | None = None  # what was done, and when, as the first step had ended
        self._due = clock() + _FIRST

    def is_due(self) -> bool:
        """Whether it is time to say something: in the first seconds, and when nothing was said for long."""
        return self._clock() >= self._due

    def said(self) -> None:
        """Hear that something was said."""
        self._due = self._clock() + _EVERY

    def per_second(self, done: float) -> float:
        """Return how much is done in a second, on the average after the first step; 0 before."""
        steps, seconds = self._since(done)
        return steps / seconds if seconds > 0 else 0.0

    def left(self, done: float) -> str:
        """Return the time left in words, nothing until enough was timed to tell."""
        steps, seconds = self._since(done)
        if done >= self._total:
            return "0 s left"
        if steps < _STEPS * self._step or seconds < _SECONDS:
            return ""
        return f"{duration((self._total - done) * seconds / steps)} left"

    def tell(self, done: float, say: Callable[[str], None], words: str) -> None:
        """Say ``words`` with the time left, if it is time to; to be called after every step."""
        left = self.left(done)
        if self.is_due():
            self.said()
            say(", ".join(filter(None, [words, left])))

    def _since(self, done: float) -> tuple[float, float]:
        """Return what was done since the first step had ended, and in how many seconds."""
        now = self._clock()
        if self._timed is None and done >= self._first:
            self._timed = done, now
        return (0.0, 0.0) if self._timed is None else (done - self._timed[0], now - self._timed[1])


def duration(seconds: float) -> str:
    """Return a time span in the unit people use for it.

    >>> duration(4260), duration(59.94), duration(90000)
    ('71 min', '59.9 s', '25.0 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.1f} h"
