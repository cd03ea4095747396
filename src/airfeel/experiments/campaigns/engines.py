"""Where many runs are computed: processes on this machine, or a Dask cluster. Both are standard executors."""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airfeel.workers import available_cores

_LONGEST_WAIT = 10  # seconds for a scheduler to answer

_stop: Any = None  # set in worker processes: whether this machine's campaign was asked to stop


@dataclass(frozen=True, slots=True)
class Engine:
    """An executor, how many runs it computes at a time, and how to end it before all of them are done."""

    executor: Executor
    workers: int
    kind: str
    stop: Callable[[], None]


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


def stop_asked() -> bool:
    """Whether the campaign this worker process belongs to wants to end."""
    return _stop is not None and _stop.is_set()


def _processes(workers: int) -> Iterator[Engine]:
    context = multiprocessing.get_context("spawn")
    event = context.Event()
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(event,)) as pool:

        def stop() -> None:
            event.set()
            pool.shutdown(wait=True, cancel_futures=True)

        yield Engine(pool, workers, "processes", stop)


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
    with _restored_level(logging.getLogger("tornado.application")) as log, client:
        slots = sum(client.ncores().values())
        if not slots:
            raise ValueError(
                f"--engine {url}: the scheduler has no worker; start some with: dask worker {url}"
            )
        executor = client.get_executor(pure=False)

        def stop() -> None:
            # Runs that wait are cancelled; those under way are finished by their workers, which nobody
            # interrupts. An answer on its way when the connection closes would be logged with a traceback,
            # though nobody waits for it any more and its run is in the folder.
            log.setLevel(logging.CRITICAL)
            executor.shutdown(wait=False)

        yield Engine(executor, slots, "dask", stop)


@contextmanager
def _restored_level(log: logging.Logger) -> Iterator[logging.Logger]:
    level = log.level
    try:
        yield log
    finally:
        log.setLevel(level)
