"""Where many runs are computed: processes on this machine, or a Dask cluster. Both are standard executors."""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airfeel.workers import available_cores

_LONGEST_WAIT = 10  # seconds for a scheduler to answer
_PAUSE = 0.5  # seconds between the questions of a run to the scheduler: a round can be as short as an answer

_stop: Any = None  # in worker processes: the event by which their campaign asks them to stop


@dataclass(frozen=True, slots=True)
class Engine:
    """An executor, and how to end it before all its runs are done.

    Parameters
    ----------
    executor, kind
        Where runs are computed.
    workers
        How many runs it computes at a time.
    stop
        Ends the work on the given futures after the rounds under way, and returns when it has ended.
    stopping
        Tells a run, in the worker that computes it, whether it is to end.
    """

    executor: Executor
    kind: str
    workers: int
    stop: Callable[[Iterable["Future[Any]"]], None]
    stopping: Callable[[], bool]


def check_engine(url: str | None) -> None:
    """Refuse an address that cannot be a Dask scheduler, before anything is computed."""
    if url is None:
        return
    if not url.startswith(("tcp://", "tls://")):
        raise ValueError(f"--engine {url}: must be the address of a Dask scheduler, such as tcp://host:8786")
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ImportError("a Dask cluster needs distributed: pip install 'airfeel[dask]'") from error


@contextmanager
def open_engine(url: str | None = None, workers: int | None = None) -> Iterator[Engine]:
    """Start processes, or connect to the Dask scheduler at ``url``.

    Processes are started afresh (nothing is inherited), leave Ctrl-C to the parent, and end with it, however
    it ends. A worker that a Dask cluster loses is replaced by the cluster itself: its run starts again
    elsewhere from its last checkpoint.
    """
    check_engine(url)
    if url is None:
        yield from _processes(workers or available_cores())
    else:
        yield from _cluster(url)


def _processes(workers: int) -> Iterator[Engine]:
    context = multiprocessing.get_context("spawn")
    event = context.Event()
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(event,)) as pool:

        def stop(futures: Iterable["Future[Any]"]) -> None:
            event.set()
            pool.shutdown(wait=True, cancel_futures=True)

        yield Engine(pool, "processes", workers, stop, _stop_asked)


def _stop_asked() -> bool:
    """Whether the campaign this worker process belongs to wants to end."""
    return _stop is not None and bool(_stop.is_set())


def _begin(event: Any) -> None:
    """Prepare a worker process."""
    global _stop
    _stop = event
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Leave no orphan that holds the lock of a run when the campaign is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cluster(url: str) -> Iterator[Engine]:
    import distributed

    try:
        client = distributed.Client(url, timeout=_LONGEST_WAIT)
    except (OSError, TimeoutError) as error:
        raise ValueError(
            f"--engine {url}: no Dask scheduler answers there ({type(error).__name__})"
        ) from None
    with client:
        slots = sum(client.ncores().values())
        if not slots:
            raise ValueError(
                f"--engine {url}: the scheduler has no worker; start some with: dask worker {url}"
            )
        executor = client.get_executor(pure=False)
        event = distributed.Event(client=client)

        def stop(futures: Iterable["Future[Any]"]) -> None:
            # Nothing is cancelled: a worker would go on with a cancelled run, unseen, to its last round.
            event.set()
            wait(futures)
            event.clear()

        yield Engine(executor, "dask", slots, stop, _AskScheduler(event))


class _AskScheduler:
    """Whether a cluster's campaign wants to end; sent to the workers, which ask now and then."""

    def __init__(self, event: Any) -> None:
        self._event, self._asked = event, -math.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._asked < _PAUSE:
            return False
        self._asked = now
        return bool(self._event.is_set())
