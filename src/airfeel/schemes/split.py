"""Our own digital uplink: one bit for a coefficient, coefficients split among the clients, no memory."""

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.receivers.base import Estimate
from airfeel.registry import SCHEMES
from airfeel.schemes.common_k import CommonKState
from airfeel.streams import bits, derived
from airfeel.uplink.packing import BLOCK, Arrays, Rounding, named
from airfeel.uplink.scheme import Array, Heard, Plan, Scheme, Sent, Setting, Shapes, size_of

BYTES = BLOCK // 8 + 2  # of a block in a message: its signs, and a scale of 16 bits
MOST = 2**30  # clients in a round: sums of two places stay below 2**31
AT_ONCE = 2**15  # coefficients at once: they stay in the processor's cache
ROUNDING = 1e-12  # what sums may leave of a weight of nobody


@SCHEMES.register("split", place=4)
@dataclass(frozen=True)
class Split(Scheme[CommonKState]):
    """One bit for each of s coefficients, other ones from every client; nobody carries anything.

    Signals do not add up in the air here: they are messages, so clients need not send the same coefficients.
    K clients are asked. Coefficient n gets c_n = floor(s K / N + U_n) senders, U uniform, who stand one after
    another from a random place on: about s coefficients for each client, all of them for s = N. Which ones
    follows from a seed, so no positions travel.

    A client takes what it sends in blocks of 256, the last one filled up with zeros, and rotates each by
    z = H D x, H the orthonormal Hadamard matrix and D random signs of its own: errors of clients are then
    independent, and no coefficient is far larger than the others. It sends the signs of z and one scale,
    sigma = sum of z^2 / sum of abs(z) in 16 bits: 34 bytes a block. The server reads x as D H (sigma sign z).

    The estimate is the weighted mean over those who were heard and sent n, over min(1, s K / N): where not
    every coefficient has a sender in every round, it counts for the rounds without one.
    """

    uses_radio = False
    counts_symbols = splits = True

    def init(self, shapes: Shapes, setting: Setting) -> CommonKState:
        """Remember how many coefficients there are, and how many a client sends."""
        return CommonKState(size_of(shapes), setting.symbols)

    def plan(self, state: CommonKState, seed: int, round: int) -> Plan:
        """Announce the seed of all that is drawn, and s."""
        return {"seed": derived(seed, "split", round), "symbols": state.symbols}

    def encode(self, plan: Plan, memory: Any, update: Array) -> Sent:
        """Send signs and scales of the blocks, and say what the server reads in them."""
        signal = np.zeros(update.shape, np.float32)
        messages = []
        for told, row, place in zip(signal, update, plan["places"], strict=True):
            chosen, rounding, count = _share(plan, place, len(row))
            messages.append(rounding.write(row[chosen]))
            told[chosen] = rounding.read(messages[-1], count)
        return Sent(signal, message=messages)

    def message(self, plan: Plan, update: Array) -> dict[str, NDArray[Any]]:
        """Write signs and scales, and do not read them: half of the work."""
        (row,), (place,) = update, plan["places"]
        chosen, rounding, _ = _share(plan, place, len(row))
        return {"blocks": rounding.write(row[chosen])}

    def width(self, plan: Plan, memory: Any, size: int) -> int:
        """Return N: what is not sent counts as zero."""
        return size

    def decode(self, state: CommonKState, plan: Plan, heard: Heard) -> tuple[Estimate, CommonKState]:
        """Divide each coefficient by the weight of those who were heard and sent it."""
        places = plan["places"]
        if heard.silent or not len(places):
            return Estimate(np.zeros(state.size)), state
        asked, least, kinds = _senders(plan, state.size)
        weights = np.zeros(asked)
        weights[places] = 1 / len(places) if heard.each is None else heard.each
        below = np.append(0.0, np.cumsum(np.append(weights, weights)))  # of all at places before this one
        first = -np.arange(asked) % asked  # the first sender, for each offset
        table = np.array([below[first + least + more] - below[first] for more in (0, 1)])
        table[table <= ROUNDING * below[asked]] = np.inf  # nobody
        table, mean = table.T.reshape(-1), np.empty(state.size)
        for start in range(0, state.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            np.divide(heard.observation[part], table[kinds[part]], out=mean[part])
            mean[part] /= min(1.0, plan["symbols"] * asked / state.size)
        return Estimate(mean), state

    def pack(self, sent: Sent) -> dict[str, NDArray[Any]]:
        """Return signs and scales: 34 bytes for each block."""
        return {"blocks": sent.message[0]}

    def unpack(self, plan: Plan, arrays: Arrays, length: int) -> NDArray[np.float32]:
        """Return what stands in such bytes, of which there must be as many as this client has to send."""
        (place,), (blocks,) = plan["places"], named(arrays, "blocks")
        chosen, rounding, count = _share(plan, place, length)
        signal = np.zeros(length, np.float32)
        signal[chosen] = rounding.read(blocks, count)
        return signal

    def takes(self, size: int, symbols: int) -> float:
        """Return the bytes for offsets, senders and weights of all coefficients."""
        return 40.0 * size


def symbols_within(size: int, limit: float) -> int:
    """Return the largest s for which a message of one client has at most so many bytes, or one block.

    How many coefficients fall to a client is a matter of chance: two standard deviations are left free.

    >>> symbols_within(20466, limit=2720), symbols_within(20466, limit=816), symbols_within(1230, limit=-90)
    (20466, 5988, 224)
    """
    room = BLOCK * max(1, int(limit // BYTES))
    return size if room >= size else room - 2 * isqrt(room)


def _share(plan: Plan, place: int, size: int) -> tuple[Any, Rounding, int]:
    """Return which coefficients the client at a place sends, how it rounds them, and how many there are."""
    rounding = Rounding(1, plan["seed"], int(place))
    if plan["symbols"] == size:  # everybody sends all of them
        return slice(None), rounding, size
    chosen = coefficients(plan, place, size)
    return chosen, rounding, len(chosen)


def coefficients(plan: Plan, place: int, size: int) -> NDArray[np.intp]:
    """Return the coefficients that the client at a place sends."""
    asked, least, kinds = _senders(plan, size)
    place = _checks.integer("places", place, at_least=0, at_most=asked - 1)
    first, end = 2 * (-place % asked), 2 * (-place % asked) + 2 * least
    sends = kinds >= first
    if end <= 2 * asked:
        sends &= kinds < end
    else:
        sends |= kinds < end - 2 * asked
    sends |= kinds == (end + 1) % (2 * asked)  # those with one sender more
    return np.flatnonzero(sends)


def _senders(plan: Plan, size: int) -> tuple[int, int, NDArray[np.unsignedinteger[Any]]]:
    """Return K, the least number of senders, and the kind of each coefficient.

    That is twice its offset, and one more if it has one sender more. The client at place i sends coefficient
    n if (i + offset) mod K is below its number of senders.
    """
    asked = _checks.integer("asked", plan["asked"], at_least=1, at_most=MOST)
    symbols = _checks.integer("symbols", plan["symbols"], at_least=1, at_most=size)
    least, rest = divmod(symbols * asked, size)
    return asked, least, _drawn(plan["seed"], asked, rest, size)


@lru_cache(maxsize=1)
def _drawn(seed: int, asked: int, rest: int, size: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return kinds: offsets in [0, K), and whether a uniform number is below rest / N, as few bytes do."""
    source, kinds = bits(seed, "senders"), np.empty(size, np.min_scalar_type(2 * asked))
    for start in range(0, size, AT_ONCE):
        part = kinds[start : start + AT_ONCE]
        raw = source.random_raw(len(part))
        offsets = (raw & np.uint64(0xFFFFFFFF)) * np.uint64(asked) >> np.uint64(32)
        part[:] = 2 * offsets + (raw >> np.uint64(32) < rest * 2**32 // size)
    return kinds
