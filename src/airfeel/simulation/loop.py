"""The loop: one federated round after another, each a pure function of the state before it."""

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from airfeel.config import Config
from airfeel.learning.devices import evaluate, local_gradients
from airfeel.learning.fitting import ModelLike
from airfeel.learning.server import ServerState
from airfeel.learning.tasks import Score
from airfeel.radio.link import Channel
from airfeel.simulation.assembly import DataLike, Own, Parts, assemble
from airfeel.simulation.records import Record, make_record
from airfeel.uplink.memory import Devices
from airfeel.uplink.result import Aggregate, UplinkState, begin
from airfeel.uplink.round import Uplink
from airfeel.uplink.scheme import Scheme
from airfeel.workers import Workers

Array = NDArray[np.floating[Any]]
# Hears of a round under way how many devices have trained, and how many will; one call at a time.
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class RunState:
    """All that a run carries from one round to the next; a checkpoint is exactly this.

    ``round`` is the last one completed; ``true_sum`` and ``found_sum`` add up x and x^ of all rounds.
    """

    round: int
    theta: Array
    uplink: UplinkState
    server: ServerState
    true_sum: Array
    found_sum: Array
    symbols: int


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One round: its record, the state after it, and the aggregate that was sent and recovered."""

    record: Record
    state: RunState
    aggregate: Aggregate


def train(
    config: Config,
    *,
    scheme: Scheme[Any] | None = None,
    task: ModelLike | None = None,
    dataset: DataLike | None = None,
    channel: Channel | None = None,
) -> Iterator[Record]:
    """Train one model over the air; yield one record per round.

    Parameters
    ----------
    config
        From :func:`airfeel.load_config`.
    scheme
        A scheme of your own in place of ``config.scheme``.
    task
        A model of your own in place of ``config.model``: a task, or a function of the data's shape that makes
        one, or the class of a ``torch.nn.Module``.
    dataset
        Data of your own in place of ``config.dataset``: a Dataset, four arrays (train inputs, train labels,
        test inputs, test labels), a pair of map-style data sets (train, test), a name, or a path.
    channel
        Air of your own in place of ``config.channel``.
    """
    parts = assemble(config, Own(scheme, task, dataset, channel))
    return (step.record for step in steps(parts, start(parts)))


def steps(parts: Parts, state: RunState, told: Told = lambda done, of: None) -> Iterator[Step]:
    """Yield the rounds after ``state`` until the configured number is reached."""
    with Workers(parts.config.run.threads) as workers:
        while state.round < parts.config.rounds:
            step = advance(parts, state, workers, told)
            state = step.state
            yield step


def start(parts: Parts) -> RunState:
    """Return the state before round 1."""
    size = parts.task.size
    return RunState(
        round=0,
        theta=parts.task.init(parts.config.seed),
        uplink=begin(parts.scheme, parts.shapes, parts.setting),
        server=parts.optimizer.init(size),
        true_sum=np.zeros(size),
        found_sum=np.zeros(size),
        symbols=0,
    )


def advance(parts: Parts, state: RunState, workers: Workers, told: Told = lambda done, of: None) -> Step:
    """Carry out one round: local training, uplink, update, evaluation."""
    round, seed = state.round + 1, parts.config.seed
    computing, sending = parts.participation.draw(len(parts.data), seed, round)
    done, of, one_at_a_time = itertools.count(1), int(computing.sum()), threading.Lock()

    def trained() -> None:
        with one_at_a_time:
            told(min(next(done), of), of)  # power control that chooses may have some train again

    def updates(devices: Devices) -> Array:
        return local_gradients(
            parts.task,
            state.theta,
            parts.data,
            parts.training,
            rate=parts.local_rate(round),
            seed=seed,
            round=round,
            devices=devices,
            workers=workers,
            trained=trained,
        )

    with fft.set_workers(workers.threads):  # every device transforms its own gradient
        uplink = Uplink(
            parts.scheme,
            parts.air,
            state.uplink,
            parts.weights,
            seed=seed,
            round=round,
            computing=computing,
            sending=sending,
            room=parts.room,
        )
        for devices in uplink.blocks:
            uplink.encode(devices, updates(devices))
        for devices in uplink.arrive():
            uplink.settle(devices, updates(devices))
        aggregate, carried = uplink.decode()
    rate = parts.server_rate(round)
    with np.errstate(all="ignore"):
        theta, server = parts.optimizer.update(state.server, state.theta, aggregate.mean, rate)
    if not np.isfinite(theta).all():
        raise ValueError(
            f"the model is not finite after round {round}: the training has diverged; lower the learning rate"
        )
    after = RunState(
        round=round,
        theta=theta,
        uplink=carried,
        server=server,
        true_sum=state.true_sum + aggregate.truth,
        found_sum=state.found_sum + aggregate.mean,
        symbols=state.symbols + aggregate.channel_uses,
    )
    record = make_record(
        round,
        aggregate,
        _score(parts, theta, round, workers),
        sums=(after.true_sum, after.found_sum),
        energy=float(carried.ledger.spent.max()),
        symbols=after.symbols,
        units=parts.units,
    )
    return Step(record, after, aggregate)


def _score(parts: Parts, theta: Array, round: int, workers: Workers) -> Score | None:
    """Evaluate in every n-th round and in the last."""
    due = round % parts.config.run.evaluate_every == 0 or round == parts.config.rounds
    return evaluate(parts.task, theta, parts.test, workers) if due else None
