"""The devices' half of a round of any scheme: accumulate, encode, and remember what was not delivered."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from airfeel import _checks
from airfeel.radio.air import Air, delivered
from airfeel.radio.link import Link, anything
from airfeel.radio.power import Ledger
from airfeel.schemes.base import Array, Mask, Plan, Scheme, Sent, Spending
from airfeel.schemes.blocks import Gathered, Mean, Producer, Room, Rows, blocks
from airfeel.schemes.remembering import Kept, coordinates, remember
from airfeel.schemes.sparsification import accumulate


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What is given in a round: the arguments of ``carry``, checked; ``whole`` is W."""

    scheme: Scheme[Any]
    air: Air
    memory: Array
    ledger: Ledger
    produce: Producer
    weights: Array
    whole: float
    computing: Mask
    sending: Mask
    room: Room | None
    seed: int
    round: int

    def link(self, symbols: int) -> Link:
        """Return what the air is like in this round."""
        channel = self.air.channel
        link = channel.link(len(self.weights), symbols, self.seed, self.round)
        checked: Link = _checks.returned(channel, "link", link, Link)
        return checked

    def encode(self, plan: Plan, accumulated: Array) -> Sent:
        """Return what the scheme makes of update plus memory of a few devices."""
        sent: Sent = _checks.returned(self.scheme, "encode", self.scheme.encode(plan, accumulated), Sent)
        return sent

    def kept(self) -> Kept:
        """Return room for what the devices keep."""
        return Kept(self.weights, self.whole, self.room)

    def accumulated(self) -> Iterator[tuple[slice, Array]]:
        """Yield update plus memory of a few devices at a time."""
        for rows in blocks(self.memory.shape, self.computing):
            yield rows, accumulate(self.memory[rows], self.produce(rows), rows.start)


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """What the devices made of a round.

    ``signals`` are (M, s) for a ``link`` on which they superpose; without one they are the weighted mean of
    what reached the server, and ``energy`` is what that cost each device. ``active`` is who sends, (M,) or
    (M, s). ``kept`` is None as long as power control has to say what is delivered; ``block`` is then what
    it needs, where all devices are in one block.
    """

    signals: Array
    kept: Kept | None
    active: Mask
    energy: Array
    link: Link | None
    channel_uses: int
    block: list[tuple[slice, Array, Sent]] = field(default_factory=list)

    @property
    def sends(self) -> Mask:
        """Who sends any symbol, (M,)."""
        return anything(self.active)


def device_half(turn: Turn, plan: Plan) -> Signals:
    """Accumulate and encode, a few devices at a time, and remember what will not have been delivered.

    Power control that chooses among the devices must have seen all signals: then remembering comes later.
    """
    scheme, weights = turn.scheme, turn.weights
    active, energy, spends = _admitted(turn, plan)
    superposes, link = uses_radio(scheme) and spends is None, None
    later = superposes and turn.air.chooses
    one_block = len(blocks(turn.memory.shape, turn.computing)) == 1
    kept, held = turn.kept(), []
    signals: Gathered = Rows(len(weights)) if superposes else Mean(np.where(active, weights, 0.0), turn.whole)
    for rows, accumulated in turn.accumulated():
        sent = turn.encode(plan, accumulated)
        if superposes and link is None:  # the first block tells how many symbols there are
            link = turn.link(sent.signal.shape[1])
            active = link.active & (active if link.active.ndim == 1 else active[:, None])
        if not later:
            share = delivered(active[rows], np.ones(len(accumulated)), coordinates(scheme))
            kept.put(rows, accumulated, remember(scheme, plan, accumulated, sent, share))
        elif one_block:
            held.append((rows, accumulated, sent))
        signals.put(rows, sent.signal)
        del accumulated, sent  # nobody needs them while the next block is computed
    uses = signals.value.shape[-1] if spends is None else spends.channel_uses
    return Signals(signals.value, None if later else kept, active, energy, link, uses, held)


def remembered(turn: Turn, plan: Plan, sent: Signals, share: Array) -> Kept:
    """Return what the devices keep after power control has chosen the share that each of them delivers.

    More than one block would not fit into memory, and is computed again.
    """
    kept = turn.kept()
    again = ((rows, given, turn.encode(plan, given)) for rows, given in turn.accumulated())
    for rows, accumulated, encoded in sent.block or again:
        told = delivered(sent.active[rows], share[rows], coordinates(turn.scheme))
        kept.put(rows, accumulated, remember(turn.scheme, plan, accumulated, encoded, told))
    return kept


def _admitted(turn: Turn, plan: Plan) -> tuple[Mask, Array, Spending | None]:
    """Return who sends, what that costs each, and what a scheme without superposition says of its costs."""
    own = getattr(turn.scheme, "spends", None)
    if own is None:
        return turn.sending, np.zeros(len(turn.weights)), None
    spends: Spending = own(plan)
    link = turn.link(spends.channel_uses)
    return *turn.air.afford(spends.energy, link, turn.sending, turn.ledger), spends


def everything(turn: Turn, sent: Signals) -> Array:
    """Return the error memories after a round in which nothing was sent: all that the devices had.

    That is known where nobody tried. Where all signals were too weak, it is computed again: a rare case, and
    keeping it in all others would take the memory of another M x N numbers.
    """
    if sent.kept is not None and not sent.active.any():
        return sent.kept.memory.value
    memory = Rows(len(turn.weights), turn.room)
    for rows, accumulated in turn.accumulated():
        memory.put(rows, accumulated)
    return memory.value


def uses_radio(scheme: Scheme[Any]) -> bool:
    """Whether the scheme's signals go through the air."""
    return bool(getattr(scheme, "uses_radio", True))
