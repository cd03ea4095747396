"""A cell: devices in a disc around the server, near ones loud and far ones faint."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator
from scipy.special import j0

from airfeel import _checks
from airfeel.radio.channels import Complex, Offsets, complex_normal, drifting, misjudged, with_line_of_sight
from airfeel.radio.link import Array, Link
from airfeel.ranges import Decibels, NonNegative, Positive
from airfeel.registry import CHANNELS, option
from airfeel.streams import stream
from airfeel.units import from_decibel

Losses = Annotated[tuple[Decibels, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]


@CHANNELS.register("cell", place=20)
@dataclass(frozen=True, slots=True)
class Cell(Offsets):
    """Devices in a disc with path loss, shadowing and fading, truncated inversion at the devices.

    A device at distance d loses ``loss_db + 10 exponent log10(d / 1 m)`` decibel, and a shadow of its own, in
    all rounds; on top comes a complex gain h of unit mean power, the same for all symbols of a round. A
    device inverts the product. It spends P on a signal that arrives with energy P where its path gain is the
    reference and ``|h| = 1``: ``uplink.power`` is the energy that arrives from the edge of the disc (without
    a shadow; or from the largest of ``losses_db``). The defaults are those of 3GPP TR 38.901 for a street
    canyon without line of sight (UMi) at 3.5 GHz. Devices lie evenly in the ring between ``nearest`` and
    ``radius``.

    With ``doppler`` f_d T gains of neighbouring rounds have the correlation J0(2 pi f_d T) of Jakes' model,
    and 0 stands still; by default they are independent.
    """

    radius: Positive = option(200.0, "of the disc in which devices lie, in metres")
    nearest: Positive = option(10.0, "least distance of a device, in metres")
    loss_db: Decibels = option(34.0, "path loss at 1 m")
    exponent: NonNegative = option(3.53, "of the path loss")
    shadowing_db: NonNegative = option(7.82, "standard deviation of the shadows")
    losses_db: Losses | None = option(None, "path losses of all devices, in place of positions and shadows")
    reference_db: Decibels | None = option(None, "path loss from which P arrives; unset: that of the edge")
    threshold: Positive = option(0.3, "h_min, weaker devices stay silent")
    rician: NonNegative = option(0.0, "line of sight over scattered power; 0: Rayleigh")
    doppler: NonNegative | None = option(None, "largest Doppler shift times a round; unset: rounds differ")
    csi_error: NonNegative = option(0.0, "variance of what devices misjudge of their gain")

    def __post_init__(self) -> None:
        """Refuse what is no cell."""
        Offsets.__post_init__(self)
        if self.nearest > self.radius:
            raise _checks.reject("nearest", self.nearest, f"must be <= radius = {self.radius:g}")
        if self.losses_db is not None:
            for place, loss in enumerate(_checks.vector("losses_db", self.losses_db).tolist()):
                _checks.real(f"losses_db[{place}]", loss, at_least=-300, at_most=300)

    @property
    def reference_loss_db(self) -> float:
        """The path loss from which P arrives."""
        if self.reference_db is not None:
            return self.reference_db
        return float(self._loss(self.radius) if self.losses_db is None else max(self.losses_db))

    @property
    def reference_gain(self) -> float:
        """The power gain of a path with that loss."""
        return from_decibel(-self.reference_loss_db)

    def path_gains(self, num_devices: int, seed: int) -> Array:
        """Return the power gain of each device's path, shadow included: the same in all rounds."""
        if self.losses_db is not None:
            if len(self.losses_db) < num_devices:
                rule = f"must have one entry for each of {num_devices} devices"
                raise _checks.reject("losses_db", list(self.losses_db), rule)
            return from_decibel(-np.asarray(self.losses_db[:num_devices], dtype=np.float64))
        places = stream(seed, "positions").random(num_devices)
        distance = np.sqrt(self.nearest**2 + places * (self.radius**2 - self.nearest**2))
        shadow = self.shadowing_db * stream(seed, "shadowing").standard_normal(num_devices)
        return from_decibel(-self._loss(distance) - shadow)

    def gains(self, num_devices: int, seed: int, round: int) -> Complex:
        """Return the true complex gains h_m of a round, without the path."""
        given = (num_devices,), seed, "fading", round
        if self.doppler is None:
            return with_line_of_sight(complex_normal(*given), self.rician)
        return with_line_of_sight(drifting(*given, float(j0(2 * np.pi * self.doppler))), self.rician)

    def link(self, num_devices: int, symbols: int, seed: int, round: int) -> Link:
        """Draw the gains, what the devices know of them, and what is left after their inversion."""
        gain = self.gains(num_devices, seed, round)
        known = misjudged(gain, self.csi_error, seed, round)
        path = self.path_gains(num_devices, seed) / self.reference_gain
        return self.inverted(gain, known, np.abs(known) >= self.threshold, symbols, seed, round, path)

    def _loss(self, distance: Any) -> Any:
        return self.loss_db + 10 * self.exponent * np.log10(distance)
