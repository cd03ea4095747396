"""A few threads for NumPy work, with results that do not depend on their number."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import threadpool_limits

from airfeel import _checks

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A thread pool with one BLAS thread for everybody, while it is open.

    BLAS is held to one thread in the whole process: two BLAS threads per worker fight for the same cores,
    and a sum that BLAS splits over threads depends on their number. Without ``with`` the calls run one after
    another in the calling thread.

    >>> with Workers(threads=2) as workers:
    ...     workers.map(abs, [-2, 1, -3])
    [2, 1, 3]
    """

    def __init__(self, threads: int | None = None) -> None:
        """Use ``threads`` threads; None means one for each core this process may use."""
        self.threads = (
            available_cores() if threads is None else _checks.integer("threads", threads, at_least=1)
        )
        self._pool: ThreadPoolExecutor | None = None
        self._limits: Any = None
        self._rows: NDArray[Any] = np.empty((0, 0))
        self._unheld = self._holders()

    def __enter__(self) -> Self:
        """Pin BLAS and start the threads."""
        self._limits = threadpool_limits(limits=1)
        if self.threads > 1:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="airfeel")
        return self

    def __exit__(self, *ended: object) -> None:
        """Stop the threads and give BLAS back its own."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._limits.restore_original_limits()

    def rows(self, count: int, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of rows to be written, the one of the call before unless somebody holds it still.

        A fresh array of some hundred megabytes is cleared by the system, in every round.
        """
        fits = self._rows.dtype == dtype and self._rows.shape[1] == size and len(self._rows) >= count
        if not fits or self._holders() > self._unheld:
            self._rows = np.empty((0, 0))  # freed before the next one is there
            self._rows = np.empty((count, size), dtype)
        return self._rows[:count]

    def _holders(self) -> int:
        """Return how many references there are, of which each view has one too."""
        return sys.getrefcount(self._rows)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``, computed by the threads, in their order."""
        todo = list(items)
        if self._pool is None or len(todo) < 2:
            return [function(item) for item in todo]
        # Each thread takes the next item when it is done with one: a task per item would cost 30 microseconds
        # each, which a thousand small devices would feel.
        results: dict[int, Result] = {}
        waiting, lock = iter(enumerate(todo)), threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    index, item = next(waiting, (-1, None))
                if index < 0:
                    return
                results[index] = function(item)  # type: ignore[arg-type]

        for task in [self._pool.submit(work) for _ in range(self.threads)]:
            task.result()
        return [results[index] for index in range(len(todo))]
