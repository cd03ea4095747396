"""What a scheme is: one object with a device half and a server half, joined by a plan.

What a device carries belongs to the scheme: arrays by name, one row per device, or none. Whatever else it
needs is in the plan. So the same scheme runs in a simulation (all devices as rows of one array), inside a
federated-learning framework (one client at a time) and in somebody's own radio.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.arrays import Array as Array
from airfeel.arrays import Mask as Mask
from airfeel.ranges import require
from airfeel.receivers.base import Estimate
from airfeel.uplink import packing

Plan = Mapping[str, Any]  # small arrays, numbers and texts by name: goes into any message as it is
Shapes = Mapping[str, tuple[int, ...]]
Memory = Mapping[str, NDArray[Any]]  # of any width and type

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a scheme may know before the first round.

    ``symbols`` is s, the channel uses of a round; ``power`` P, ``noise_var`` sigma_e^2 where the channel has
    one; ``rounds`` the horizon. None stands for what is not known; ``computing``, how many of the devices
    compute in a round, for all of them.
    """

    devices: int
    symbols: int
    power: float | None = None
    noise_var: float | None = None
    rounds: int | None = None
    computing: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What devices make of a round, one row each: the signal for the air, and what :meth:`settle` needs.

    ``remainder`` is what the signal does not contain. ``payload`` is what it stands for, (rows, N), where
    symbols are mixtures from which ``decode`` cannot find that even without noise: the records measure the
    estimate against its weighted mean. ``message`` is the signal as a scheme of bits puts it into messages.
    """

    signal: Array
    remainder: Any = None
    payload: Array | None = None
    message: Any = None

    def __post_init__(self) -> None:
        """Refuse what complex updates become."""
        if np.iscomplexobj(self.signal):
            rule = "updates must be real, such as the real and the imaginary parts side by side"
            raise ValueError(f"signal is complex: {rule}")


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """The weighted mean of the signals plus noise, whose variance is one number or one per symbol.

    The mean is over the weight of all that computed; ``share`` is the part of that weight which was heard,
    one number or one per symbol, with a device that sent at less than its full strength counted as much
    less. ``computed`` is the weight that computed over the weight of all devices. Where nobody sent a symbol,
    the observation is zero and the variance infinite. Where signals arrive one by one, ``each`` says what
    part of the share is whose, one number per row.
    """

    observation: Array
    noise_var: float | Array
    share: float | Array = 1.0
    computed: float = 1.0
    each: Array | None = None

    def __post_init__(self) -> None:
        """Refuse complex samples: each carries two symbols."""
        if np.iscomplexobj(self.observation):
            rule = "must be real symbols, of each complex sample the real part and then the imaginary one"
            raise ValueError(f"observation is complex: {rule}")

    @property
    def silent(self) -> bool:
        """Whether nobody was heard."""
        return not np.any(self.share)


@dataclass(frozen=True, slots=True)
class Spending:
    """What a round of digital messages costs: channel uses of all, and energy that must arrive from each."""

    channel_uses: int
    energy: float


class Scheme(ABC, Generic[State]):
    """Pure functions of a frozen state and of named rows; a scheme is a frozen dataclass of its options.

    Most schemes keep what they could not send in an error memory, and derive from :class:`ErrorFeedback`.
    This one keeps nothing, and sends the first s coordinates of every update:

    >>> @dataclass(frozen=True)
    ... class FirstOnes(Scheme):
    ...     def init(self, shapes, setting):
    ...         return (size_of(shapes), setting.symbols)
    ...     def plan(self, state, seed, round):
    ...         return {"symbols": state[1]}
    ...     def encode(self, plan, memory, update):
    ...         return Sent(update[:, : plan["symbols"]])
    ...     def decode(self, state, plan, heard):
    ...         mean = np.zeros(state[0])
    ...         mean[: len(heard.observation)] = heard.observation
    ...         return Estimate(mean), state
    >>> scheme = FirstOnes()
    >>> state = scheme.init({"theta": (3,)}, Setting(devices=1, symbols=2))
    >>> scheme.encode(scheme.plan(state, seed=0, round=1), {}, np.array([[1.0, 2.0, 3.0]])).signal
    array([[1., 2.]])

    Class attributes say what carriers may rely on; besides these there is ``revision``, raised whenever
    unchanged options give other results.
    """

    uses_radio: ClassVar[bool] = True
    """Signals go through the air; else they reach the server without it."""
    counts_symbols: ClassVar[bool] = False
    """Without the air too, s says how much a device sends."""
    superposes: ClassVar[bool] = True
    """Signals add up in the air; else they arrive one by one and free of error (:meth:`spends`)."""
    exact: ClassVar[bool] = False
    """Without noise, the server finds what left the devices."""
    linear: ClassVar[bool] = False
    """A signal is a linear function of memory and update, given the plan."""
    common_support: ClassVar[bool] = False
    """All devices tell the same s numbers of what they have, given the plan."""
    symbols_are_coordinates: ClassVar[bool] = False
    """A symbol that a device leaves out can stay with it: :meth:`settle` takes deliveries per symbol. Else
    symbols are mixtures, and who sent any has delivered everything."""
    stateless: ClassVar[bool] = True
    """A device carries nothing from round to round."""
    in_lumps: ClassVar[bool] = False
    """A number arrives for all rounds that it waited at once, which momentum at the server does not bear."""
    leads: ClassVar[bool] = False
    """One device adds to the plan before the others send (:meth:`lead`)."""
    splits: ClassVar[bool] = False
    """Devices share the work: the plan also tells them their places among those asked (:func:`placed`)."""

    def __post_init__(self) -> None:
        """Refuse options outside the ranges that their types declare."""
        require(self)

    @abstractmethod
    def init(self, shapes: Shapes, setting: Setting) -> State:
        """Return what the server carries, before round 1; ``shapes`` are the model's tensors in order."""

    def memory(self, shapes: Shapes) -> Memory:
        """Return what one device carries before its first round: rows by name."""
        return {}

    @abstractmethod
    def plan(self, state: State, seed: int, round: int) -> Plan:
        """Return what the server announces before a round: seeds, coordinates, weights."""

    def lead(self, plan: Plan, memory: Memory, update: Array) -> Plan:
        """Return what one device, whose turn it is, changes in the plan for all; free of error."""
        return {}

    @abstractmethod
    def encode(self, plan: Plan, memory: Memory, update: Array) -> Sent:
        """Device half: turn memory and update, one row per device that computes, into signals (rows, s)."""

    def settle(self, plan: Plan, memory: Memory, update: Array, sent: Sent, delivered: Array) -> Memory:
        """Return the next memories of these devices, when it is known what was delivered.

        ``delivered`` in [0, 1] is the part of a device's signal that arrived, (rows,); or of each symbol,
        (rows, s), where symbols are coordinates. Devices that do not compute keep theirs unseen.
        """
        return memory

    @abstractmethod
    def decode(self, state: State, plan: Plan, heard: Heard) -> tuple[Estimate, State]:
        """Server half: recover the weighted mean of what left the devices from what was heard.

        Called in every round: where nobody was heard, with an observation of zeros and infinite noise.
        """

    def width(self, plan: Plan, memory: Memory, size: int) -> int:
        """Return s, the length of a signal under this plan, given the rows of any one device."""
        return int(self.encode(plan, memory, np.zeros((1, size), np.float32)).signal.shape[1])

    def basis_of(self, state: State) -> str:
        """Return the basis in which few numbers of a model change in a round, as a text; "" for none."""
        return ""

    def spends(self, plan: Plan) -> Spending:
        """Return what a round costs where signals do not superpose."""
        raise ValueError(f"{type(self).__name__} must have spends(plan), as its signals do not superpose")

    def pack(self, sent: Sent) -> dict[str, NDArray[Any]]:
        """Return the signal of one device as the arrays that travel in a message."""
        return packing.pack(np.asarray(sent.signal[0], np.float32))

    def message(self, plan: Plan, update: Array) -> dict[str, NDArray[Any]]:
        """Return the message of one device that carries nothing, where it need not know the signal."""
        return self.pack(self.encode(plan, {}, update))

    def unpack(self, plan: Plan, arrays: packing.Arrays, length: int) -> NDArray[np.float32]:
        """Undo :meth:`pack`, given the plan as this device had it; refuse what it cannot have sent."""
        return packing.unpack(arrays, length)

    def takes(self, size: int, symbols: int) -> float:
        """Return about how many bytes the server half needs, for the estimate of a run."""
        return 0.0


