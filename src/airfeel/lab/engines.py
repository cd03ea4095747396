"""Where many runs are computed: processes on this machine, or a Dask cluster. Both are standard executors."""

import asyncio
import logging
import math
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

from airfeel._extras import missing
from airfeel.workers import available_cores

_LONGEST_WAIT = 10.0  # seconds for a scheduler to answer
_PAUSE = 0.5  # seconds between the questions of a run to the scheduler: a round can be as short as an answer

_stop: Any = None  # in worker processes: the event by which their campaign asks them to stop


@dataclass(frozen=True, slots=True)
class Engine:
    """An executor that computes ``workers`` runs at a time, and how to end it before all are done.

    ``stop`` ends the work on the given futures after the rounds under way, and returns when it has ended;
    ``stopping`` tells a run, in the worker that computes it, whether it is to end; ``lost`` says in one
    sentence why runs were cancelled.
    """

    executor: Executor
    kind: str
    workers: int
    stop: Callable[[Iterable["Future[Any]"]], None]
    stopping: Callable[[], bool]
    lost: str = ""


def check_engine(url: str | None) -> None:
    """Refuse an address that cannot be a Dask scheduler, before anything is computed."""
    if url is None:
        return
    port = re.fullmatch(r"(?:tcp|tls)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})", url)
    if port is None or not 0 < int(port[1]) < 2**16:
        raise ValueError(f"--engine {url}: must be the address of a Dask scheduler, such as tcp://host:8786")
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise missing("dask", "a Dask cluster needs") from error


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
    # Python's process that removes semaphores of killed ones is told not to warn that it had to.
    before = os.environ.get("PYTHONWARNINGS", "")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, "ignore:resource_tracker:UserWarning"]))
    try:
        resource_tracker.ensure_running()
    finally:
        os.environ["PYTHONWARNINGS"] = before  # empty is like none
    event, others = context.Event(), multiprocessing.active_children()
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(event,)) as pool:

        def stop(futures: Iterable["Future[Any]"]) -> None:
            event.set()
            pool.shutdown(wait=True, cancel_futures=True)

        try:
            yield Engine(pool, "processes", workers, stop, _stop_asked)
        except BaseException:  # a second Ctrl-C: nobody waits for the rounds under way
            for child in set(multiprocessing.active_children()) - set(others):
                child.kill()
            raise


def _begin(event: Any) -> None:
    """Prepare a worker process, and leave no orphan that holds a run's lock when the campaign is killed."""
    global _stop
    _stop = event
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _stop_asked() -> bool:
    """Whether the campaign this worker process belongs to wants to end."""
    return _stop is not None and bool(_stop.is_set())


def _cluster(url: str) -> Iterator[Engine]:
    import distributed

    with _muted("distributed"):
        _knock(url)
        with ExitStack() as stack:
            try:
                client = stack.enter_context(distributed.Client(url, timeout=_LONGEST_WAIT))
                slots = sum(client.ncores().values())
            except (OSError, CancelledError) as error:
                raise _silent(url, error) from None
            if not slots:
                raise ValueError(
                    f"--engine {url}: the scheduler has no worker; start some with: dask worker {url}"
                )
            event = distributed.Event(client=client)

            def stop(futures: Iterable["Future[Any]"]) -> None:
                # Nothing is cancelled: a worker would go on with a cancelled run, unseen, to its last round.
                with suppress(OSError):  # of a scheduler that is lost: its runs have ended for us
                    event.set()
                    wait(futures)
                    event.clear()

            # Nobody cancels runs: a cancelled one is one that the client gave up together with its scheduler.
            lost = f"the Dask scheduler at {url} was lost; the same command continues this run"
            yield Engine(client.get_executor(pure=False), "dask", slots, stop, _AskScheduler(event), lost)


def _knock(url: str) -> None:
    """Make sure that a Dask scheduler answers: to anything else the client would listen for minutes."""
    from distributed import Security
    from distributed.comm import connect
    from distributed.core import send_recv

    async def ask_who() -> Any:
        comm = await connect(url, timeout=_LONGEST_WAIT, **Security().get_connection_args("client"))
        try:
            return await send_recv(comm, op="identity")
        finally:
            comm.abort()

    try:
        answer = asyncio.run(asyncio.wait_for(ask_who(), _LONGEST_WAIT))
    except Exception as error:  # whatever somebody else's protocol makes of ours
        raise _silent(url, error) from None
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        raise ValueError(f"--engine {url}: no Dask scheduler answers there, but something else does")


def _silent(url: str, error: BaseException) -> ValueError:
    return ValueError(f"--engine {url}: no Dask scheduler answers there ({type(error).__name__})")


@contextmanager
def _muted(name: str) -> Iterator[None]:
    """Keep a library's log to itself for a while: what matters in it becomes a sentence of ours."""
    loggers = [logging.getLogger(each) for each in logging.root.manager.loggerDict if each.startswith(name)]
    loud = [logger for logger in loggers if not logger.disabled]
    for logger in loud:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loud:
            logger.disabled = False


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
