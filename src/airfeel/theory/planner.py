"""Link planning: from bandwidth and power to the error of recovery, and back.

Before any gradient exists, the noise of (13) follows from a reference model: M equal devices with equal
sparse gradients, so that alpha = P / ||A g||^2.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np

from airfeel import _checks
from airfeel.beliefs.chains import AmplitudeMessage, ChainParams
from airfeel.ranges import GREATEST, LARGEST, LEAST, MOST, SMALLEST, Checked
from airfeel.theory.amp import amp_evolution
from airfeel.theory.evolution import state_evolution
from airfeel.theory.scalar import Array, Prediction, averaged, late
from airfeel.units import decibel, from_decibel

HOLDS = ("energy", "snr")
FEWEST = 800  # scalar chains that can be followed at all
MAP_SAMPLES, MAP_ROUNDS = 16_000, 40  # at most, per cell of a map: 144 should take about a minute
STEP = 1.01  # an answer is within this factor of the smallest one
QUIETEST, LOUDEST = 1e-8, 1e8  # receive SNR per channel use between which a power is sought


@dataclass(frozen=True, slots=True)
class LinkBudget:
    """The uplink of one round in the reference model.

    Parameters
    ----------
    size, rows
        N parameters in s channel uses per round.
    devices, power, channel_noise
        M, the energy P a device may spend per round, and sigma_e^2 per channel use.
    excess
        Noise after rescaling relative to the reference model; above 1 where the devices' gradients differ,
        because the strongest device limits all. Known only from a run.
    """

    size: int = 7850
    rows: int = 785
    devices: int = 25
    power: float = 500.0
    channel_noise: float = 1.0
    excess: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no link; numbers of NumPy become Python's, which do not overflow as early."""
        for name, most in (("size", MOST), ("rows", self.size), ("devices", MOST)):
            count = _checks.integer(name, getattr(self, name), at_least=1, at_most=most)
            object.__setattr__(self, name, count)
        wide, usual = (LEAST, GREATEST), (SMALLEST, LARGEST)
        for name, (low, high) in (("power", wide), ("channel_noise", usual), ("excess", usual)):
            number = _checks.real(name, getattr(self, name), at_least=low, at_most=high)
            object.__setattr__(self, name, number)

    @property
    def ratio(self) -> float:
        """s/N."""
        return self.rows / self.size

    @property
    def snr(self) -> float:
        """Receive SNR per channel use, M^2 P / (s sigma_e^2), less the excess."""
        return self.devices**2 * self.power / (self.rows * self.channel_noise * self.excess)

    @property
    def device_snr(self) -> float:
        """SNR of one device per symbol, P / (s sigma_e^2)."""
        return self.power / (self.rows * self.channel_noise)

    def with_rows(self, rows: int, hold: str = "energy") -> "LinkBudget":
        """Return the link with other bandwidth, the energy per round or the SNR per channel use held."""
        _checks.choice("hold", hold, HOLDS)
        power = self.power if hold == "energy" else self.power * rows / self.rows
        return replace(self, rows=rows, power=power)

    def with_snr(self, snr: float) -> "LinkBudget":
        """Return the link with the power that gives this receive SNR per channel use."""
        return replace(self, power=self.power * _checks.real("snr", snr, above=0) / self.snr)


@dataclass(frozen=True, slots=True)
class Method(Checked):
    """A way to recover: TSA-GA, its ablations, Turbo-CS (both chains off), or AMP (with a ``denoiser``)."""

    amplitude_message: AmplitudeMessage = "joint"
    support_chain: bool = True
    amplitude_chain: bool = True
    denoiser: Literal["soft", "mmse"] | None = None

    @property
    def dense(self) -> bool:
        """Whether the matrix is Gaussian, with columns of unit norm, and recovery by AMP."""
        return self.denoiser is not None


# The paper's schemes by name, as far as the theory can follow them.
METHODS = MappingProxyType(
    {
        "tsa_ga": Method(),
        "tsa_ga_tuned": Method(),
        "tsa_ga_no_support": Method(support_chain=False),
        "tsa_ga_no_amplitude": Method(amplitude_chain=False),
        "turbo_cs": Method(support_chain=False, amplitude_chain=False),
        "a_dsgd": Method(denoiser="soft"),
        "a_dsgd_mmse": Method(denoiser="mmse"),
    }
)


