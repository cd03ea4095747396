"""Our own scheme: all devices send the coefficients in which most is expected to have gathered."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from airfeel import _checks
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes import basis
from airfeel.streams import stream
from airfeel.uplink.scheme import Array, ErrorFeedback, Heard, Plan, Sent, Setting, Shapes

LARGEST = 1e100  # energies are cut here, so that neither their sums nor their products overflow
EVIDENCE = 0.05  # share of a tensor that must have been heard to judge how its energies fall
LARGER = 1.2  # amplitude of the lower half of the frequencies over that of the upper one, where they do
WARM = 0.2  # share of the rounds in which a warm-up sends more
WARM_START = 2.5  # symbols of the first round over the mean


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledState:
    """What the server carries.

    ``layout`` names the tensors with their bases; ``age`` counts the rounds since a coefficient was heard;
    ``energy`` is what one round adds to it, squared, as far as was heard (-1: never).
    """

    layout: str
    symbols: int
    rounds: int
    age: NDArray[np.int32]
    energy: Array


@SCHEMES.register("scheduled", place=5)
@dataclass(frozen=True)
class Scheduled(ErrorFeedback[ScheduledState]):
    """Our own: all devices send the coefficients in which most is expected to have gathered.

    1. Updates are taken in a basis T that gathers their energy (:mod:`airfeel.schemes.basis`).
    2. E_n is the energy that coefficient n gains in a round, learned from what was heard; L_n rounds after it
       was last sent, V_n = E_n L_n^2 waits in the error memories.
    3. The s coefficients with the largest V_n are announced, and everybody sends these.
    4. The air adds them up: x^ = T^-1(y on these, 0 elsewhere). There is nothing to recover.
    5. What was heard renews E_n, half old and half new. As much again comes from its row and column, so that
       the neighbours of what is large are tried early, and everything is sent some day. Low frequencies of
       images come first, unless what was heard says that they are no larger than others.
    """

    basis: Literal["auto", "dct", "identity"] = option(
        "auto", "auto: cosines for kernels and for the layer that sees the samples; dct; or identity"
    )
    age_exponent: Annotated[float, Field(gt=0, le=8)] = option(2.0, "how fast what waits is expected to grow")
    warmup: bool = option(False, "send more in the first fifth of the rounds, and less later")

    exact = linear = common_support = symbols_are_coordinates = True
    revision: ClassVar[int] = 4  # what waits grows older in rounds in which nobody is heard, too

    def init(self, shapes: Shapes, setting: Setting) -> ScheduledState:
        """Start with nothing heard."""
        layout = basis.choose(shapes, self.basis)
        size = sum(tensor.size for tensor in layout)
        if self.warmup and setting.rounds is None:
            raise _checks.reject("warmup", True, "needs the number of rounds, which is not known here")
        never, words = np.full(size, -1.0), basis.write(layout)
        return ScheduledState(words, setting.symbols, setting.rounds or 0, np.zeros(size, np.int32), never)

    def plan(self, state: ScheduledState, seed: int, round: int) -> Plan:
        """Announce which coefficients to send."""
        waiting = self._waiting(state)
        symbols = min(self._symbols(state, round), len(waiting))
        ties = stream(seed, "schedule", round).random(len(waiting), dtype=np.float32)
        index = waiting * (1 + 1e-6 * ties)
        chosen = np.sort(np.argpartition(index, len(index) - symbols)[len(index) - symbols :])
        return {"layout": state.layout, "chosen": chosen.astype(np.int32)}

    def compress(self, plan: Plan, accumulated: Array) -> Sent:
        """Send the chosen coefficients of every row, and keep the others."""
        layout, chosen = basis.read(plan["layout"]), plan["chosen"]
        coefficients = basis.forward(layout, accumulated)
        signal = coefficients[:, chosen]
        coefficients[:, chosen] = 0
        return Sent(signal, basis.backward(layout, coefficients))

    def remember(self, plan: Plan, accumulated: Array, sent: Sent, delivered: Array) -> Array:
        """Keep the coefficients that were not delivered."""
        layout, chosen = basis.read(plan["layout"]), plan["chosen"]
        missed = np.zeros_like(accumulated)
        missed[:, chosen] = (1 - delivered) * sent.signal
        return np.asarray(sent.remainder + basis.backward(layout, missed))

    def decode(self, state: ScheduledState, plan: Plan, heard: Heard) -> tuple[Estimate, ScheduledState]:
        """Put what was heard where it belongs, and learn from its energy; what nobody sent waits on."""
        spectrum = np.zeros((1, len(state.age)))
        spectrum[0, plan["chosen"]] = heard.observation

        age, energy = state.age + 1, state.energy.copy()
        sent = np.broadcast_to(np.isfinite(heard.noise_var), heard.observation.shape)
        chosen, found = plan["chosen"][sent], heard.observation[sent]
        noise = heard.noise_var if np.ndim(heard.noise_var) == 0 else np.asarray(heard.noise_var)[sent]
        with np.errstate(over="ignore"):
            gathered = np.clip(found**2 - noise, 0, LARGEST)
        fresh = gathered / age[chosen].astype(np.float64) ** 2
        energy[chosen] = np.where(energy[chosen] < 0, fresh, (energy[chosen] + fresh) / 2)
        age[chosen] = 0
        mean = basis.backward(basis.read(state.layout), spectrum)[0]
        return Estimate(mean), replace(state, age=age, energy=energy)

    def _waiting(self, state: ScheduledState) -> Array:
        """Return V_n = E_n L_n^2, what is expected to have gathered when the next round is sent."""
        energy = expected_energy(state.energy, basis.read(state.layout))
        return np.asarray(energy * (state.age + 1.0) ** self.age_exponent)

    def _symbols(self, state: ScheduledState, round: int) -> int:
        if not self.warmup:
            return state.symbols
        spent, before = (_warm_share(t, state.rounds) for t in (round, round - 1))
        return max(1, int(spent * state.symbols + 0.5) - int(before * state.symbols + 0.5))


def expected_energy(heard: Array, layout: basis.Layout) -> Array:
    """Return E_n: half what was heard of n, half what its row and column say; the latter alone if unheard.

    All energies are taken relative to what the frequency alone lets expect (:func:`_by_frequency`). The prior
    of entry (i, j) of a tensor, read as a matrix, is row mean times column mean over the tensor's mean, each
    over what was heard and with one pseudo-count of the mean above it.
    """
    seen = heard >= 0
    known = np.where(seen, heard, 0)
    before = _by_frequency(known, seen, layout)
    relative = known / before
    everything = float(relative[seen].mean()) if seen.any() else 0.0
    if everything == 0:
        return before
    prior = np.empty(len(heard))
    for tensor, part in zip(layout, basis.stretches(layout), strict=True):
        shape = tensor.matrix
        found = _prior(relative[part].reshape(shape), seen[part].reshape(shape), everything)
        prior[part] = found.reshape(-1)
    prior *= before
    return np.where(seen, (heard + prior) / 2, prior)


def _by_frequency(known: Array, seen: NDArray[np.bool_], layout: basis.Layout) -> Array:
    """Return what the frequency alone lets expect: a fall, or none where low ones are no larger."""
    expected = basis.profile(layout).copy()
    for tensor, part in zip(layout, basis.stretches(layout), strict=True):
        if tensor.smooth and np.count_nonzero(seen[part]) >= EVIDENCE * tensor.size:
            profile, amplitude = expected[part][seen[part]], np.sqrt(known[part][seen[part]])
            low = profile > np.median(profile)
            if low.any() and amplitude[low].mean() < LARGER * amplitude[~low].mean():
                expected[part] = 1
    return expected


def _prior(known: Array, seen: NDArray[np.bool_], above: float) -> Array:
    mean = float((known.sum() + above) / (seen.sum() + 1))
    if mean == 0 or len(known) == 1:
        return np.full(known.shape, mean)
    row, column = ((known.sum(axis) + mean) / (seen.sum(axis) + 1) for axis in (1, 0))
    return np.outer(row, column) / mean


def _warm_share(round: int, rounds: int) -> float:
    """Return the symbols until ``round`` over the mean of a round: a linear fall, then a constant rest."""
    warm, rest = WARM * rounds, (1 - WARM * WARM_START / 2) / (1 - WARM / 2)
    t = min(round, warm)
    fall = WARM_START * t - (WARM_START - rest) * t * t / (2 * warm) if warm else 0.0
    return float(fall + rest * max(round - warm, 0))
