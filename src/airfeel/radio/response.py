"""Responses measured or computed elsewhere: a complex gain for every round, device and element."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks, _files
from airfeel.radio.channels import Complex, Offsets, audible, misjudged, strength
from airfeel.radio.link import Array, Link, elements_of
from airfeel.ranges import Decibels, NonNegative, Positive
from airfeel.registry import CHANNELS, option
from airfeel.units import decibel, from_decibel

NAME = "responses"  # of the array in a file that holds several


@CHANNELS.register("response", place=40)
@dataclass(frozen=True, slots=True, eq=False)
class Response(Offsets):
    """Complex responses from a file, an array or a function, truncated inversion in every element.

    An element (a resource element of OFDM, say) carries two symbols, in phase and in quadrature. A round
    takes the next of the recorded rounds, and after the last one the first again; where it needs more
    elements than were recorded, they are used again from the first on. A device is silent in the elements
    whose gain it holds for too weak, and inverts the others.

    ``source`` is the path of an ``.npz`` file with one array, or with one named ``responses``; or such an
    array (rounds, devices, elements); or a function of (num_devices, elements, seed, round) that returns the
    responses (devices, elements) of a round. Recorded gains are meant as power received over power sent; P
    arrives from ``reference_db``, by default the mean over the devices of their loss in decibel (of a
    function's responses: 0). ``threshold`` and ``csi_error`` are shares of a device's mean in the round, the
    one of its root mean square and the other of its power.
    """

    takes: ClassVar[float] = 40.0
    reads: ClassVar[tuple[str, ...]] = ("source",)  # names a file, whose content belongs to a run

    source: Any = option(None, "npz file of responses: rounds x devices x elements")
    reference_db: Decibels | None = option(None, "path loss from which P arrives; unset: the devices' mean")
    equalise: bool = option(False, "divide by each device's mean gain")
    threshold: Positive = option(0.3, "h_min over a device's mean; weaker elements stay silent")
    csi_error: NonNegative = option(0.0, "variance of what devices misjudge of their gain, over its mean")

    def __post_init__(self) -> None:
        """Refuse what are no responses."""
        Offsets.__post_init__(self)
        if not isinstance(self.source, str | np.ndarray) and not callable(self.source):
            rule = "must be the path of an npz file, an array (rounds, devices, elements), or a function"
            raise _checks.reject("source", self.source, rule)
        if callable(self.source) and self.equalise:
            raise _checks.reject("equalise", True, "must be false where a function gives the responses")
        if isinstance(self.source, np.ndarray):
            _checked(self.source, "source")

    @property
    def reference_loss_db(self) -> float:
        """The path loss from which P arrives."""
        if self.reference_db is None and not callable(self.source) and not self.equalise:
            return -float(np.mean(decibel(self.path_gains())))
        return self.reference_db or 0.0

    def path_gains(self, num_devices: int | None = None, seed: int = 0) -> Array:
        """Return the mean power gain of every recorded device, over rounds and elements."""
        if callable(self.source):
            raise _checks.reject("source", self.source, "has no mean gains: a function draws round by round")
        return self._recorded()[1][:num_devices]

    def responses(self, num_devices: int, elements: int, seed: int, round: int) -> Complex:
        """Return the true responses of a round, (M, elements), as they were recorded."""
        if callable(self.source):
            found = np.asarray(self.source(num_devices, elements, seed, round))
            if found.shape != (num_devices, elements) or not np.isfinite(found).all():
                rule = f"must return finite responses of shape {(num_devices, elements)}, not {found.shape}"
                raise _checks.reject("source", self.source, rule)
            return found.astype(np.complex128)
        recorded, gains = self._recorded()
        if recorded.shape[1] < num_devices:
            rule = f"has responses of {recorded.shape[1]} devices, and there are {num_devices}"
            raise _checks.reject("source", self.source if isinstance(self.source, str) else "array", rule)
        part = recorded[(round - 1) % len(recorded), :num_devices].astype(np.complex128)
        part = part[:, np.arange(elements) % part.shape[1]]
        return part / np.sqrt(gains[:num_devices])[:, None] if self.equalise else part

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Read the responses, draw what the devices know of them, and invert element by element."""
        gain = self.responses(num_devices, elements_of(symbols), seed, round)
        level = strength(gain)
        known = misjudged(gain, self.csi_error, seed, round, level)
        path = 1 / from_decibel(-self.reference_loss_db)
        return self.inverted(gain, known, audible(known, self.threshold, level), symbols, seed, round, path)

    def _recorded(self) -> tuple[NDArray[Any], Array]:
        """Return recorded responses and their mean gains; a file is read once for each version of it."""
        if not isinstance(self.source, str):
            return self.source, _mean_gains(self.source)
        try:
            return _read(self.source, _files.version(self.source))
        except OSError as error:
            raise _checks.reject("source", self.source, str(error.strerror).lower()) from None


def _mean_gains(responses: NDArray[Any]) -> Array:
    return np.asarray(np.mean(np.abs(responses) ** 2, axis=(0, 2), dtype=np.float64))


@lru_cache(maxsize=2)
def _read(path: str, version: tuple[int, int, int]) -> tuple[NDArray[Any], Array]:
    found = _files.read_arrays(path, most=_files.memory())
    if NAME not in found and len(found) != 1:
        rule = f"must hold one array, or one named {NAME}, not {', '.join(found) or 'nothing'}"
        raise _checks.reject("source", path, rule)
    responses = _checked(found.get(NAME, next(iter(found.values()))), path)
    return responses, _mean_gains(responses)


def _checked(responses: NDArray[Any], name: str) -> NDArray[Any]:
    if responses.ndim != 3 or not responses.size or responses.dtype.kind not in "cfiu":
        rule = "must hold numbers (rounds, devices, elements), at least one of each"
        held = f"not {responses.dtype} of shape {responses.shape}"
        raise _checks.reject("source", name, f"{rule}, {held}")
    if not np.isfinite(responses).all():
        raise _checks.reject("source", name, "must hold finite numbers only")
    largest = np.abs(responses).max(axis=(0, 2))
    if not largest.all():
        rule = f"holds nothing but zeros for device {int(np.argmin(largest))}"
        raise _checks.reject("source", name, rule)
    return responses
