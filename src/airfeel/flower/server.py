"""The server's half of a round: from the replies to the next state and a report."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.flower import trust, wire
from airfeel.flower.replies import Question, Replies, Reply
from airfeel.flower.report import RoundReport, Traffic
from airfeel.flower.state import Layout, State, extend_ledger, mark_absent, mark_heard, welcome
from airfeel.learning.optimizers import Optimizer
from airfeel.radio.link import Channel
from airfeel.radio.power import EqualPower, Ledger, PowerPolicy
from airfeel.registry import CHANNELS
from airfeel.units import decibel, relative_error
from airfeel.uplink import arrive
from airfeel.uplink.arrive import Arrival, Digital, Radio, Senders, Superposed, WeightedMean
from airfeel.uplink.packing import value_bits
from airfeel.uplink.round import decode
from airfeel.uplink.scheme import Plan, Scheme, Setting


@dataclass(frozen=True, slots=True, eq=False)
class OpenRound:
    """A round under way: what was told and asked, and what that cost in bytes.

    In an exchange of two messages ``first`` holds the replies that announce energies, ``told`` the nodes that
    may transmit, and ``alpha`` what they were told.
    """

    announced: wire.Announcement
    question: Question
    traffic: Traffic
    first: Replies | None = None
    told: Sequence[int] = ()
    alpha: float = 0.0


@dataclass(frozen=True, slots=True)
class Announced:
    """The power policy of an exchange of two messages: alpha is what the clients were told."""

    power: float
    told: float

    def alpha(self, demand: NDArray[np.floating[Any]], ledger: Ledger) -> float | None:
        """Return the alpha that was told, if anybody sends."""
        return self.told if demand.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """Scheme, air and update: what does not change from round to round."""

    scheme: Scheme[Any]
    air: Radio | None
    optimizer: Optimizer
    rate: float
    seed: int
    minimum: int
    clip: float | None = None

    @property
    def superposes(self) -> bool:
        """Whether the signals add up in the air, so that all share one alpha."""
        return self.air is not None and self.scheme.uses_radio and self.scheme.superposes

    def begin(self, layout: Layout, symbols: int, asked: int, rounds: int | None, identity: str) -> State:
        """Return the state before the first round, but for the model; ``asked`` clients are there."""
        if not layout.size:
            raise ValueError("the model has no floating arrays to compress: use FedAvg, or other exact=")
        setting = Setting(
            devices=asked,
            symbols=symbols,
            power=None if self.air is None else self.air.policy.power,
            noise_var=None if self.air is None else getattr(self.air.channel, "noise_var", None),
            rounds=rounds,
        )
        begun = self.scheme.init(layout.shapes, setting), self.optimizer.init(layout.size)
        theta, ledger = np.zeros(layout.size), Ledger(np.zeros(0), 0)
        return State(uuid.uuid4().hex, identity, 0, layout, theta, {}, *begun, ledger, nodes={})

    def permit(self, current: OpenRound, first: Replies, state: State) -> OpenRound:
        """Return the round with who may transmit, and alpha (12) from the energies that were announced."""
        first, _ = self._trusted(first, state)
        current = replace(current, first=first)
        if self.air is None or not first.usable:
            return current
        state = replace(state, nodes=welcome(state.nodes, first.usable))
        ids, senders = _senders(current, state, first, first)
        symbols = current.question.symbols
        on_air = self._transmission(current, self.air, senders, self._ledger(state))
        assert isinstance(on_air, Superposed)  # or there would be no second message
        link, energy = on_air.draw(symbols), {reply.node: reply.energy for reply in first.usable}
        grant = on_air.grant(link.cost * np.array([energy[node] for node in ids]), symbols)
        if grant is None:
            return current
        told = [node for node, active in zip(ids, link.active, strict=True) if active]
        return replace(current, told=told, alpha=grant.alpha)

    def conclude(self, current: OpenRound, state: State, found: Replies) -> tuple[State, RoundReport]:
        """Carry the usable signals to the server, apply what is recovered, and say who was heard."""
        found, clipped = self._trusted(found, state)
        first = current.first or found
        report = replace(_seen(current, state, found, first), clipped=tuple(clipped))
        lengths = np.append(state.lengths, trust.typical(found) or [])[-trust.WINDOW :]
        state = replace(state, round=report.round, nodes=welcome(state.nodes, first.usable), lengths=lengths)
        ids, senders = _senders(current, state, found, first)
        replies, ledger = {reply.node: reply for reply in found.usable}, self._ledger(state)
        signals = np.zeros((len(ids), current.question.symbols), np.float32)  # stays so without a reply
        for row, node in zip(signals, ids, strict=True):
            row[:] = replies[node].signal if node in replies else 0
        arrival, reason = self._arrive(current, senders, ledger, signals)
        if self.air is not None:
            ledger = ledger.charge(senders.everywhere(arrival.energy), self.air.policy.power)
        heard = tuple(node for node, part in zip(ids, arrival.delivered, strict=True) if part)
        gone = {*report.missing, *report.refused, *report.failed, *heard}
        report = replace(
            report,
            heard=heard,
            silent=tuple(reply.node for reply in first.usable if reply.node not in gone),
            skipped=reason,
            energy=float(arrival.energy.max(initial=0.0)),
            channel_uses=arrival.channel_uses,
            alpha=arrival.alpha if self.superposes else None,
        )
        nodes = mark_absent(mark_heard(state.nodes, heard, report.round), report.asked, first.usable)
        state = replace(state, ledger=ledger, nodes=nodes)
        given = arrival, current.question.told(ids), [replies[node] for node in heard], senders.whole
        return self._apply(current, state, report, *given)

    def _trusted(self, found: Replies, state: State) -> tuple[Replies, list[int]]:
        """Return the replies with lengths and weights that are believed; and the nodes that this changed."""
        if self.clip is None:
            return found, []
        given = self.clip, state.lengths.tolist(), state.nodes, state.exact
        return trust.bounded(found, trust.limits(found.usable, *given), state.exact)

    def _ledger(self, state: State) -> Ledger:
        """Return the accounts of all nodes, newcomers too."""
        power = 0.0 if self.air is None else self.air.policy.power
        return extend_ledger(state.ledger, len(state.nodes), power)

    def _transmission(
        self, current: OpenRound, air: Radio | None, senders: Senders, ledger: Ledger
    ) -> Superposed | Digital:
        """Return the way of the signals, on which all symbols of a round must be alike."""
        given = self.scheme, air, current.question.plan, senders, ledger
        found = arrive.transmission(*given, self.seed, current.question.round)
        if isinstance(found, Superposed):
            link = found.draw(current.question.symbols)
            if link.active.ndim == 2 or link.cost.ndim == 2:
                rule = "must be the same in all symbols of a round with Flower"
                raise _checks.reject("channel", found.air.channel, rule)
        return found

    def _arrive(
        self, current: OpenRound, senders: Senders, ledger: Ledger, signals: NDArray[np.float32]
    ) -> tuple[Arrival, str]:
        """Return what arrives; and the reason, where it is nothing."""
        usable, silence = int(senders.sending.sum()), arrive.nothing(*signals.shape)
        if usable < self.minimum:
            return silence, f"{usable} usable replies, and {self.minimum} needed"
        if not senders.weights[senders.sending].any():
            return silence, "all weights are zero"
        air = self.air
        if air is not None and current.first is not None:  # clients keep to the alpha they were told
            air = Radio(air.channel, Announced(air.policy.power, current.alpha))
        signals_sent = self._transmission(current, air, senders, ledger)
        signals_sent.put(slice(0, len(signals)), signals)
        arrival = signals_sent.arrive()
        return arrival, "" if arrival.delivered.any() else "nothing was sent"

    def _apply(
        self,
        current: OpenRound,
        state: State,
        report: RoundReport,
        arrival: Arrival,
        plan: Plan,
        heard: list[Reply],
        whole: float,
    ) -> tuple[State, RoundReport]:
        """Decode what arrived, if only silence, and update the model where that tells anything."""
        theta, server = state.theta, state.server
        everybody = sum(node.weight for node in state.nodes.values())
        audit = bool(heard) and current.announced.audit
        told = audit and any(reply.truth is not None for reply in heard)
        given = self.scheme, state.scheme, plan, arrival, whole / (everybody or 1.0)
        estimate, after, truth = decode(*given, measure=audit and not told)
        measured = _mean(heard, whole, len(theta)) if told else truth if audit else None
        if heard or estimate.mean.any():
            theta, server = self.optimizer.update(server, theta, estimate.mean, self.rate)
        if not np.isfinite(theta).all():
            raise ValueError(
                f"the model is not finite after round {report.round}: "
                "the training has diverged; lower the learning rate"
            )
        exact = _averaged(heard, state.exact)
        info, error = estimate.info, None if measured is None else relative_error(estimate.mean, measured)
        report = replace(report, nmse_db=None if error is None else decibel(error))
        if info is not None:
            report = replace(report, status=info.status, iterations=info.iterations)
        return replace(state, theta=theta, exact=exact, scheme=after, server=server), report


def _seen(current: OpenRound, state: State, found: Replies, first: Replies) -> RoundReport:
    """Return the beginning of a report: who answered how."""
    failed, refused = {**first.failed, **found.failed}, {**first.refused, **found.refused}
    answered = {reply.node for reply in found.usable} | failed.keys() | refused.keys()
    notes = found.notes
    if current.first is not None:  # who was not told to transmit has answered all that was asked
        answered |= {reply.node for reply in first.usable if reply.node not in current.told}
        notes = [*first.notes, *notes]
    known, clients = state.nodes, {node.client for node in state.nodes.values()}
    new = [reply for reply in first.usable if reply.node not in known]
    return RoundReport(
        current.question.round,
        tuple(current.question.asked),
        missing=tuple(node for node in current.question.asked if node not in answered),
        failed=failed,
        refused=refused,
        notes=tuple(notes),
        joined=tuple(reply.node for reply in new if reply.client not in clients),
        returned=tuple(reply.node for reply in new if reply.client in clients),
        restarted=tuple(r.node for r in first.usable if r.fresh and r.node in known and known[r.node].heard),
        traffic=current.traffic,
    )


def _senders(current: OpenRound, state: State, found: Replies, first: Replies) -> tuple[list[int], Senders]:
    """Return the nodes that computed, with the weights of all who may have computed something.

    They stand in the order of their numbers as devices: sums shall not depend on the order of replies. A node
    that was asked and did not answer, or not in a usable way, counts with the weight it announced last, for
    three rounds: what it has arrives later. One that failed has nothing, one never heard of has no weight.
    """
    nodes, there = state.nodes, {reply.node for reply in found.usable}
    ids = sorted((reply.node for reply in first.usable), key=lambda node: nodes[node].device)
    weights = np.array([nodes[node].weight for node in ids])
    lost = {*current.question.asked} - {*ids} - first.failed.keys()
    waited = [nodes[node] for node in sorted(lost) if node in nodes]
    absent = sum(node.weight for node in waited if node.absent < trust.PATIENCE)
    sending = np.array([node in there for node in ids], dtype=np.bool_)
    devices = np.array([nodes[node].device for node in ids], dtype=np.intp)
    return ids, Senders(devices, weights, sending, float(weights.sum()) + absent, len(nodes))


def _averaged(heard: list[Reply], before: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the weighted mean of the arrays that travel whole, as FedAvg has it."""
    weights = np.array([reply.weight for reply in heard])
    if not before or not weights.any():
        return before
    pairs = list(zip(weights / weights.sum(), heard, strict=True))
    return {name: sum(w * reply.exact[name].astype(np.float64) for w, reply in pairs) for name in before}


