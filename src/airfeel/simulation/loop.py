"""The loop: one federated round after another, each a pure function of the state before it."""

import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft

from airfeel.config import ConfigLike
from airfeel.learning.models import ModelLike
from airfeel.learning.optimizers import ServerState
from airfeel.learning.training import evaluate, local_gradients
from airfeel.radio.link import Channel
from airfeel.simulation.assembly import DataLike, Parts, assemble, given
from airfeel.simulation.records import Lines, Progress, Record, make_record
from airfeel.uplink.memory import Devices
from airfeel.uplink.round import Aggregate, Uplink, UplinkState, begin
from airfeel.uplink.scheme import Array, Scheme
from airfeel.workers import Workers

# Hears of a round under way how many devices have trained, and how many will; one call at a time.
Listener = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class RunState:
    """All that a run carries from one round to the next; a checkpoint is exactly this.

    ``round`` is the last one completed; ``true_sum`` and ``found_sum`` add up x and x^ of all rounds.
    ``downlink_seconds`` are those of the way back.
    """

    round: int
    theta: Array
    uplink: UplinkState
    server: ServerState
    true_sum: Array
    found_sum: Array
    symbols: int
    downlink_seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One round: its record, the state after it, and the aggregate that was sent and recovered."""

    record: Record
    state: RunState
    aggregate: Aggregate


def train(
    config: ConfigLike | None = None,
    *,
    scheme: str | Scheme[Any] | None = None,
    task: str | ModelLike | None = None,
    dataset: DataLike | None = None,
    channel: str | Mapping[str, Any] | Channel | None = None,
    progress: bool = False,
    **keys: Any,
) -> Iterator[Record]:
    """Train one model over the air; yield one record per round.

    A round is computed when its record is asked for::

        for record in af.train(scheme="scheduled", rounds=20):
            print(record.round, record.accuracy)

        af.train({"uplink.ratio": 0.04}, channel="fading", dataset="fashion-mnist", task="mlp")
        af.train("mine.toml", seed=3, devices={"count": 10}, progress=True)

    Parameters
    ----------
    config
        What :func:`airfeel.load_config` takes or returns: a dictionary of keys, the path of a TOML file, or a
        configuration; None: the defaults.
    scheme
        Its name, as the key ``scheme``; or a scheme of your own.
    task
        The name of the model, as the key ``model.kind``; or a model of your own: a task, or a function of the
        data's shape that makes one, or the class of a ``torch.nn.Module``.
    dataset
        A name or a path, as the key ``dataset``; or data of your own: a Dataset, four arrays (train inputs,
        train labels, test inputs, test labels), or a pair of map-style data sets (train, test).
    channel
        Its name, as the key ``channel.kind``, or a table with that and options; or air of your own.
    progress
        Say on stderr now and then how far it is.
    keys
        Other keys of the configuration, or whole tables as dictionaries; they win over ``config``.
    """
    config, own = given(config, scheme, task, dataset, channel, keys)
    parts = assemble(config, own)
    listener = Lines() if progress else Progress()
    rounds = steps(parts, start(parts), listener.within)

    def records() -> Iterator[Record]:
        listener.begin(parts.config.rounds, 0, [])
        for step in rounds:
            listener.update(step.record)
            yield step.record

    return records()  # what is wrong with the arguments was told already, before a round is asked for


def steps(
    parts: Parts, state: RunState, listener: Listener = lambda done, of: None
) -> Generator[Step, None, None]:
    """Yield the rounds after ``state`` until the configured number is reached."""
    with Workers(parts.config.run.threads) as workers:
        while state.round < parts.config.rounds:
            step = advance(parts, state, workers, listener)
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


def advance(
    parts: Parts, state: RunState, workers: Workers, listener: Listener = lambda done, of: None
) -> Step:
    """Carry out one round: local training, uplink, update, evaluation."""
    round, seed = state.round + 1, parts.config.seed
    computing, sending = parts.participation.draw(len(parts.data), seed, round)
    done, of, one_at_a_time = itertools.count(1), int(computing.sum()), threading.Lock()

    def trained() -> None:
        with one_at_a_time:
            listener(min(next(done), of), of)  # power control that chooses may have some train again

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
            allocate=parts.allocate,
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
        downlink_seconds=state.downlink_seconds + _way_back(parts, aggregate),
    )
    due = round % parts.config.run.evaluate_every == 0 or round == parts.config.rounds
    record = make_record(
        round,
        aggregate,
        evaluate(parts.task, theta, parts.test, workers) if due else None,
        sums=(after.found_sum, after.true_sum),
        energy=float(carried.ledger.spent.max()),
        symbols=after.symbols,
        state_bytes=sum(part[:1].nbytes for part in carried.memory.values()),
        units=parts.units,
        downlink_seconds=after.downlink_seconds,
    )
    return Step(record, after, aggregate)


def _way_back(parts: Parts, aggregate: Aggregate) -> float:
    """Return how long all devices hear the plan, and what changed: the model, or only what was sent."""
    if parts.units is None or aggregate.receivable is None:
        return 0.0
    changed = aggregate.channel_uses if parts.changes_what_is_sent else parts.task.size
    return parts.units.downlink_seconds(aggregate.downlink + changed, aggregate.receivable)
