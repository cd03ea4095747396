"""From what a user gives to the parts of a run: data on the devices, task, scheme, server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airfeel import _checks, storage
from airfeel.config import Config, ConfigLike, build_config, opened
from airfeel.config.sections import DeviceKeys, ServerKeys
from airfeel.learning.datasets import Dataset, load_dataset
from airfeel.learning.models import ModelLike, fitted
from airfeel.learning.optimizers import Optimizer, Schedule
from airfeel.learning.partitions import Partition, PartitionRule, overlap, unequal_sizes
from airfeel.learning.tasks import DataShape, Samples, Task
from airfeel.learning.training import LocalTraining, Participation, shares, split
from airfeel.radio.link import Channel
from airfeel.radio.units import RadioUnits
from airfeel.registry import CHANNELS, SCHEMES
from airfeel.simulation.memory import RunMemory, require_memory, shapes_of
from airfeel.units import count, decibel
from airfeel.uplink.arrive import Radio
from airfeel.uplink.memory import Allocate
from airfeel.uplink.scheme import Array, Scheme, Setting, Shapes, require_no_momentum

DataLike = str | Path | Dataset | Sequence[Any]  # four arrays, or a pair of map-style data sets


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """Parts of a user's own that take the place of what a configuration names."""

    scheme: Scheme[Any] | None = None
    task: ModelLike | None = None
    dataset: DataLike | None = None
    channel: Channel | None = None

    def __post_init__(self) -> None:
        """Make objects of classes, and refuse what is no such part; of a task the data must tell."""
        for name, registry in (("scheme", SCHEMES), ("channel", CHANNELS)):
            if (part := getattr(self, name)) is not None:
                object.__setattr__(self, name, registry.given(part))


def given(
    config: ConfigLike | None,
    scheme: str | Scheme[Any] | None,
    task: str | ModelLike | None,
    dataset: DataLike | None,
    channel: str | Mapping[str, Any] | Channel | None,
    keys: Mapping[str, Any],
) -> tuple[Config, Own]:
    """Return what people write as a configuration and parts of their own.

    A name, a path or a table is a key of the configuration, as all of ``keys`` are; they win over ``config``.
    """
    found: dict[str, Any] = {"scheme": scheme, "model.kind": task, "dataset": dataset, "channel": channel}
    by_name = {key: part for key, part in found.items() if isinstance(part, str | Path | Mapping)}
    own = Own(*(None if key in by_name else part for key, part in found.items()))
    if isinstance(config, Config) and not keys and not by_name:
        return config, own
    tree, source = opened(config)
    return build_config(tree, {**keys, **by_name}, source, by="keyword"), own


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
    air: Radio
    optimizer: Optimizer
    server_rate: Schedule
    units: RadioUnits | None = None
    """The radio in hertz and watts, where the configuration has one and the scheme uses it."""
    budget: str = ""
    """What a device may spend in a round, in words."""
    about: tuple[str, ...] = ()
    """Sentences about the data and who holds it."""
    allocate: Allocate | None = None
    """Where the memories after the next round go; None: into memory."""
    needs: RunMemory | None = None
    """How much memory and disk the run takes."""

    @property
    def shapes(self) -> Shapes:
        """The model's tensors in the order of the flat vector."""
        return shapes_of(self.task)

    @property
    def changes_what_is_sent(self) -> bool:
        """Whether a round changes only as many numbers as it sent symbols, known to everybody by the plan."""
        scheme = self.scheme
        return scheme.exact and scheme.common_support and getattr(self.optimizer, "momentum", None) == 0

    @property
    def setting(self) -> Setting:
        """What the scheme may know before the first round."""
        config = self.config
        return Setting(
            devices=len(self.data),
            symbols=count(config.uplink.ratio, self.task.size),
            power=self.air.policy.power,
            noise_var=getattr(self.air.channel, "noise_var", None),
            rounds=config.rounds,
            computing=self.participation.computing(len(self.data)),
        )


def assemble(config: Config, own: Own = Own()) -> Parts:  # noqa: B008  (frozen)
    """Build the parts that ``config`` names; those of ``own`` replace them."""
    scheme = config.part("scheme") if own.scheme is None else own.scheme
    optimizer = config.part("optimizer")
    check_server(config, scheme, optimizer)
    source = find_data(config, own.dataset)
    task = make_task(config, source, own.task)
    needs = require_memory(config, task, source, scheme)
    held = make_partition(config, source)
    channel = config.part("channel") if own.channel is None else own.channel
    units = make_units(config, channel)
    symbols = count(config.uplink.ratio, task.size)
    power = energy(config, symbols, units)
    data = [task.prepare(source.train_inputs[part], source.train_labels[part]) for part in held]
    return Parts(
        config=config,
        task=task,
        data=data,
        test=split(task, source.test_inputs, source.test_labels),
        weights=shares(data),
        training=config.part("training"),
        participation=make_participation(config),
        # The rate of the devices falls as the server's does, unless they have their own rule.
        local_rate=_schedule(
            config.server if config.devices.schedule is None else config.devices, config.devices.learning_rate
        ),
        scheme=scheme,
        air=Radio(channel, config.part("policy", power=power), None if units is None else units.snr),
        optimizer=optimizer,
        server_rate=_schedule(config.server, config.server.learning_rate),
        units=units if scheme.uses_radio else None,
        about=(source.describe(), overlap(held)),
        budget=describe_link(power, symbols, channel, units) if scheme.uses_radio else "",
        allocate=storage.temporary_map if needs.disk else None,
        needs=needs,
    )


