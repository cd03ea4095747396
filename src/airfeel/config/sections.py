"""The sections of a configuration: the keys of every run, their defaults and the rules their values obey.

The options of the parts that are chosen come on top, see :mod:`airfeel.config.parts`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from airfeel.config import mistakes
from airfeel.ranges import Count, Fraction, NonNegative, Positive, RadioLevel, RateRule, Sizes
from airfeel.registry import CHANNELS, DATASETS, MODELS, OPTIMIZERS, PARTITIONS, POLICIES, SCHEMES, TRAININGS

Counts = Annotated[
    Count | Annotated[Sizes, Field(min_length=1)],
    Field(json_schema_extra={"rule": "must be a whole number >= 1 or a list of them, one per device"}),
]


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


class Section(BaseModel):
    """A frozen table that refuses unknown keys, other types, nan and infinity."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        """Take a number of NumPy for the number that it is."""
        if not isinstance(data, Mapping):
            return data
        return {key: item.item() if isinstance(item, np.generic) else item for key, item in data.items()}


class DeviceKeys(Section):
    """The M devices and their local training (3)(4)."""

    count: Count = 25
    """M, how many devices there are"""
    samples: Counts = 1000
    """K_m, or a list with one number per device"""
    training: str = TRAININGS.default
    """how a device trains in a round; airfeel list names them all; or package.module:Name"""
    learning_rate: Positive = 0.1
    """eta, the rate of local steps"""
    spread: Annotated[float, Field(ge=0, le=50)] = 0.0
    """standard deviation of log K_m around samples; 0: all alike"""
    schedule: RateRule | None = None
    """of the devices' rate alone; unset: server.schedule"""
    schedule_every: Count = 100
    """as server.schedule_every (with devices.schedule)"""
    schedule_factor: Fraction = 0.1
    """as server.schedule_factor (with devices.schedule)"""
    participation: Fraction = 1.0
    """share of the devices that is selected in a round"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """probability that a selected device fails to send"""


class PartitionKeys(Section):
    """Which samples a device holds (Section VII)."""

    kind: str = PARTITIONS.default
    """airfeel list names them all; or package.module:Name"""
    pool: Count | None = None
    """devices draw from the first so many training samples; unset: all, of MNIST and Fashion-MNIST 50,000"""


class ModelKeys(Section):
    """What is trained."""

    kind: str = MODELS.default
    """airfeel list names them all; or package.module:Name"""
    device: Annotated[str, Field(min_length=1)] = "cpu"
    """where PyTorch computes"""
    preset: bool = True
    """fill keys that are not given with values that train this model well"""


class UplinkKeys(Section):
    """How updates travel: bandwidth and power (7)(12), and the scheme's own options."""

    ratio: Fraction = 0.1
    """s/N, channel uses per parameter"""
    power: Positive | None = 500.0
    """P, energy per device and round"""
    policy: str = POLICIES.default
    """how devices share the power; airfeel list names them all; or package.module:Name"""


class ChannelKeys(Section):
    """The air."""

    kind: str = CHANNELS.default
    """airfeel list names them all; or package.module:Name"""


class RadioKeys(Section):
    """Hertz and watts in place of uplink.power and channel.noise_var."""

    bandwidth_hz: Positive | None = None
    """B, of the complex baseband: two real symbols per channel use"""
    tx_power_dbm: RadioLevel | None = None
    """of a device, in every round"""
    path_loss_db: RadioLevel | None = None
    """between device and server, antenna gains included"""
    noise_figure_db: RadioLevel | None = None
    """of the server's receiver; 7 where not given"""
    overhead: NonNegative | None = None
    """air time beyond the symbols': cyclic prefix, pilots, guards; 0.3 where not given"""
    downlink_bps_hz: Positive | None = None
    """net bits per second and hertz to every device; unset: what the weakest receives at its own power"""


class ReceiverKeys(Section):
    """How the scheme's receiver starts and works, for schemes that have one."""


class ServerKeys(Section):
    """The update of the global model (15)."""

    optimizer: str = OPTIMIZERS.default
    """airfeel list names them all; or package.module:Name"""
    learning_rate: Positive = 0.1
    """eta of the update"""
    schedule: RateRule = "constant"
    """of both learning rates: constant, step, cosine or inverse"""
    schedule_every: Count = 100
    """rounds per step, or of the fall"""
    schedule_factor: Fraction = 0.1
    """what a step multiplies by, or where a cosine ends"""


class RunKeys(Section):
    """How a run is carried out and what it keeps."""

    evaluate_every: Count = 1
    """rounds between evaluations"""
    checkpoint_every: Count = 10
    """rounds between checkpoints"""
    threads: Annotated[int, Field(ge=1, le=4096)] | None = None
    """unset: one for each core"""
    memory_map_above: Annotated[int, Field(ge=0, le=10**15)] = 2**28
    """bytes of all error memories above which they are kept in files, not in memory"""
    record_aggregates: bool = False
    """keep the true aggregates for airfeel inspect"""


class Keys(Section):
    """The keys of every configuration."""

    scheme: str = SCHEMES.default
    """airfeel list names them all; or package.module:Name"""
    dataset: Annotated[str, BeforeValidator(_text), Field(min_length=1)] = DATASETS.default
    """airfeel list names them all; or a folder, an npz file, or package.module:load"""
    rounds: Count = 300
    """T, rounds of training"""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """decides data, noise, rows and everything else that is random"""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)] | None = None
    """what to call the run; unset: the scheme"""
    devices: DeviceKeys = DeviceKeys()
    partition: PartitionKeys = PartitionKeys()
    model: ModelKeys = ModelKeys()
    uplink: UplinkKeys = UplinkKeys()
    channel: ChannelKeys = ChannelKeys()
    radio: RadioKeys = RadioKeys()
    receiver: ReceiverKeys = ReceiverKeys()
    server: ServerKeys = ServerKeys()
    run: RunKeys = RunKeys()


TABLES: dict[str, type[Section]] = {
    name: type(field.default) for name, field in Keys.model_fields.items() if mistakes.is_section(field)
}
SHARED = frozenset(mistakes.fields(Keys))
