"""How long work that has begun will still take, and when to say so where there is no terminal."""

import time
from collections.abc import Callable

_FIRST, _EVERY = 3.0, 30.0  # seconds after which something is said for the first time, and then again


class Pace:
    """Work in so many equal steps.

    Parameters
    ----------
    total
        How many steps there are.
    done
        How many were done before the clock starts.
    clock
        Returns seconds.
    """

    def __init__(
        self, total: float, done: float = 0.0, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._total, self._before, self._clock = total, done, clock
        self._began = clock()
        self._due = self._began + _FIRST

    def is_due(self) -> bool:
        """Whether it is time to say something: in the first seconds, and when nothing was said for long."""
        return self._clock() >= self._due

    def said(self) -> None:
        """Hear that something was said."""
        self._due = self._clock() + _EVERY

    def per_second(self, done: float) -> float:
        """Return how many steps a second takes, on the average since the beginning."""
        return (done - self._before) / max(self._clock() - self._began, 1e-9)

    def left(self, done: float) -> str:
        """Return the time left in words, nothing while it cannot be known."""
        speed = self.per_second(done)
        return f"{duration(max(self._total - done, 0) / speed)} left" if speed > 0 else ""

    def tell(self, done: float, say: Callable[[str], None], words: str) -> None:
        """Say ``words`` with the time left, if it is time to."""
        if self.is_due():
            self.said()
            say(", ".join(filter(None, [words, self.left(done)])))


def duration(seconds: float) -> str:
    """Return a time span in the unit people use for it.

    >>> duration(4260), duration(59.94), duration(90000)
    ('71 min', '59.9 s', '25.0 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.1f} h"
