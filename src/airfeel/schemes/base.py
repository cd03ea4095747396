"""What a scheme is: one object with a device half and a server half, joined by a plan.

Devices carry nothing from round to round but their error memory; whatever else they need is in the plan that
the server announces. So the same scheme runs in a simulation (all devices as rows of one array), inside a
federated-learning framework (one client at a time) and in somebody's own radio.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from airfeel.receivers.base import Estimate

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
Plan = Mapping[str, Any]  # small arrays, numbers and texts by name: goes into any message as it is
Shapes = Mapping[str, tuple[int, ...]]

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a scheme may know before the first round.

    ``symbols`` is s, the channel uses of a round; ``power`` P, ``noise_var`` sigma_e^2 where the channel has
    one; ``rounds`` the horizon. None stands for what is not known.
    """

    devices: int
    symbols: int
    power: float | None = None
    noise_var: float | None = None
    rounds: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What devices make of a round, one row each: the signal for the air, and what is not in it."""

    signal: Array
    remainder: Array


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """The weighted mean of the signals plus noise, whose variance is one number or one per symbol.

    Where nobody sent a symbol, the observation is zero and the variance infinite.
    """

    observation: Array
    noise_var: float | Array


@dataclass(frozen=True, slots=True)
class Spending:
    """What a round of digital messages costs: channel uses of all, and energy that must arrive from each."""

    channel_uses: int
    energy: float


class Scheme(Protocol[State]):
    """Four pure functions and a frozen state; the scheme itself is a frozen dataclass of its options.

    A complete scheme that sends the first s coordinates of every update:

    >>> @dataclass(frozen=True)
    ... class FirstOnes:
    ...     def init(self, shapes, setting):
    ...         return (size_of(shapes), setting.symbols)
    ...     def plan(self, state, seed, round):
    ...         return {"symbols": state[1]}
    ...     def encode(self, plan, accumulated):
    ...         remainder = accumulated.copy()
    ...         remainder[:, : plan["symbols"]] = 0
    ...         return Sent(accumulated[:, : plan["symbols"]], remainder)
    ...     def decode(self, state, plan, heard):
    ...         mean = np.zeros(state[0])
    ...         mean[: len(heard.observation)] = heard.observation
    ...         return Estimate(mean), state
    >>> scheme = FirstOnes()
    >>> state = scheme.init({"theta": (3,)}, Setting(devices=1, symbols=2))
    >>> sent = scheme.encode(scheme.plan(state, seed=0, round=1), np.array([[1.0, 2.0, 3.0]]))
    >>> sent.signal, sent.remainder
    (array([[1., 2.]]), array([[0., 0., 3.]]))

    Optional class attributes: ``uses_radio = False`` for a scheme whose signals reach the server without air,
    ``exact = True`` for one that recovers what left the devices where there is no noise, and ``revision``,
    raised whenever unchanged options give other results.

    An optional ``remember(plan, accumulated, sent, delivered)`` says that symbols are coordinates: it returns
    the error memories of some devices where ``delivered`` in [0, 1] differs from symbol to symbol, (rows, s).
    Without it symbols are mixtures, and who sent any has delivered everything. An optional
    ``takes(size, symbols)`` returns about how many bytes its server half needs, for the estimate of a run.

    An optional ``spends(plan)`` returns a :class:`Spending`: signals do not superpose, but reach the server
    one by one and free of error, from every device that can afford it (:meth:`airfeel.radio.air.Air.afford`).
    """

    def init(self, shapes: Shapes, setting: Setting) -> State:
        """Return what the server carries, before round 1; ``shapes`` are the model's tensors in order."""
        ...

    def plan(self, state: State, seed: int, round: int) -> Plan:
        """Return what the server announces before a round: seeds, coordinates, weights."""
        ...

    def encode(self, plan: Plan, accumulated: Array) -> Sent:
        """Device half: turn update plus memory, one row (N,) per device, into signals (rows, s)."""
        ...

    def decode(self, state: State, plan: Plan, heard: Heard) -> tuple[Estimate, State]:
        """Server half: recover the weighted mean of what left the devices from what was heard."""
        ...


def announced(plan: Plan) -> int:
    """Return how many numbers of 32 bits a plan tells every device; four characters of a text are one.

    >>> announced({"chosen": np.arange(5), "seed": 3, "layout": "784cx10c 10"})
    9
    """
    texts = sum(-(-len(value) // 4) for value in plan.values() if isinstance(value, str))
    return texts + sum(np.size(value) for value in plan.values() if not isinstance(value, str))


def size_of(shapes: Shapes) -> int:
    """Return N, the number of parameters in all tensors."""
    return sum(prod(shape) for shape in shapes.values())
