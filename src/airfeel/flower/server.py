"""The server's half of a round: from the replies to the next state and a report."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.flower import trust
from airfeel.flower.replies import Question, Replies, Reply
from airfeel.flower.report import RoundReport, Traffic
from airfeel.flower.state import Layout, State, after, welcome
from airfeel.flower.wrapped import Wrapped
from airfeel.learning.optimizers import Optimizer
from airfeel.radio.link import Channel
from airfeel.radio.power import EqualPower, Ledger, PowerPolicy
from airfeel.registry import CHANNELS
from airfeel.units import decibel, relative_error
from airfeel.uplink import arrive
from airfeel.uplink.arrive import Arrival, Digital, Radio, Senders, Superposed, WeightedMean
from airfeel.uplink.round import decode
from airfeel.uplink.scheme import Plan, Scheme, Setting

Exact = dict[str, NDArray[Any]]  # the arrays that travel whole


@dataclass(frozen=True, slots=True, eq=False)
class OpenRound:
    """A round under way: what was told and asked, and what that cost in bytes.

    In an exchange of two messages ``first`` holds the replies that announce energies, ``told`` the nodes that
    may transmit, and ``alpha`` what they were told.
    """

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
    """Strategy, scheme, air and update: what does not change from round to round."""

    wrapped: Wrapped
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
        sent = [replies.get(node) for node in ids]
        arrival, reason, exact = self._arrive(current, state, senders, ledger, sent)
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
        nodes = after(state.nodes, report.round, heard, report.asked, first.usable)
        state = replace(state, ledger=ledger, nodes=nodes)
        given = arrival, current.question.told(ids), [replies[node] for node in heard], senders.whole
        return self._apply(current, state, report, exact, *given)

    def _trusted(self, found: Replies, state: State) -> tuple[Replies, list[int]]:
        """Return the replies with lengths and weights that are believed; and the nodes that this changed."""
        if self.clip is None or self.wrapped.private:  # medians would tell of others than the noise hides
            return found, []
        given = self.clip, state.lengths.tolist(), state.nodes, state.exact
        return trust.bounded(found, trust.limits(found.usable, *given), state.exact)

    def _ledger(self, state: State) -> Ledger:
        """Return the accounts of all nodes: newcomers have saved nothing in the rounds before them."""
        power, ledger = 0.0 if self.air is None else self.air.policy.power, state.ledger
        new = np.full(len(state.nodes) - len(ledger.spent), ledger.rounds * power)
        return Ledger(np.append(ledger.spent, new), ledger.rounds)

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
        self, current: OpenRound, state: State, senders: Senders, ledger: Ledger, sent: list[Reply | None]
    ) -> tuple[Arrival, str, Exact | None]:
        """Return what arrives; the reason, where it is nothing; and exact arrays that are no plain means."""
        symbols = current.question.symbols
        usable, silence = int(senders.sending.sum()), arrive.nothing(len(sent), symbols)
        if usable < self.minimum:
            return silence, f"{usable} usable replies, and {self.minimum} needed", None
        if not senders.weights[senders.sending].any():
            return silence, "all weights are zero", None
        if self.wrapped.kind == "rows":
            there = [reply for reply in sent if reply is not None and reply.weight > 0]
            found = self.wrapped.rows(current.question.round, there, state.exact)
            if found is None:
                return silence, f"{self.wrapped.name} makes nothing of {len(there)} replies", None
            each = np.array([reply is not None and reply.weight > 0 for reply in sent], np.float64)
            row, exact = found
            return Arrival(row, 0.0, None, np.zeros(len(sent)), each, 1.0, row, 0), "", exact
        zeros = np.zeros(symbols, np.float32)
        air = self.air
        if air is not None and current.first is not None:  # clients keep to the alpha they were told
            air = Radio(air.channel, Announced(air.policy.power, current.alpha))
        signals_sent = self._transmission(current, air, senders, ledger)
        for i, reply in enumerate(sent):
            signals_sent.put(slice(i, i + 1), (zeros if reply is None else reply.signal)[None])
        arrival = signals_sent.arrive()
        return arrival, "" if arrival.delivered.any() else "nothing was sent", None

    def _apply(
        self,
        current: OpenRound,
        state: State,
        report: RoundReport,
        exact: Exact | None,
        arrival: Arrival,
        plan: Plan,
        heard: list[Reply],
        whole: float,
    ) -> tuple[State, RoundReport]:
        """Decode what arrived, if only silence, and update the model where that tells anything."""
        theta, server = state.theta, state.server
        everybody = sum(node.weight for node in state.nodes.values())
        audit = bool(heard) and current.question.announced.audit
        told = audit and any(reply.truth is not None for reply in heard)
        given = self.scheme, state.scheme, plan, arrival, whole / (everybody or 1.0)
        estimate, scheme, truth = decode(*given, measure=audit and not told)
        measured = _mean(heard, whole, len(theta)) if told else truth if audit else None
        exact = _averaged(heard, state.exact) if exact is None else exact
        if heard or estimate.mean.any():
            theta, server = self.optimizer.update(server, theta, estimate.mean, self.rate)
            if self.wrapped.kind == "rule":
                theta, exact = self._ruled(report.round, state, theta, exact)
        if not np.isfinite(theta).all():
            raise ValueError(
                f"the model is not finite after round {report.round}: "
                "the training has diverged; lower the learning rate"
            )
        info, error = estimate.info, None if measured is None else relative_error(estimate.mean, measured)
        report = replace(report, nmse_db=None if error is None else decibel(error))
        if info is not None:
            report = replace(report, status=info.status, iterations=info.iterations)
        return replace(state, theta=theta, exact=exact, scheme=scheme, server=server), report

    def _ruled(
        self, round: int, state: State, theta: NDArray[np.floating[Any]], exact: Exact
    ) -> tuple[NDArray[np.floating[Any]], Exact]:
        """Return the model after the strategy's own rule, given the mean of the clients' models."""
        found = self.wrapped.apply(round, state.layout.arrays(theta, exact, cast=False))
        if found is None:
            return state.theta, state.exact
        return state.layout.flat(found), state.layout.exact(found)


def radio(channel: str | Channel | None, power: float | PowerPolicy) -> Radio | None:
    """Return the air between clients and server: a channel and a power policy; None for a digital uplink."""
    policy = EqualPower(power) if isinstance(power, int | float) else power
    alike = hasattr(policy, "alpha") and not hasattr(policy, "choose")
    if not alike:  # clients are told whether they were heard, not in what part
        raise _checks.reject("power", power, "must be a number or a policy that treats all devices alike")
    if channel is None:
        return None
    found: Any = CHANNELS.get(channel).build({}) if isinstance(channel, str) else channel
    if not hasattr(found, "link"):
        raise _checks.reject("channel", channel, "must be None, the name of a channel, or have a method link")
    return Radio(found, policy)


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
