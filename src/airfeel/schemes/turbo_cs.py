"""Turbo-CS in every round: what TSA-GA is without memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from scipy.sparse.linalg import LinearOperator

from airfeel.ranges import Count, NonNegative, Probability
from airfeel.receivers.base import Receiver
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.registry import SCHEMES, option
from airfeel.schemes.compressed import Compressed, partial_dct


@SCHEMES.register("turbo_cs", place=20)
@dataclass(frozen=True)
class IndependentTurboCS(Compressed):
    """An independent Turbo-CS decoder in every round."""

    signs: bool = option(False, "random signs in the DCT")
    fast: bool = option(False, "transform of a fast length")
    block: Annotated[int, Field(ge=2)] | None = option(
        None, "cut a large model into blocks of at most so many coefficients; unset: one transform"
    )
    activity: Probability = option(0.2, "lambda; k/N where it is not given", section="receiver")
    max_iterations: Count = option(25, "of a round's decoder", section="receiver")
    tolerance: NonNegative = option(
        0.005, "relative change of the noise level tau at which the decoder stops", section="receiver"
    )
    precision: Literal["float32", "float64"] = option(
        "float32", "float32 or float64 inside the receiver", section="receiver"
    )

    revision: ClassVar[int] = 2  # the decoder stops on tau, and no longer doubts

    @staticmethod
    def complete(given: Mapping[str, Any]) -> dict[str, Any]:
        """Expect a share k/N of active coefficients."""
        return {"activity": min(float(given["sparsity"]), 0.99)}

    def operator(self, size: int, symbols: int, seed: int) -> LinearOperator:
        """Return s rows of the DCT."""
        return partial_dct(size, symbols, seed, self.signs, self.fast, self.block)

    def receiver(self) -> Receiver[Any]:
        """Return the memoryless decoder."""
        return TurboCS(
            activity=self.activity,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            precision=self.precision,
        )