class ErrorFeedback(Scheme[State]):
    """The ordinary rule for memories: what was not delivered is added to the next update.

    A subclass writes ``init``, ``plan``, ``compress`` and ``decode``. If the device was heard, ``remainder``
    becomes its error memory; if not, it keeps everything.
    """

    stateless: ClassVar[bool] = False

    @abstractmethod
    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Turn update plus memory, one row (N,) per device, into signals (rows, s) and remainders."""

    def remember(self, plan: Plan, accumulated: Array, sent: Sent, delivered: Array) -> Array:
        """Return the error memories where symbols are coordinates, and deliveries (rows, s) differ."""
        form = "remember(plan, accumulated, sent, delivered)"
        raise ValueError(f"{type(self).__name__} must have {form}, as its symbols are coordinates")

    def memory(self, shapes: Shapes) -> Memory:
        """Start empty, in single precision: memories take on that of the updates in the first round."""
        return {"error": np.zeros(size_of(shapes), np.float32)}

    def encode(self, plan: Plan, memory: Memory, update: Array) -> Sent:
        """Compress e_m = g_m + Delta_m (8)."""
        return self.compress(plan, _accumulated(memory, update))

    def settle(self, plan: Plan, memory: Memory, update: Array, sent: Sent, delivered: Array) -> Memory:
        """Keep the remainder if heard, everything if not, and of what was delivered in part the rest."""
        remainder = sent.remainder
        if remainder is None:
            raise ValueError(f"{type(self).__name__}.compress must return a remainder with the signal")
        if delivered.ndim == 1 and (delivered == 1).all():
            return {"error": remainder}
        accumulated = _accumulated(memory, update)
        if delivered.ndim == 2:
            kept = self.remember(plan, accumulated, sent, delivered)
            return {"error": np.where((delivered > 0).any(axis=1, keepdims=True), kept, accumulated)}
        kept = np.where(delivered[:, None] != 0, remainder, accumulated)
        part = (delivered > 0) & (delivered < 1)
        if part.any():
            missed = (1 - delivered[part, None]).astype(accumulated.dtype)
            kept[part] += missed * (accumulated[part] - remainder[part])
        return {"error": kept}


def _accumulated(memory: Memory, update: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        accumulated: Array = memory["error"] + update
    return accumulated


def placed(scheme: Scheme[Any], plan: Plan, places: Sequence[int] | NDArray[np.intp], asked: int) -> Plan:
    """Return the plan for devices at such places, one per row, among so many that were asked in this round.

    It is what ``encode`` and ``unpack`` get, and for all rows ``decode``. Only a scheme that splits the work
    is told: its plan has the entries ``places``, from 0 on, and ``asked``.
    """
    return {**plan, "places": np.asarray(places, np.intp), "asked": asked} if scheme.splits else plan


def announced(plan: Plan) -> int:
    """Return how many numbers of 32 bits a plan tells every device; four characters of a text are one.

    >>> announced({"chosen": np.arange(5), "seed": 3, "layout": "784cx10c 10"})
    9
    """
    texts = sum(-(-len(value) // 4) for value in plan.values() if isinstance(value, str))
    return texts + sum(np.size(value) for value in plan.values() if not isinstance(value, str))


def everywhere(row: Memory, devices: int) -> Memory:
    """Return the rows of so many devices that all carry the same, without taking memory for them."""
    return {name: np.broadcast_to(part, (devices, *np.shape(part))) for name, part in row.items()}


def require_no_momentum(scheme: Scheme[Any], ratio: float, name: str, momentum: float, instead: str) -> None:
    """Refuse a server that goes on in the direction of lumps: what stands for L rounds would count again."""
    if momentum and scheme.in_lumps and ratio < 1:
        why = f"with {type(scheme).__name__} a number stands for all rounds that it waited, and the server"
        rule = f"{why} would go on in its direction, which ruins training; {instead} instead"
        raise _checks.reject(name, momentum, rule)


def size_of(shapes: Shapes) -> int:
    """Return N, the number of parameters in all tensors."""
    return sum(prod(shape) for shape in shapes.values())