def is_dense(scheme: str) -> bool:
    """Whether a scheme measures with a Gaussian matrix."""
    return scheme in METHODS and METHODS[scheme].dense


@dataclass(frozen=True, slots=True, eq=False)
class LinkDraws:
    """Air that changes from round to round, drawn several times: arrays (draws, rounds).

    Parameters
    ----------
    noise
        Of a round over that of the reference model: the cost of the weakest device that sends. Where it
        differs from symbol to symbol, (draws, rounds, levels), each level for as many symbols.
    sent, arriving
        By what factor the sum of a round is smaller or larger than usual, as some devices are missing, and by
        what factor it arrives.
    usual
        Share of the devices that is heard in the mean, where power control leaves some out for good: the
        receiver learns it, so noise, sent and arriving are relative to that.
    """

    noise: Array
    sent: Array
    arriving: Array
    usual: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ForecastCourse:
    """The NMSE over one link, round by round.

    ``rounds`` are numbered as in training; ``nmse_db`` belongs to them and, where they are known, its
    standard error ``error_db``, what the receiver thinks (``believed_db``), and the error against the mean of
    all devices that computed, heard or not (``against_all_db``).
    """

    rounds: Sequence[int]
    nmse_db: Array
    believed_db: Array | None = None
    error_db: Array | None = None
    against_all_db: Array | None = None

    @property
    def steady_db(self) -> float:
        """The mean over the last quarter of the rounds."""
        return decibel(float(np.mean(from_decibel(late(self.nmse_db)))))


