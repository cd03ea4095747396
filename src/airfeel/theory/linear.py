"""Linear schemes in closed form: all devices send the same s numbers, and the server reads the sum.

Nothing is recovered, so nothing has to be assumed about gradients but their energy: ``docs/theory.md`` has
the formulas. What the server makes of what it hears has the same error, as it only puts numbers where they
belong (an orthonormal basis, or factors with orthonormal columns, keep it). A limit to what is believed
(``uplink.clip``) can only make the error smaller and is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from airfeel import _checks
from airfeel.theory.planner import ForecastCourse, LinkBudget, LinkDraws, LinkForecast
from airfeel.theory.scalar import Array
from airfeel.units import decibel

ALIKE = (
    "In closed form, for devices whose signals are alike. Those of real data differ: the error is larger "
    "by as much as the most energetic signal exceeds the mean that is sought (--excess-db), which the folder "
    "of a run knows."
)
ON_RECORD = (
    "In closed form, from the errors that the run has on record: these hold for the energies that its "
    "devices sent, which change a little with the link."
)


def noise_energy(symbols: float, noise_var: float, devices: int, alpha: float, whole: float = 1.0) -> float:
    """Return s sigma_e^2 / (M^2 alpha W^2), the error of a round in the units of the mean, squared.

    >>> noise_energy(symbols=785, noise_var=1.0, devices=25, alpha=500.0)
    0.002512
    """
    return symbols * noise_var / (devices**2 * alpha * whole**2)


@dataclass(frozen=True, slots=True, eq=False)
class LinearPlan(LinkForecast):
    """The error of a linear scheme over a link: from drawn air, or from the errors that a run has on record.

    ``air`` tells what power control makes of the channel; None: every device is heard at cost one. ``scaled``
    are the NMSE of a run's rounds times the SNR of its link, to which they are inverse, and ``numbers`` those
    of these rounds. ``rounds`` says how many are told, of a run its last ones.
    """

    name: ClassVar[str] = "in closed form"

    rounds: int = 60
    air: Callable[[LinkBudget], LinkDraws] | None = None
    scaled: Array | None = None
    numbers: Sequence[int] = ()

    def errors(self, link: LinkBudget) -> tuple[Array, Array | None]:
        """Return the error of each round, against what was heard and, if known, against all that computed.

        Both relative to the mean of equal devices. Against what was heard it is the NMSE of the records: the
        noise, and gains that devices misjudge. Against all, what is missing counts too.
        """
        if self.scaled is not None:
            return self.scaled[-self.rounds :] / link.snr, None
        if self.air is None:
            return np.full(self.rounds, 1 / link.snr), None
        air = self.air(link)
        if air.noise.ndim > 2:
            rule = (
                "must be the same in all symbols of a device; else only the folder of a run tells the error"
            )
            raise _checks.reject("active", f"shape {air.noise.shape}", rule)
        noise, sent, arriving = (part[:, : self.rounds] for part in (air.noise, air.sent, air.arriving))
        error = (noise / link.snr + (arriving - sent) ** 2) / sent**2
        everything = noise * air.usual**2 / link.snr + (1 - arriving * air.usual) ** 2
        return error.mean(axis=0), everything.mean(axis=0)

    @property
    def basis(self) -> str:
        """Which devices it holds for."""
        return ALIKE if self.scaled is None else ON_RECORD

    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return the error round by round."""
        error, everything = self.errors(link)
        return ForecastCourse(
            rounds=self.numbers[-len(error) :] if self.numbers else range(1, len(error) + 1),
            nmse_db=decibel(error),
            against_all_db=None if everything is None else decibel(everything),
        )
