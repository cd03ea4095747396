"""Turbo-CS in every round: what TSA-GA is without memory."""

from dataclasses import dataclass
from typing import Any, ClassVar

from airfeel.receivers.base import Receiver
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.registry import SCHEMES
from airfeel.schemes.compressed import TurboDecoded


@SCHEMES.register("turbo_cs", place=20)
@dataclass(frozen=True)
class IndependentTurboCS(TurboDecoded):
    """An independent Turbo-CS decoder in every round."""

    revision: ClassVar[int] = 2  # the decoder stops on tau, and no longer doubts

    def receiver(self) -> Receiver[Any]:
        """Return the memoryless decoder."""
        return TurboCS(
            activity=self.activity,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            precision=self.precision,
        )
