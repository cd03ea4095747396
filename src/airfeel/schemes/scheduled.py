"""Our own scheme: all send the coefficients in which most is expected, fresh and for all that waited."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from airfeel import _checks
from airfeel.ranges import Fraction, Positive
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES, option
from airfeel.schemes import basis
from airfeel.schemes.sparsification import largest
from airfeel.streams import stream
from airfeel.uplink.scheme import Array, Heard, Memory, Plan, Scheme, Sent, Setting, Shapes, size_of

LARGEST = 1e100  # energies are cut here, so that neither their sums nor their products overflow
EVIDENCE = 0.05  # share of a tensor that must have been heard to judge how its energies fall
LARGER = 1.2  # amplitude of the lower half of the frequencies over that of the upper one, where they do
LEARNED = 2.0  # most that energies learn from, in what is believed at most
WARM = 0.2  # share of the rounds in which a warm-up sends more
WARM_START = 2.5  # symbols of the first round over the mean
MOVES = 0.5  # how far memory = "control" moves a control, whoever was heard


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledState:
    """What the server carries.

    ``layout`` names the tensors with their bases; ``age`` counts the rounds since a coefficient was heard;
    ``energy`` is what one round adds to it, squared, as far as was heard (-1: never), and ``expected`` what
    that lets expect of all, E. ``control`` is H, as it was in ``round``; ``share`` of all weight was heard
    last.
    """

    layout: str
    symbols: int
    rounds: int
    age: NDArray[np.int32]
    energy: Array
    expected: Array
    control: Array
    share: float = 1.0
    round: int = 0


@SCHEMES.register("scheduled", place=5)
@dataclass(frozen=True)
class Scheduled(Scheme[ScheduledState]):
    """Our own: all devices send the coefficients in which most is expected, fresh and for all that waited.

    1. Updates are taken in a basis T that gathers their energy (:mod:`airfeel.schemes.basis`).
    2. E_n is the energy of coefficient n in a round, learned from what was heard; L_n rounds after it was
       last sent, V_n = E_n L_n^2 is missing. The s largest V_n are announced, with their L_n.
    3. A device sends L_n (u_n - h_n) on these: u is the mean of its latest updates (``newest`` of the new one
       in it; where L_n = 1 and a = 0 that alone), h its control, which the server knows of. Nothing gathers.
    4. The air adds up: y. The server finds f_n = L_n H_n + y_n / (share heard), H the mean of all h, and
       believes at most ``clip`` sqrt(V_n) of it, unless L_n = 1 and a = 0; the share of L_n that it does
       not believe still waits. E_n is half old and half new, which is at most twice what is believed; as
       much again comes from row and column. Low frequencies of images come first, unless they are no larger.
    5. Who was heard moves h by a (u - h), the server H by its sum; both fade in every round. a is the share
       of all devices that was not heard: with everybody there, there is no control.

    What to keep is ``memory``: none (every client may be new), the average u, also the control with a = 1/2,
    or "auto", with a by what is heard; "error" is the error memory of version 0.2, for comparison.
    """

    basis: Literal["auto", "dct", "identity"] = option(
        "auto", "auto: cosines for kernels and for the layer that sees the samples; dct; or identity"
    )
    age_exponent: Annotated[float, Field(gt=0, le=8)] = option(2.0, "how fast what is missing grows")
    warmup: bool = option(False, "send more in the first fifth of the rounds, and less later")
    keeps: Literal["auto", "none", "average", "control", "error"] = option(
        "auto", "what a device carries: auto, none, average, control, or error", key="memory"
    )
    newest: Fraction = option(0.5, "share of the new update in the mean of a device's latest ones")
    fade: Fraction = option(0.3, "what is left of a control after N/s rounds, the mean wait")
    clip: Positive = option(2.0, "most that is believed, in what was expected; the rest waits")

    exact = linear = common_support = symbols_are_coordinates = in_lumps = True
    stateless = False  # but with memory = "none"
    revision: ClassVar[int] = 6  # what is not believed still waits

    def __post_init__(self) -> None:
        """Refuse options outside their ranges; know whether devices carry anything."""
        super().__post_init__()
        object.__setattr__(self, "stateless", self.keeps == "none")

    @property
    def _controls(self) -> bool:
        return self.keeps in ("auto", "control")

    def init(self, shapes: Shapes, setting: Setting) -> ScheduledState:
        """Start with nothing heard."""
        layout = basis.choose(shapes, self.basis)
        size = size_of(shapes)
        if self.warmup and setting.rounds is None:
            raise _checks.reject("warmup", True, "needs the number of rounds, which is not known here")
        never, control = np.full(size, -1.0), np.zeros(size if self._controls else 0)
        given = basis.write(layout), setting.symbols, setting.rounds or 0, np.zeros(size, np.int32), never
        return ScheduledState(*given, expected_energy(never, layout), control)

    def memory(self, shapes: Shapes) -> Memory:
        """Start empty; coefficients, not parameters: ``seen`` are own rounds, and when the control faded."""
        names = {"none": (), "average": ("average",), "error": ("error",)}
        rows = names.get(self.keeps, ("average", "control"))
        counted = {"seen": np.zeros(2, np.int32)} if "average" in rows else {}
        return {name: np.zeros(size_of(shapes), np.float32) for name in rows} | counted

    def plan(self, state: ScheduledState, seed: int, round: int) -> Plan:
        """Announce which coefficients to send, how many rounds each stands for, and how far controls move."""
        # V_n = E_n L_n^2, what will be missing when the next round is sent.
        waiting = state.age + 1.0
        waiting **= self.age_exponent
        waiting *= state.expected
        symbols = min(self._symbols(state, round), len(waiting))
        # Equal ones are told apart by the seed, far above rounding: all processors choose the same.
        near = stream(seed, "schedule", round).random(len(waiting))
        near *= 1e-6
        near += 1
        waiting *= near
        del near  # large arrays go as soon as they can
        chosen = np.flatnonzero(largest(waiting[None], symbols)).astype(np.int32)
        plan: dict[str, Any] = {"layout": state.layout, "chosen": chosen}
        if self.keeps != "error":
            plan |= {"ages": state.age[chosen] + 1}
        if self._controls:
            move = MOVES if self.keeps == "control" else float(np.round(1 - state.share, 6))
            fade = self.fade ** (state.symbols / len(waiting))
            plan |= {"move": move, "fade": fade, "round": round}
        return plan

    def encode(self, plan: Plan, memory: Memory, update: Array) -> Sent:
        """Send what is new of the chosen coefficients, times the rounds they stand for."""
        chosen, layout = plan["chosen"], basis.read(plan["layout"])
        if self.keeps == "none":
            new = basis.forward_at(layout, update, chosen)
            return Sent(plan["ages"].astype(new.dtype) * new)
        coefficients = basis.forward(layout, update)
        if self.keeps == "error":
            coefficients += memory["error"]
            return Sent(coefficients[:, chosen], coefficients)
        new = coefficients[:, chosen]
        ages = plan["ages"].astype(new.dtype)
        share = np.maximum(self.newest, 1 / (memory["seen"][:, :1] + 1)).astype(new.dtype)
        coefficients -= memory["average"]
        coefficients *= share
        coefficients += memory["average"]
        alone = (ages == 1) & (plan.get("move", 0) == 0)  # with everybody heard, as in federated averaging
        new = np.where(alone, new, coefficients[:, chosen])
        if self._controls:
            new -= self._faded(plan, memory, new.dtype) * memory["control"][:, chosen]
        return Sent(ages * new, coefficients)

    def settle(self, plan: Plan, memory: Memory, update: Array, sent: Sent, delivered: Array) -> Memory:
        """Keep the mean, and move the control as far as the signal was heard; or keep what was not."""
        chosen, arrived = plan["chosen"], delivered if delivered.ndim == 2 else delivered[:, None]
        if self.keeps == "none":
            return memory
        if self.keeps == "error":
            kept = sent.remainder.copy()
            kept[:, chosen] *= (1 - arrived).astype(kept.dtype)
            return {"error": kept}
        after, seen = {"average": sent.remainder}, memory["seen"] + np.array([1, 0], np.int32)
        if self._controls and plan["move"] > 0:
            kind = sent.signal.dtype
            control = self._faded(plan, memory, kind) * memory["control"]
            control[:, chosen] += (plan["move"] * arrived / plan["ages"]).astype(kind) * sent.signal
            seen[:, 1] = plan["round"]
            after["control"] = control
        elif self._controls:
            after["control"] = memory["control"]
        return {**after, "seen": seen}

    def _faded(self, plan: Plan, memory: Memory, kind: np.dtype) -> Array:
        """Return what is left of each control since it last moved, (rows, 1)."""
        return np.asarray(plan["fade"] ** (plan["round"] - memory["seen"][:, 1:]), kind)

    def decode(self, state: ScheduledState, plan: Plan, heard: Heard) -> tuple[Estimate, ScheduledState]:
        """Put what was heard where it belongs, and learn from its energy; what nobody sent waits on."""
        width = heard.observation.shape
        share, noise = (np.broadcast_to(value, width) for value in (heard.share, heard.noise_var))
        sent = np.isfinite(noise) & (share > 0)
        chosen, share, noise, found = plan["chosen"][sent], share[sent], noise[sent], heard.observation[sent]
        age, energy, control = state.age + 1, state.energy.copy(), state.control
        ages = age[chosen].astype(np.float64)
        believed = found = found.astype(np.float64)
        waits = np.zeros(len(chosen), age.dtype)
        with np.errstate(over="ignore"):
            if self.keeps != "error":
                told, found, noise = found, found / share, noise / share**2
                if self._controls:
                    control = control * plan["fade"] ** (plan["round"] - state.round)
                    found = found + ages * control[chosen]
                    control[chosen] += plan["move"] * heard.computed * told / ages
                if (energy > 0).any():  # before, nothing was expected
                    most = self.clip * ages * np.sqrt(state.expected[chosen])
                    alone = (ages == 1) & (plan.get("move", 0) == 0)  # as in federated averaging
                    believed = np.where(alone, found, np.clip(found, -most, most))
                    part = np.divide(believed, found, out=np.ones(len(found)), where=found != 0)
                    waits[:] = ages * (1 - part)
                    found = np.clip(found, -LEARNED * most, LEARNED * most)
            fresh = np.clip(found**2 - noise, 0, LARGEST) / ages**2
        energy[chosen] = np.where(energy[chosen] < 0, fresh, (energy[chosen] + fresh) / 2)
        age[chosen] = waits
        layout = basis.read(state.layout)
        after = replace(
            state,
            age=age,
            energy=energy,
            expected=expected_energy(energy, layout),
            control=control,
            share=state.share if heard.silent else float(np.mean(heard.share)) * heard.computed,
            round=plan.get("round", 0),
        )
        spectrum = np.zeros((1, len(age)))  # when what the energies took is free again
        spectrum[0, chosen] = believed
        return Estimate(basis.backward(layout, spectrum)[0]), after

    def width(self, plan: Plan, memory: Memory, size: int) -> int:
        """Return how many coefficients were announced."""
        return len(plan["chosen"])

    def basis_of(self, state: ScheduledState) -> str:
        """Return the basis of the coefficients that are announced."""
        return state.layout

    def _symbols(self, state: ScheduledState, round: int) -> int:
        if not self.warmup:
            return state.symbols
        spent, before = (_warm_share(t, state.rounds) for t in (round, round - 1))
        return max(1, int(spent * state.symbols + 0.5) - int(before * state.symbols + 0.5))


def expected_energy(heard: Array, layout: basis.Tensors) -> Array:
    """Return E_n: half what was heard of n, half what its row and column say; the latter alone if unheard.

    All energies are taken relative to what the frequency alone lets expect (:func:`_by_frequency`). The prior
    of entry (i, j) of a tensor, read as a matrix, is row mean times column mean over the tensor's mean, each
    over what was heard and with one pseudo-count of the mean above it.
    """
    seen = heard >= 0
    known, count = np.maximum(heard, 0), np.count_nonzero(seen)
    before = _by_frequency(known, seen, layout)
    relative = np.divide(known, before, out=known)  # large arrays are used again: new ones are dear
    counted = relative if count == len(seen) else relative[np.flatnonzero(seen)]
    everything = float(counted.mean()) if count else 0.0
    del counted
    if everything == 0:
        return before
    prior = np.empty(len(heard))
    for tensor, part in zip(layout, basis.stretches(layout), strict=True):
        shape = tensor.matrix
        given = relative[part].reshape(shape), seen[part].reshape(shape), everything
        _put_prior(prior[part].reshape(shape), *given)
    prior *= before
    found = np.maximum(heard, 0, out=known)
    if count < len(seen):
        np.copyto(found, prior, where=~seen)
    found += prior
    found /= 2
    return found


def _by_frequency(known: Array, seen: NDArray[np.bool_], layout: basis.Tensors) -> Array:
    """Return what the frequency alone lets expect: a fall, or none where low ones are no larger."""
    expected = before = basis.profile(layout)
    for tensor, part in zip(layout, basis.stretches(layout), strict=True):
        if tensor.smooth and np.count_nonzero(seen[part]) >= EVIDENCE * tensor.size:
            profile, amplitude = expected[part][seen[part]], np.sqrt(known[part][seen[part]])
            low = profile > np.median(profile)
            if low.any() and amplitude[low].mean() < LARGER * amplitude[~low].mean():
                expected = before.copy() if expected is before else expected
                expected[part] = 1
    return expected


def _put_prior(found: Array, known: Array, seen: NDArray[np.bool_], above: float) -> None:
    mean = float((known.sum() + above) / (seen.sum() + 1))
    if mean == 0 or len(known) == 1:
        found[...] = mean
        return
    row, column = ((known.sum(axis) + mean) / (seen.sum(axis) + 1) for axis in (1, 0))
    np.outer(row, column, out=found)
    found /= mean


def _warm_share(round: int, rounds: int) -> float:
    """Return the symbols until ``round`` over the mean of a round: a linear fall, then a constant rest."""
    warm, rest = WARM * rounds, (1 - WARM * WARM_START / 2) / (1 - WARM / 2)
    t = min(round, warm)
    fall = WARM_START * t - (WARM_START - rest) * t * t / (2 * warm) if warm else 0.0
    return float(fall + rest * max(round - warm, 0))