def _mean(heard: list[Reply], whole: float, size: int) -> NDArray[np.floating[Any]] | None:
    """Return the weighted mean of what the signals stand for, where all who were heard said it."""
    mean = WeightedMean(np.array([reply.weight for reply in heard]), whole)
    for row, reply in enumerate(heard):
        if reply.truth is None or reply.truth.shape != (size,):
            return None
        mean.put(slice(row, row + 1), reply.truth[None])
    return mean.value


def value_bits_of(bits: int | None, server: Server) -> int:
    """Return the bits of a value in a message; refuse them where signals are no numbers of a message."""
    found = value_bits("bits", 32 if bits is None else bits)
    if bits is not None and server.air is not None:
        raise _checks.reject("bits", bits, "is for a digital uplink: a radio adds signals up as they are")
    name = type(server.scheme).__name__
    if bits is not None and type(server.scheme).pack is not Scheme.pack:
        raise _checks.reject("bits", bits, f"is not for {name}, which writes its messages in bits by itself")
    return found


def radio(channel: str | Channel | None, power: float | PowerPolicy) -> Radio | None:
    """Return the air between clients and server: a channel and a power policy; None for a digital uplink."""
    policy = EqualPower(power) if isinstance(power, int | float) else power
    if hasattr(policy, "choose"):  # clients are told whether they were heard, not in what part
        raise _checks.reject("power", power, "must be a number or a policy that treats all devices alike")
    if channel is None:
        return None
    found: Any = CHANNELS.get(channel).build({}) if isinstance(channel, str) else channel
    if not hasattr(found, "link"):
        raise _checks.reject("channel", channel, "must be None, the name of a channel, or have a method link")
    return Radio(found, policy)
