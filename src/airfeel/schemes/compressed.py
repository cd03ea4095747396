"""What TSA-GA, Turbo-CS and A-DSGD share: sparsify (8)-(10), compress (11), recover from y = A x + n."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.sparse.linalg import LinearOperator

from airfeel.operators import GaussianMatrix, PartialDCT
from airfeel.ranges import Count, Fraction, NonNegative, Probability, Several
from airfeel.receivers.base import Estimate, Receiver, Reception
from airfeel.registry import option
from airfeel.schemes.sparsification import top_k
from airfeel.streams import derived
from airfeel.units import count
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes, size_of


def expect_what_is_kept(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return lambda = k/N, the activity that a receiver starts from where none is given."""
    return {"activity": min(float(given["sparsity"]), 0.99)}


@dataclass(frozen=True, slots=True, eq=False)
class CompressedState:
    """What the server carries: N, s and the receiver's own state."""

    size: int
    symbols: int
    receiver: Any


@dataclass(frozen=True)
class Compressed(ErrorFeedback[CompressedState]):
    """Sparsify, compress with a matrix drawn anew in each round, recover with a receiver.

    A subclass says which receiver (:meth:`receiver`), and perhaps another matrix (:meth:`operator`) than the
    partial DCT.
    """

    sparsity: Fraction = option(0.2, "k/N, what a device keeps")

    def operator(self, size: int, symbols: int, seed: int) -> LinearOperator:
        """Return A of a round: s rows of the DCT."""
        return partial_dct(size, symbols, seed)

    def receiver(self) -> Receiver[Any]:
        """Return what the server runs."""
        raise TypeError(f"{type(self).__name__} must have a method receiver() that returns a receiver")

    def takes(self, size: int, symbols: int) -> float:
        """Return about how many bytes operator and receiver take: some vectors of N."""
        return 100.0 * size

    def init(self, shapes: Shapes, setting: Setting) -> CompressedState:
        """Start with a receiver that knows nothing."""
        size = size_of(shapes)
        return CompressedState(size, setting.symbols, self.receiver().init(size))

    def plan(self, state: CompressedState, seed: int, round: int) -> Plan:
        """Announce the seed of the round's matrix and its number of rows."""
        return {"seed": shared_seed(seed, round), "symbols": state.symbols}

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Keep the k largest entries of each row and compress them (8)-(11)."""
        size = accumulated.shape[1]
        kept, remainder = top_k(accumulated, count(self.sparsity, size))
        operator = self.operator(size, plan["symbols"], plan["seed"])
        return Sent(np.asarray(operator @ kept.T).T, remainder, payload=kept)

    def decode(self, state: CompressedState, plan: Plan, heard: Heard) -> tuple[Estimate, CompressedState]:
        """Recover x from y = A x + n and whatever the receiver remembers."""
        if heard.silent:
            return Estimate(np.zeros(state.size)), state
        operator = self.operator(state.size, plan["symbols"], plan["seed"])
        reception = heard_by_all(heard, operator)
        estimate, receiver = self.receiver().receive(state.receiver, reception)
        return estimate, replace(state, receiver=receiver)


@dataclass(frozen=True)
class TurboDecoded(Compressed):
    """A partial DCT, and a turbo decoder at the server: what TSA-GA and memoryless Turbo-CS share."""

    signs: bool = option(False, "random signs in the DCT")
    fast: bool = option(False, "transform of a fast length")
    block: Several | None = option(
        None, "cut a large model into blocks of at most so many coefficients; unset: one transform"
    )
    activity: Probability = option(0.2, "lambda at the start; k/N where it is not given", section="receiver")
    max_iterations: Count = option(25, "of a round's decoder", section="receiver")
    tolerance: NonNegative = option(
        0.005, "relative change of the noise level tau at which the decoder stops", section="receiver"
    )
    precision: Literal["float32", "float64"] = option(
        "float32", "float32 or float64 inside the receiver", section="receiver"
    )

    complete = staticmethod(expect_what_is_kept)

    def operator(self, size: int, symbols: int, seed: int) -> LinearOperator:
        """Return s rows of the DCT."""
        return partial_dct(size, symbols, seed, signs=self.signs, fast=self.fast, block=self.block)


def built(receiver: type[Any], scheme: Any) -> Receiver[Any]:
    """Return a receiver with the scheme's options, which are called as its own are."""
    names = [field.name for field in fields(receiver) if hasattr(scheme, field.name)]
    made: Receiver[Any] = receiver(**{name: getattr(scheme, name) for name in names})
    return made


def heard_by_all(heard: Heard, operator: LinearOperator) -> Reception:
    """Return a reception without the symbols that nobody sent, whose noise is infinite.

    A block of a transform keeps a symbol that says nothing rather than none; so does anybody's own operator.
    """
    silent = np.isinf(heard.noise_var)
    if not np.any(silent):
        return Reception(heard.observation, operator, heard.noise_var)
    noise_var, kept = np.where(silent, np.finfo(np.float64).max, heard.noise_var), ~silent
    if not isinstance(operator, PartialDCT) or not operator.covered_by(kept):
        return Reception(heard.observation, operator, noise_var)
    left = noise_var[kept]
    equal = bool((left == left[0]).all())
    return Reception(heard.observation[kept], operator.only(kept), float(left[0]) if equal else left)


def shared_seed(seed: int, round: int) -> int:
    """Return the seed of a round's matrix, known to devices and server."""
    return derived(seed, "operator", round)


# Both halves of a round ask for the same matrix, and drawing it takes time.
partial_dct = lru_cache(maxsize=1)(PartialDCT)
gaussian_matrix = lru_cache(maxsize=1)(GaussianMatrix)