class LinkForecast(ABC):
    """Whatever foresees the error of a link: a :class:`LinkPlan`, or the replay of a run."""

    __slots__ = ()
    name: ClassVar[str]

    @property
    @abstractmethod
    def basis(self) -> str:
        """What the forecast rests on, in plain sentences."""

    @abstractmethod
    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return what is foreseen round by round."""

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return self.course(link).steady_db


@dataclass(frozen=True, slots=True)
class LinkPlan(LinkForecast):
    """Everything but the link: the signal, the method, the air, and how carefully to predict.

    ``air`` tells what the devices meet on a link; without it every device is heard in every round at cost
    one. ``hint`` says how to learn more than state evolution tells.
    """

    name: ClassVar[str] = "by state evolution"

    chain: ChainParams
    method: Method = Method()
    rounds: int = 60
    samples: int = 80_000
    seed: int = 0
    air: Callable[[LinkBudget], LinkDraws] | None = None
    hint: str = "The folder of a run that kept its aggregates tells more."

    def predict(self, link: LinkBudget) -> Prediction:
        """Return the predicted course of recovery over this link, the mean over the draws of the air."""
        signal = self.chain.activity * self.chain.variance
        if self.method.denoiser is not None:
            if self.air is not None:
                rule = "AMP is not followed through air that changes; tsa_ga and turbo_cs are"
                raise _checks.reject("denoiser", self.method.denoiser, rule)
            # Unit-norm columns spread ||A x||^2 = N lambda gamma over the same s channel uses.
            noise_var = signal / (link.ratio * link.snr)
            return amp_evolution(
                self.chain, link.ratio, noise_var, self.rounds, denoiser=self.method.denoiser
            )
        follow = partial(
            state_evolution,
            self.chain,
            link.ratio,
            rounds=self.rounds,
            amplitude_message=self.method.amplitude_message,
            support_chain=self.method.support_chain,
            amplitude_chain=self.method.amplitude_chain,
        )
        if self.air is None:
            return follow(signal / link.snr, samples=self.samples, seed=self.seed)
        air = self.air(link)
        samples = max(FEWEST, self.samples // len(air.noise))
        noise, sent, arriving = (one[:, : self.rounds] for one in (air.noise, air.sent, air.arriving))
        noise = signal / link.snr * noise.reshape(*noise.shape[:2], -1)
        # Each draw of the air has chains of its own.
        courses = enumerate(zip(noise, sent, arriving, strict=True), start=self.seed)
        return averaged(
            [follow(n, sent=s, arriving=a, samples=samples, seed=seed) for seed, (n, s, a) in courses]
        )

    @property
    def basis(self) -> str:
        """Which gradients it holds for."""
        return (
            "By state evolution alone: this holds for gradients that follow these chains, as real ones "
            f"do only roughly. {self.hint}"
        )

    def course(self, link: LinkBudget) -> ForecastCourse:
        """Return what the theory says about a link."""
        found = self.predict(link)
        return ForecastCourse(
            rounds=range(1, self.rounds + 1),
            nmse_db=found.nmse_db,
            believed_db=decibel(found.variance / found.power),
            error_db=10 / np.log(10) * found.nmse_error / found.nmse,
        )

    def for_map(self) -> "LinkPlan":
        """Follow fewer chains over fewer rounds."""
        return replace(self, samples=min(self.samples, MAP_SAMPLES), rounds=min(self.rounds, MAP_ROUNDS))


def solve_rows(
    plan: LinkForecast,
    link: LinkBudget,
    target_db: float,
    hold: str = "energy",
    say: Callable[[str], None] = lambda _: None,
) -> LinkBudget:
    """Return the link with the fewest channel uses per round whose steady-state NMSE reaches the target.

    ``hold`` says what stays when the bandwidth changes: the ``"energy"`` of a device per round, or the
    receive ``"snr"`` per channel use. ``say`` hears about every step. A target that is only just missed
    counts as reached: errors are known, and told, to 0.1 dB.
    """
    _checks.real("target_nmse", target_db, below=0)
    found: dict[int, float] = {}

    def reaches(rows: float) -> bool:
        count = round(rows)
        found[count] = plan.steady_db(link.with_rows(count, hold))
        say(f"s = {count}: {found[count]:.2f} dB")
        return found[count] <= target_db

    # Halve from s = N: more rows are not always better (a soft threshold amplifies noise near s = N).
    high = float(link.size)
    while not reaches(high):
        if high <= link.size / 8:
            best = min(found, key=lambda count: found[count])
            if _misses(found[best], target_db):
                kept = (
                    f"power = {link.power:g}" if hold == "energy" else f"an SNR of {decibel(link.snr):.1f} dB"
                )
                raise ValueError(
                    f"target_nmse = {target_db:g} dB: out of reach at {kept}; the best of all bandwidths, "
                    f"s = {best} of N = {link.size}, reaches only {found[best]:.1f} dB, so raise the power "
                    f"({plan.name})"
                )
            return link.with_rows(best, hold)
        high = max(1.0, high // 2)
    while high > 1 and reaches(high // 2):
        high //= 2
    return link.with_rows(round(_smallest(reaches, high // 2, high, whole=True)), hold)


def _misses(found_db: float, target_db: float) -> bool:
    """Whether an error misses the target in the 0.1 dB to which both are told."""
    return round(found_db, 1) > round(target_db, 1)


def solve_power(
    plan: LinkForecast, link: LinkBudget, target_db: float, say: Callable[[str], None] = lambda _: None
) -> LinkBudget:
    """Return the link with the least power whose steady-state NMSE reaches the target, to 0.1 dB."""
    _checks.real("target_nmse", target_db, below=0)
    best = plan.steady_db(link.with_snr(LOUDEST))
    if _misses(best, target_db):
        raise ValueError(
            f"target_nmse = {target_db:g} dB: out of reach at s/N = {link.ratio:.3g}; even without noise the "
            f"error stays at {best:.1f} dB, so use more rows ({plan.name})"
        )

    def reaches(snr: float) -> bool:
        trial = link.with_snr(snr)
        found = plan.steady_db(trial)
        say(f"P = {trial.power:.4g}: {found:.2f} dB")
        return found <= max(target_db, best)

    return link.with_snr(_smallest(reaches, QUIETEST, LOUDEST))


def _smallest(reaches: Callable[[float], bool], low: float, high: float, whole: bool = False) -> float:
    """Bisect on a logarithmic scale between ``low``, taken to miss, and ``high``, known to reach."""
    while high > low * STEP and not (whole and high - low <= 1):
        middle = math.sqrt(low * high)
        if whole:
            middle = min(max(round(middle), low + 1), high - 1)
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
