"""The sections of a configuration: every key, its default and the rule its values obey."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from airfeel.config import mistakes

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Counts = Annotated[
    int | tuple[int, ...],
    BeforeValidator(mistakes.counts),
    Field(json_schema_extra={"rule": "must be a whole number >= 1 or a list of them, one per device"}),
]


class Section(BaseModel):
    """A frozen table that refuses unknown keys, other types, nan and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Devices(Section):
    """The M devices and their local training (3)(4)."""

    count: Count = 25
    samples: Counts = 1000
    local_steps: Count = 1
    learning_rate: Positive = 0.01
    spread: NonNegative = 0.0
    batch_size: Count | None = None
    participation: Fraction = 1.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Partition(Section):
    """Which samples a device holds (Section VII)."""

    kind: Literal["iid", "classes", "dirichlet"] = "iid"
    classes: Count | None = None
    alpha: Positive | None = None


class Model(Section):
    """What is trained."""

    kind: Literal["softmax", "cnn"] = "softmax"
    l2: NonNegative = 0.0
    device: Annotated[str, Field(min_length=1)] = "cpu"


class Uplink(Section):
    """Sparsification (8)-(10), compression (11) and power (7)(12)."""

    ratio: Fraction = 0.1
    sparsity: Fraction = 0.2
    power: Positive = 500.0
    policy: Literal["equal", "long_term"] = "equal"
    signs: bool = False
    fast: bool = False


class Channel(Section):
    """The multiple-access channel (6), or one with fading and truncated inversion."""

    kind: Literal["gaussian", "fading"] = "gaussian"
    noise_var: NonNegative = 1.0
    threshold: Positive | None = None
    rician: NonNegative | None = None
    csi_error: NonNegative | None = None
    phase_error: NonNegative | None = None


class Receiver(Section):
    """Where the receiver's chain parameters start and how it works."""

    activity: Probability = 0.2
    p01: Fraction = 0.005
    beta: Fraction = 0.005
    learn: bool = True
    window: Annotated[int, Field(ge=2)] = 5
    learn_from: Count = 10
    amplitude_message: Literal["expansion", "moments", "joint"] = "expansion"
    max_iterations: Count = 25
    tolerance: NonNegative = 1e-2
    precision: Literal["float32", "float64"] = "float32"


class Server(Section):
    """The update of the global model (15)."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive = 0.01
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    schedule: Literal["constant", "step", "cosine", "inverse"] = "constant"
    schedule_every: Count = 100
    schedule_factor: Fraction = 0.1


class Run(Section):
    """How a run is carried out and what it keeps."""

    evaluate_every: Count = 1
    checkpoint_every: Count = 10
    threads: Count | None = None
    record_aggregates: bool = False
