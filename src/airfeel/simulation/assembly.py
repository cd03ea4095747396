"""From a configuration to the parts of a run: data on the devices, task, scheme, server."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks, _maps
from airfeel.config import Config
from airfeel.learning import partitions
from airfeel.learning.datasets import Dataset, load_dataset
from airfeel.learning.devices import LocalTraining, Participation, shares, split
from airfeel.learning.server import Adam, GradientDescent, Optimizer, Schedule
from airfeel.learning.tasks import DataShape, Samples, Task
from airfeel.radio.air import Air
from airfeel.radio.link import Channel
from airfeel.radio.power import EqualPower, LongTermPower, PowerPolicy
from airfeel.schemes.base import Scheme, Setting, Shapes
from airfeel.schemes.blocks import Room
from airfeel.simulation.memory import Estimate, mapped, require_memory
from airfeel.units import count

Array = NDArray[np.floating[Any]]
DataLike = str | Path | Dataset | Sequence[NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """Parts of a user's own that take the place of what a configuration names."""

    scheme: Scheme[Any] | None = None
    task: Task | None = None
    dataset: DataLike | None = None
    channel: Channel | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Everything about a run that does not change from round to round."""

    config: Config
    task: Task
    data: list[Samples]
    test: list[Samples]
    weights: Array
    training: LocalTraining
    participation: Participation
    local_rate: Schedule
    scheme: Scheme[Any]
    air: Air
    optimizer: Optimizer
    server_rate: Schedule
    room: Room | None = None
    """Where the error memories of the next round go; None: into memory."""
    needs: Estimate | None = None
    """How much memory and disk the run takes."""

    @property
    def shapes(self) -> Shapes:
        """The model's tensors in the order of the flat vector; one of N where the task does not say."""
        return getattr(self.task, "shapes", None) or {"theta": (self.task.size,)}

    @property
    def setting(self) -> Setting:
        """What the scheme may know before the first round."""
        config = self.config
        return Setting(
            devices=len(self.data),
            symbols=count(config.uplink.ratio, self.task.size),
            power=config.uplink.power,
            noise_var=getattr(self.air.channel, "noise_var", None),
            rounds=config.rounds,
        )


def assemble(config: Config, own: Own = Own()) -> Parts:  # noqa: B008  (frozen)
    """Build the parts that ``config`` names; those of ``own`` replace them."""
    source = find_data(config, own.dataset)
    task = make_task(config, source) if own.task is None else own.task
    scheme = make_scheme(config) if own.scheme is None else own.scheme
    needs = require_memory(config, task, source, scheme)
    held = make_partition(config, source.train_labels)
    data = [task.prepare(source.train_images[part], source.train_labels[part]) for part in held]
    return Parts(
        config=config,
        task=task,
        data=data,
        test=split(task, source.test_images, source.test_labels),
        weights=shares(data),
        training=LocalTraining(config.devices.local_steps, config.devices.batch_size),
        participation=Participation(config.devices.participation, config.devices.dropout),
        local_rate=_schedule(config, config.devices.learning_rate),
        scheme=scheme,
        air=Air(make_channel(config) if own.channel is None else own.channel, _policy(config)),
        optimizer=make_optimizer(config),
        server_rate=_schedule(config, config.server.learning_rate),
        room=_maps.temporary if mapped(config, task) else None,
        needs=needs,
    )


def find_data(config: Config, dataset: DataLike | None = None) -> Dataset:
    """Return the data set by name, folder, or from four arrays: train and test images, each with labels."""
    if isinstance(dataset, Sequence) and not isinstance(dataset, str):
        lengths = [len(part) for part in dataset]
        if len(lengths) != 4 or lengths[0] != lengths[1] or lengths[2] != lengths[3]:
            rule = "must be train images, train labels, test images, test labels, one label per image"
            raise ValueError(f"dataset has parts of lengths {lengths}: {rule}")
        train_images, train_labels, test_images, test_labels = (np.asarray(part) for part in dataset)
        classes = int(max(train_labels.max(), test_labels.max())) + 1
        return Dataset(train_images, train_labels, test_images, test_labels, "arrays", classes)
    return load_dataset(config.dataset if dataset is None else dataset)


def make_task(config: Config, data: DataShape) -> Task:
    """Return the model to be trained, fitted to the data: the configured part is one, or makes one."""
    model = config.part("model")
    try:
        task: Task = model if hasattr(model, "gradient") else model(data)
    except (TypeError, AttributeError) as error:  # somebody's function that was not written for this
        reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        rule = f"cannot make a model for samples of shape {data.shape} ({reason})"
        raise _checks.reject("model.kind", config.model.kind, rule) from error
    needed = ("size", "init", "prepare", "gradient", "evaluate")
    missing = [name for name in needed if not hasattr(task, name)]
    if missing:
        rule = f"must have {', '.join(needed)}, but has no {', '.join(missing)}"
        raise _checks.reject("model.kind", config.model.kind, rule)
    return task


def make_partition(config: Config, labels: NDArray[Any]) -> partitions.Partition:
    """Return which samples each device holds."""
    devices, kind, seed = config.devices, config.partition, config.seed
    pool = min(partitions.POOL, len(labels))
    listed = devices.samples if isinstance(devices.samples, tuple) else (devices.samples,) * devices.count
    if max(listed) > pool:
        rule = f"must be at most {pool}, the number of samples the devices draw from"
        raise _checks.reject("devices.samples", max(listed), rule)
    sizes: Sequence[int] = listed
    if devices.spread:
        sizes = partitions.unequal_sizes(devices.count, listed[0], devices.spread, seed, pool)
    if kind.classes is not None:
        return partitions.by_classes(labels, sizes, seed, kind.classes)
    if kind.alpha is not None:
        return partitions.dirichlet(labels, sizes, seed, kind.alpha)
    return partitions.iid(labels, sizes, seed)


def make_scheme(config: Config) -> Scheme[Any]:
    """Return the way from the devices' updates to the server's estimate."""
    scheme: Scheme[Any] = config.part("scheme")
    return scheme


def make_channel(config: Config) -> Channel:
    """Return the air between devices and server."""
    channel: Channel = config.part("channel")
    return channel


def make_optimizer(config: Config) -> Optimizer:
    """Return how the server turns x^ into an update."""
    return Adam() if config.server.optimizer == "adam" else GradientDescent(config.server.momentum)


def _policy(config: Config) -> PowerPolicy:
    power = config.uplink.power
    return EqualPower(power) if config.uplink.policy == "equal" else LongTermPower(power)


def _schedule(config: Config, rate: float) -> Schedule:
    server = config.server
    return Schedule(rate, server.schedule, server.schedule_every, server.schedule_factor)
