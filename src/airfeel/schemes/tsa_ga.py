"""TSA-GA, the paper's scheme, its ablations (without any memory: Turbo-CS), and our own settings of it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from airfeel.beliefs.chains import AmplitudeMessage
from airfeel.ranges import Count, Fraction, Several
from airfeel.receivers import em
from airfeel.receivers.base import Receiver
from airfeel.receivers.tsaga import TSAGA
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.registry import SCHEMES, fixed, option
from airfeel.schemes.compressed import TurboDecoded, built


@SCHEMES.register("tsa_ga", place=10)
@dataclass(frozen=True)
class TsaGa(TurboDecoded):
    """The paper's receiver: partial DCT, support and amplitude chains, EM.

    The defaults are the paper's (Section VII); what is left unset starts at lambda = k/N.
    """

    p01: Fraction = option(0.005, "P(1 -> 0) at the start", section="receiver")
    beta: Fraction = option(0.005, "forgetting of the amplitudes at the start", section="receiver")
    learn: bool = option(True, "learn the chains by EM", section="receiver")
    window: Several = option(5, "rounds EM looks at", section="receiver")
    learn_from: Count = option(10, "first round of EM", section="receiver")
    amplitude_message: AmplitudeMessage = option(
        "expansion", "expansion (the paper's), moments or joint", section="receiver"
    )
    doubt: bool = option(
        False, "doubt a prior that a round contradicts, which the paper does not", section="receiver"
    )
    support_chain: bool = fixed(True)
    amplitude_chain: bool = fixed(True)

    revision: ClassVar[int] = 2  # the decoder stops on tau

    def takes(self, size: int, symbols: int) -> float:
        """Return about how many bytes the receiver takes: vectors, and a window of rounds to learn from."""
        learning = self.window * (24.0 * size + 80.0 * min(size, em.TOGETHER)) if self.learn else 0.0
        return learning + super().takes(size, symbols)

    def receiver(self) -> Receiver[Any]:
        """Return Algorithm 1 to the letter, unless the options say otherwise."""
        return built(TSAGA, self)


@SCHEMES.register("tsa_ga_no_support", place=11)
@dataclass(frozen=True)
class NoSupportChain(TsaGa):
    """TSA-GA without the support chain."""

    support_chain: bool = fixed(False)
    p01: float = fixed(0.005)


@SCHEMES.register("tsa_ga_no_amplitude", place=12)
@dataclass(frozen=True)
class NoAmplitudeChain(TsaGa):
    """TSA-GA without the amplitude chain."""

    amplitude_chain: bool = fixed(False)
    beta: float = fixed(0.005)
    amplitude_message: AmplitudeMessage = fixed("expansion")


@SCHEMES.register("tsa_ga_tuned", place=13)
@dataclass(frozen=True)
class TunedTsaGa(TsaGa):
    """TSA-GA with random signs in the DCT and hardly any sparsification."""

    sparsity: Fraction = option(0.9, "k/N, what a device keeps")
    signs: bool = option(True, "random signs in the DCT")


@SCHEMES.register("turbo_cs", place=20)
@dataclass(frozen=True)
class IndependentTurboCS(TurboDecoded):
    """An independent Turbo-CS decoder in every round."""

    revision: ClassVar[int] = 2  # the decoder stops on tau, and no longer doubts

    def receiver(self) -> Receiver[Any]:
        """Return the memoryless decoder."""
        return built(TurboCS, self)
