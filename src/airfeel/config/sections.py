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

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Devices(Section):
    """The M devices and their local training (3)(4)."""

    count: Count = 25
    """M"""
    samples: Counts = 1000
    """K_m, or a list with one number per device"""
    local_steps: Count = 1
    """E"""
    learning_rate: Positive = 0.01
    """eta"""
    spread: NonNegative = 0.0
    """standard deviation of log K_m around samples; 0: all alike"""
    batch_size: Count | None = None
    """samples per local step; unset: all of them"""
    participation: Fraction = 1.0
    """share of the devices that is selected in a round"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """probability that a selected device fails to send"""


class Partition(Section):
    """Which samples a device holds (Section VII)."""

    kind: Literal["iid", "classes", "dirichlet"] = "iid"
    """iid, classes or dirichlet"""
    classes: Count | None = None
    """chi, classes per device (kind = classes)"""
    alpha: Positive | None = None
    """concentration of the class shares (kind = dirichlet)"""


class Model(Section):
    """What is trained."""

    kind: Literal["softmax", "cnn"] = "softmax"
    """softmax, or cnn (needs PyTorch)"""
    l2: NonNegative = 0.0
    """weight of ||theta||^2 / 2 in the loss (softmax)"""
    device: Annotated[str, Field(min_length=1)] = "cpu"
    """where PyTorch computes"""


class Uplink(Section):
    """Sparsification (8)-(10), compression (11) and power (7)(12)."""

    ratio: Fraction = 0.1
    """s/N, channel uses per parameter"""
    sparsity: Fraction = 0.2
    """k/N, what a device keeps"""
    power: Positive = 500.0
    """P, energy per device and round"""
    policy: Literal["equal", "long_term"] = "equal"
    """equal, or long_term: spend what earlier rounds saved"""
    signs: bool = False
    """random signs in the DCT"""
    fast: bool = False
    """transform of a fast length"""


class Channel(Section):
    """The multiple-access channel (6), or one with fading and truncated inversion."""

    kind: Literal["gaussian", "fading"] = "gaussian"
    """gaussian or fading"""
    noise_var: NonNegative = 1.0
    """sigma_e^2"""
    threshold: Positive | None = None
    """h_min, weaker devices stay silent (fading)"""
    rician: NonNegative | None = None
    """line of sight over scattered power; 0: Rayleigh (fading)"""
    csi_error: NonNegative | None = None
    """variance of what devices misjudge of their gain (fading)"""
    phase_error: NonNegative | None = None
    """standard deviation of the residual phase (fading)"""


class Receiver(Section):
    """Where the receiver's chain parameters start and how it works."""

    activity: Probability = 0.2
    """lambda at the start"""
    p01: Fraction = 0.005
    """P(1 -> 0) at the start"""
    beta: Fraction = 0.005
    """forgetting of the amplitudes at the start"""
    learn: bool = True
    """learn the chains by EM"""
    window: Annotated[int, Field(ge=2)] = 5
    """rounds EM looks at"""
    learn_from: Count = 10
    """first round of EM"""
    amplitude_message: Literal["expansion", "moments", "joint"] = "expansion"
    """expansion (the paper's), moments or joint"""
    doubt: bool = False
    """doubt a prior that a round contradicts, which the paper does not"""
    max_iterations: Count = 25
    """of a round's decoder"""
    tolerance: NonNegative = 1e-2
    """relative change at which the decoder stops"""
    precision: Literal["float32", "float64"] = "float32"
    """float32 or float64 inside the receiver"""


class Server(Section):
    """The update of the global model (15)."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    """sgd or adam"""
    learning_rate: Positive = 0.01
    """eta of the update"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """heavy ball (sgd)"""
    schedule: Literal["constant", "step", "cosine", "inverse"] = "constant"
    """of both learning rates: constant, step, cosine or inverse"""
    schedule_every: Count = 100
    """rounds per step, or of the fall"""
    schedule_factor: Fraction = 0.1
    """what a step multiplies by, or where a cosine ends"""


class Run(Section):
    """How a run is carried out and what it keeps."""

    evaluate_every: Count = 1
    """rounds between evaluations"""
    checkpoint_every: Count = 10
    """rounds between checkpoints"""
    threads: Count | None = None
    """unset: one for each core"""
    record_aggregates: bool = False
    """keep the true aggregates for airfeel inspect"""