def check_server(config: Config, scheme: Scheme[Any], optimizer: Optimizer) -> None:
    """Refuse a server's momentum that the scheme does not bear."""
    given = "server.momentum", getattr(optimizer, "momentum", 0)
    require_no_momentum(scheme, config.uplink.ratio, *given, "set devices.momentum")


def find_data(config: Config, dataset: DataLike | None = None) -> Dataset:
    """Return the configured data set, or the one that is given in its place."""
    return load_dataset(config.dataset if dataset is None else dataset)


def make_task(config: Config, data: DataShape, own: ModelLike | None = None) -> Task:
    """Return the model to be trained, fitted to the data: the configured one, or a user's own."""
    model: ModelLike = config.part("model") if own is None else own
    name = config.model.kind if own is None else getattr(own, "__qualname__", type(own).__qualname__)
    return fitted(model, data, name, config.model.device)


def make_partition(config: Config, source: Dataset) -> Partition:
    """Return which samples each device holds."""
    devices, rule = config.devices, config.chosen["partition"]
    if getattr(rule.kind, "by_class", False) and not source.one_class_each:
        what = "targets of regression" if source.classes is None else "labels with several classes per sample"
        wrong = f"must be 'iid' for {what}: devices differ in classes only where each sample has one"
        raise _checks.reject(rule.key, rule.name, wrong)
    pool = source.pool_size(config.partition.pool)
    listed = devices.samples if isinstance(devices.samples, tuple) else (devices.samples,)
    if max(listed) > pool:
        wrong = f"must be at most {pool}, the number of samples the devices draw from"
        raise _checks.reject("devices.samples", max(listed), wrong)
    sizes = sample_counts(config, pool)
    made: PartitionRule = config.part("partition")
    return made.draw(source.train_labels, sizes, config.seed, pool)


def sample_counts(config: Config, pool: int | None) -> Sequence[int]:
    """Return how many samples each device holds, at most a pool."""
    devices = config.devices
    if isinstance(devices.samples, tuple):
        return devices.samples
    if devices.spread:
        return unequal_sizes(devices.count, devices.samples, devices.spread, config.seed, pool)
    return (devices.samples,) * devices.count


def make_participation(config: Config) -> Participation:
    """Return who takes part in a round."""
    return Participation(config.devices.participation, config.devices.dropout)


def make_units(config: Config, channel: Channel) -> RadioUnits | None:
    """Return the radio in hertz and watts; None for a configuration in the units of the paper."""
    given: dict[str, float] = config.radio.model_dump(exclude_none=True)
    if not given:
        return None
    if "path_loss_db" not in given:  # the channel has its own, or the configuration would not have passed
        given["path_loss_db"] = channel.reference_loss_db  # type: ignore[attr-defined]
    return RadioUnits(**given)


def energy(config: Config, symbols: int, units: RadioUnits | None = None) -> float:
    """Return P, the energy that a device may spend in a round of so many symbols.

    ``units`` are those of the configuration, where they are known already.
    """
    if units is None and config.uplink.power is None:
        units = make_units(config, config.part("channel"))
    if units is not None:
        return units.power(symbols)
    assert config.uplink.power is not None  # only a table [radio] takes its place
    return config.uplink.power


def describe_link(power: float, symbols: int, channel: Channel, units: RadioUnits | None) -> str:
    """Return a sentence about what a device may spend in a round."""
    noise_var = getattr(channel, "noise_var", None) or 1.0
    level = f"the SNR of a device is {decibel(power / (symbols * noise_var)):.1f} dB per symbol"
    if units is None:
        return f"{level} (P = {power:g} in {symbols} symbols)"
    seconds, spent = units.air_seconds(symbols), units.joules(power)
    return f"{level}; a round takes {seconds:.3g} s on air and a device at most {spent:.3g} J"


def _schedule(rule: DeviceKeys | ServerKeys, rate: float) -> Schedule:
    return Schedule(rate, rule.schedule or "constant", rule.schedule_every, rule.schedule_factor)
