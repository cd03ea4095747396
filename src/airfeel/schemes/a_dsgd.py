"""A-DSGD (Amiri and Gunduz, IEEE Transactions on Signal Processing 2020), the paper's rival."""

from dataclasses import dataclass
from typing import Any, ClassVar

from scipy.sparse.linalg import LinearOperator

from airfeel.ranges import Count, Fraction, NonNegative, Probability
from airfeel.receivers.amp import AMP
from airfeel.receivers.base import Receiver
from airfeel.registry import SCHEMES, fixed, option
from airfeel.schemes.compressed import Compressed, built, expect_what_is_kept, gaussian_matrix


@SCHEMES.register("a_dsgd", place=30)
@dataclass(frozen=True)
class ADsgd(Compressed):
    """A-DSGD: Gaussian matrix and soft-threshold AMP."""

    sparsity: Fraction = option(0.05, "k/N, what a device keeps")
    max_iterations: Count = option(40, "of a round's decoder", section="receiver")
    tolerance: NonNegative = option(
        1e-2, "relative change of the estimate at which the decoder stops", section="receiver"
    )
    activity: float = fixed(0.05)
    denoiser: str = fixed("soft")

    revision: ClassVar[int] = 2  # the threshold minimises Stein's unbiased risk

    def operator(self, size: int, symbols: int, seed: int) -> LinearOperator:
        """Return an IID Gaussian matrix with unit-norm columns."""
        return gaussian_matrix(size, symbols, seed)

    def takes(self, size: int, symbols: int) -> float:
        """Return about how many bytes matrix and receiver take."""
        return 4.0 * size * symbols + super().takes(size, symbols)

    def receiver(self) -> Receiver[Any]:
        """Return AMP."""
        return built(AMP, self)


@SCHEMES.register("a_dsgd_mmse", place=31)
@dataclass(frozen=True)
class MmseADsgd(ADsgd):
    """A-DSGD with a Bernoulli-Gaussian (MMSE) denoiser in AMP."""

    activity: Probability = option(0.05, "lambda; k/N where it is not given", section="receiver")
    denoiser: str = fixed("mmse")

    complete = staticmethod(expect_what_is_kept)
