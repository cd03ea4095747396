"""From a configuration to the parts of a run: data on the devices, task, scheme, server."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.aggregators import Aggregator, CommonK, ErrorFree, OverTheAir
from airfeel.aggregators.base import Air
from airfeel.channels import Channel, FadingMAC, GaussianMAC
from airfeel.config import SCHEMES, Config
from airfeel.learning import partitions
from airfeel.learning.datasets import Dataset, load_dataset
from airfeel.learning.devices import LocalTraining, Participation, shares, split
from airfeel.learning.server import Adam, GradientDescent, Optimizer, Schedule
from airfeel.learning.tasks import Samples, SoftmaxRegression, Task
from airfeel.operators import GaussianMatrix, PartialDCT
from airfeel.receivers.amp import AMP
from airfeel.receivers.base import Receiver
from airfeel.receivers.tsaga import TSAGA
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.transmit import EqualPower, LongTermPower, PowerPolicy

Array = NDArray[np.floating[Any]]
DataLike = str | Path | Dataset | Sequence[NDArray[Any]]


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
    aggregator: Aggregator
    optimizer: Optimizer
    server_rate: Schedule


def assemble(
    config: Config,
    task: Task | None = None,
    dataset: DataLike | None = None,
    channel: Channel | None = None,
) -> Parts:
    """Build the parts that ``config`` names; ``task``, ``dataset`` and ``channel`` replace its own."""
    source = find_data(config, dataset)
    task = make_task(config, source) if task is None else task
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
        aggregator=make_aggregator(config, channel or make_channel(config)),
        optimizer=make_optimizer(config),
        server_rate=_schedule(config, config.server.learning_rate),
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


def make_task(config: Config, source: Dataset) -> Task:
    """Return the model to be trained, fitted to the size of the images."""
    shape = source.train_images.shape[1:]
    if config.model.kind == "cnn":
        from airfeel.learning.torch_task import TorchTask, small_cnn

        return TorchTask(partial(small_cnn, source.classes, shape), device=config.model.device)
    return SoftmaxRegression(int(np.prod(shape)), source.classes, l2=config.model.l2)


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


def make_aggregator(config: Config, channel: Channel) -> Aggregator:
    """Return the scheme's way from the devices' gradients to the server's estimate."""
    scheme, uplink = SCHEMES[config.scheme], config.uplink
    if scheme.uplink == "none":
        return ErrorFree(uplink.sparsity)
    air = Air(channel, _policy(config))
    if scheme.uplink == "common_k":
        return CommonK(uplink.ratio, air)
    operator: Any = GaussianMatrix
    if scheme.matrix == "dct":
        operator = partial(PartialDCT, signs=uplink.signs, fast=uplink.fast)
    return OverTheAir(make_receiver(config), uplink.ratio, uplink.sparsity, air, operator)


def make_receiver(config: Config) -> Receiver[Any]:
    """Return what the server runs."""
    scheme, options = SCHEMES[config.scheme], config.receiver
    if scheme.receiver == "amp":
        return AMP(
            activity=options.activity,
            denoiser=scheme.denoiser,
            max_iterations=options.max_iterations,
            tolerance=options.tolerance,
        )
    if scheme.receiver == "turbo_cs":
        return TurboCS(
            activity=options.activity,
            max_iterations=options.max_iterations,
            tolerance=options.tolerance,
            precision=options.precision,
        )
    return TSAGA(
        **options.model_dump(), support_chain=scheme.support_chain, amplitude_chain=scheme.amplitude_chain
    )


def make_channel(config: Config) -> Channel:
    """Return the air between devices and server."""
    if config.channel.kind == "gaussian":
        return GaussianMAC(config.channel.noise_var)
    return FadingMAC(**config.channel.model_dump(exclude={"kind"}))


def make_optimizer(config: Config) -> Optimizer:
    """Return how the server turns x^ into an update."""
    return Adam() if config.server.optimizer == "adam" else GradientDescent(config.server.momentum)


def _policy(config: Config) -> PowerPolicy:
    power = config.uplink.power
    return EqualPower(power) if config.uplink.policy == "equal" else LongTermPower(power)


def _schedule(config: Config, rate: float) -> Schedule:
    server = config.server
    return Schedule(rate, server.schedule, server.schedule_every, server.schedule_factor)
