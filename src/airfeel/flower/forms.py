"""A model as one vector, and the forms in which another one is told to somebody who has this one.

The vector has the parameters, or the coefficients in a basis of which a scheme changes few in a round. Both
sides make the same model of it: the same bytes, and the number by which they compare is that of the vector.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from airfeel.flower.state import Array, Arrays, Layout
from airfeel.schemes import basis
from airfeel.uplink import packing, rice
from airfeel.uplink.packing import Rounding

Vector = NDArray[np.float32]

FINEST = 2.0**-38  # of a power of 256 above the largest coefficient: so fine are coefficients counted


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a model is a vector in single precision: in its parameters, or in a ``basis``, a text."""

    layout: Layout
    basis: str = ""

    def __post_init__(self) -> None:
        """Refuse a basis that is not one of this model: the other side may name any."""
        sizes = [tensor.size for tensor in basis.read(self.basis)]
        if self.basis and sizes != [t.size for t in basis.choose(self.layout.shapes, "identity")]:
            raise ValueError(f"the basis {self.basis[:40]!r} is not one of this model")

    def vector(self, theta: Array) -> Vector:
        """Return the vector of parameters."""
        if not self.basis:
            return self.settled(theta)
        found = basis.forward(basis.read(self.basis), np.asarray(theta, np.float64)[None])[0]
        above = -(-int(np.frexp(np.abs(found).max(initial=1e-30))[1]) // 8) * 8
        step = FINEST * 2.0**above  # above the noise of double precision: what did not change stays the same
        return np.asarray(step * np.rint(found / step) + 0.0, np.float32)  # no zeros below zero

    def settled(self, vector: Array) -> Vector:
        """Return what is left of a vector in the types of the arrays by which it is told."""
        if all(t.dtype == "float32" for t in self.single.tensors if not t.exact):
            return np.asarray(vector, np.float32)
        nothing = {t.name: np.zeros(()) for t in self.layout.tensors if t.exact}
        return flat(self.layout, self.told(vector, nothing))

    def arrays(self, vector: Array, exact: Arrays) -> dict[str, NDArray[Any]]:
        """Return the model that a vector stands for."""
        if not self.basis:
            return self.layout.arrays(vector, exact)
        row = vector.astype(np.float64)[None]
        return self.layout.arrays(basis.backward(basis.read(self.basis), row)[0], exact)

    def told(self, vector: Array, exact: Arrays) -> dict[str, NDArray[Any]]:
        """Return the arrays by which a model is told and kept, in single precision where there is a basis."""
        return self.single.arrays(vector, exact)

    @property
    def single(self) -> Layout:
        """The layout of these arrays."""
        if not self.basis:
            return self.layout
        kept = (t if t.exact else replace(t, dtype="float32") for t in self.layout.tensors)
        return Layout(tuple(kept))

    def number(self, vector: Vector) -> int:
        """Return a number of 56 bits for a model, never 0: another model has another one."""
        found = hashlib.blake2b(repr((self.layout.tensors, self.basis)).encode(), digest_size=7)
        found.update(vector.astype("<f4", copy=False).data)
        return int.from_bytes(found.digest(), "big") or 1


class Form(Protocol):
    """A way to tell somebody who has one vector another one; ``names`` are those of the arrays it takes."""

    names: ClassVar[tuple[str, ...]]

    def write(self, had: Vector, wanted: Vector) -> dict[str, NDArray[Any]]:
        """Return the arrays of a message."""

    def read(self, message: Mapping[str, NDArray[Any]], had: Vector) -> Vector:
        """Return what they make of the vector that was had; refuse other arrays."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """The difference in few bits: nearer to what is wanted, and the rest is in the next difference."""

    rounding: Rounding
    names: ClassVar[tuple[str, ...]] = ("difference",)

    def write(self, had: Vector, wanted: Vector) -> dict[str, NDArray[Any]]:
        """Return the difference, rounded."""
        return {"difference": self.rounding.write(wanted - had)}

    def read(self, message: Mapping[str, NDArray[Any]], had: Vector) -> Vector:
        """Add the difference."""
        return had + self.rounding.read(message["difference"], len(had))


@dataclass(frozen=True, slots=True)
class Changed:
    """The numbers that are others, and where they stand: exactly what is wanted.

    After missed rounds these are all that changed in any of them, with their newest values.
    """

    names: ClassVar[tuple[str, ...]] = ("places", "values")

    def write(self, had: Vector, wanted: Vector) -> dict[str, NDArray[Any]]:
        """Return places in a code, and values."""
        places = np.flatnonzero(had.view(np.uint32) != wanted.view(np.uint32))
        return {"places": rice.write(rice.gaps(places)), "values": wanted[places]}

    def read(self, message: Mapping[str, NDArray[Any]], had: Vector) -> Vector:
        """Put the values in their places."""
        places = rice.places_of(rice.read(message["places"], most=len(had)))
        if len(places) and not 0 <= places.min() <= places.max() < len(had):
            raise ValueError(f"the model has {len(had)} numbers, and another one is told")
        found = had.copy()
        found[places] = packing.require(message["values"], np.float32, (len(places),))
        return found


def flat(layout: Layout, arrays: Arrays) -> Vector:
    """Return the arrays that are not exact as one vector in single precision."""
    parts = (arrays[t.name].reshape(-1).astype(np.float32) for t in layout.tensors if not t.exact)
    return np.concatenate([np.zeros(0, np.float32), *parts])
