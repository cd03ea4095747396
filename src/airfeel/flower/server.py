"""The server's half of a round: from the replies to the next state and a report."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.flower import nodes, uplink, wire
from airfeel.flower.replies import Question, Reply, Sorted
from airfeel.flower.report import Round, Traffic
from airfeel.flower.state import State
from airfeel.flower.tensors import Layout
from airfeel.learning.server import Optimizer
from airfeel.radio.air import Air, Arrival
from airfeel.radio.power import Ledger
from airfeel.receivers.base import Estimate
from airfeel.schemes.base import Heard, Plan, Scheme, Setting
from airfeel.units import count, decibel


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A round under way: what was told and asked, and what that cost in bytes.

    In an exchange of two messages ``first`` holds the replies that announce energies, ``told`` the nodes that
    may transmit, and ``alpha`` what they were told.
    """

    announced: wire.Announcement
    plan: Plan
    question: Question
    traffic: Traffic
    first: Sorted | None = None
    told: Sequence[int] = ()
    alpha: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """Scheme, air and update: what does not change from round to round."""

    scheme: Scheme[Any]
    air: Air | None
    optimizer: Optimizer
    rate: float
    seed: int
    minimum: int

    def begin(self, layout: Layout, ratio: float, asked: int, rounds: int | None, identity: str) -> State:
        """Return the state before the first round, but for the model; ``asked`` clients are there."""
        if not layout.size:
            raise ValueError("the model has no floating arrays to compress: use FedAvg, or other exact=")
        setting = Setting(
            devices=asked,
            symbols=count(ratio, layout.size),
            power=None if self.air is None else self.air.policy.power,
            noise_var=None if self.air is None else getattr(self.air.channel, "noise_var", None),
            rounds=rounds,
        )
        return State(
            training=uuid.uuid4().hex,
            identity=identity,
            round=0,
            layout=layout,
            theta=np.zeros(layout.size),
            exact={},
            scheme=self.scheme.init(layout.shapes, setting),
            server=self.optimizer.init(layout.size),
            ledger=Ledger(np.zeros(0), 0),
            nodes={},
        )

    def permit(self, turn: Turn, first: Sorted, state: State) -> Turn:
        """Return the turn with who may transmit, and alpha (12) from the energies that were announced."""
        turn = replace(turn, first=first)
        if self.air is None or not first.usable:
            return turn
        replies, known = first.usable, nodes.welcome(state.nodes, first.usable)
        rows = [known[reply.node].device for reply in replies]
        ledger = nodes.extended(state.ledger, len(known), self.air.policy.power)
        place = turn.question.symbols, self.seed, turn.question.round
        link = uplink.link_of(self.air, rows, len(known), *place)
        weights = np.array([reply.weight for reply in replies])
        demand = np.where(link.active, len(weights) * weights, 0.0) ** 2 * link.cost
        demand *= np.array([reply.energy for reply in replies])
        alpha = self.air.policy.alpha(demand, Ledger(ledger.spent[rows], ledger.rounds))
        if alpha is None:
            return turn
        told = [reply.node for reply, active in zip(replies, link.active, strict=True) if active]
        return replace(turn, told=told, alpha=alpha)

    def conclude(self, turn: Turn, state: State, found: Sorted) -> tuple[State, Round]:
        """Carry the usable signals through the air, apply what is recovered, and say who was heard."""
        first = found if turn.first is None else turn.first
        report = _seen(turn, state, found, first)
        state = replace(state, round=report.round, nodes=nodes.welcome(state.nodes, first.usable))
        senders = _senders(turn, state, found, first)
        air, ledger = self._air(turn), state.ledger
        if air is not None:
            ledger = nodes.extended(ledger, len(state.nodes), air.policy.power)
        arrival, heard, uses, reason = self._arrive(turn, senders, air, ledger)
        energy = np.zeros(len(heard)) if arrival is None else arrival.energy
        if air is not None:
            ledger = uplink.charged(ledger, senders.devices, energy, air.policy.power)
        ids = [node for node, there in zip(_in_order(state, first), heard, strict=True) if there]
        gone = {*report.missing, *report.refused, *report.failed}
        silent = tuple(r.node for r in first.usable if r.node not in ids and r.node not in gone)
        report = replace(report, heard=tuple(ids), silent=silent, skipped=reason)
        report = replace(report, channel_uses=uses, energy=float(energy.max(initial=0.0)))
        state = replace(state, ledger=ledger)
        if arrival is None:
            return state, report
        replies = {reply.node: reply for reply in found.usable}
        return self._apply(turn, state, report, arrival, [replies[node] for node in ids], senders.whole)

    def _air(self, turn: Turn) -> Air | None:
        """Return the air of a round, in which clients of an exchange keep to the alpha they were told."""
        if self.air is None or turn.first is None:
            return self.air
        return Air(self.air.channel, uplink.Announced(self.air.policy.power, turn.alpha))

    def _arrive(
        self, turn: Turn, senders: uplink.Senders, air: Air | None, ledger: Ledger
    ) -> tuple[Arrival | None, NDArray[np.bool_], int, str]:
        """Return what arrives, who was heard and the channel uses; or nothing, nobody, and the reason."""
        nobody, usable = np.zeros(len(senders.weights), np.bool_), int(senders.sending.sum())
        if usable < self.minimum:
            return None, nobody, 0, f"{usable} usable replies, and {self.minimum} needed"
        if not senders.weights[senders.sending].any():
            return None, nobody, 0, "all weights are zero"
        place = ledger, self.seed, turn.question.round
        arrival, heard, uses = uplink.arrive(self.scheme, air, turn.plan, senders, *place)
        return arrival, heard, uses, "nothing was sent" if arrival is None else ""

    def _apply(
        self, turn: Turn, state: State, report: Round, arrival: Arrival, heard: list[Reply], whole: float
    ) -> tuple[State, Round]:
        """Decode what arrived and update the model."""
        there = Heard(arrival.observation, arrival.noise_var)
        estimate, after = self.scheme.decode(state.scheme, turn.plan, there)
        theta, server = self.optimizer.update(state.server, state.theta, estimate.mean, self.rate)
        if not np.isfinite(theta).all():
            raise ValueError(
                f"the model is not finite after round {report.round}: "
                "the training has diverged; lower the learning rate"
            )
        known = nodes.heard(state.nodes, report.heard, report.round)
        exact = _averaged(heard, state.exact)
        state = replace(state, theta=theta, exact=exact, scheme=after, server=server, nodes=known)
        info = estimate.info
        return state, replace(
            report,
            alpha=arrival.alpha if uplink.superposes(self.scheme, self.air) else None,
            nmse_db=_error(estimate, heard, whole),
            status=None if info is None else info.status,
            iterations=None if info is None else info.iterations,
        )


def _seen(turn: Turn, state: State, found: Sorted, first: Sorted) -> Round:
    """Return the beginning of a report: who answered how."""
    failed, refused = {**first.failed, **found.failed}, {**first.refused, **found.refused}
    answered = {reply.node for reply in found.usable} | failed.keys() | refused.keys()
    if turn.first is not None:  # who was not told to transmit has answered all that was asked
        answered |= {reply.node for reply in first.usable if reply.node not in turn.told}
    known, clients = state.nodes, {node.client for node in state.nodes.values()}
    return Round(
        turn.question.round,
        tuple(turn.question.asked),
        missing=tuple(node for node in turn.question.asked if node not in answered),
        failed=failed,
        refused=refused,
        notes=(*(first.notes if turn.first is not None else ()), *found.notes),
        joined=tuple(r.node for r in first.usable if r.node not in known and r.client not in clients),
        returned=tuple(r.node for r in first.usable if r.node not in known and r.client in clients),
        restarted=tuple(r.node for r in first.usable if r.fresh and r.node in known and known[r.node].heard),
        traffic=turn.traffic,
    )


def _in_order(state: State, first: Sorted) -> list[int]:
    """Return who computed, in the order of their numbers as devices: sums shall not depend on replies."""
    return sorted((reply.node for reply in first.usable), key=lambda node: state.nodes[node].device)


def _senders(turn: Turn, state: State, found: Sorted, first: Sorted) -> uplink.Senders:
    """Return the signals in rows, with the weights of all who may have computed something.

    A node that was asked and did not answer, or not in a usable way, counts with the weight it announced
    last: what it has arrives later. One that failed has nothing, and one never heard of has no weight.
    """
    signals = {reply.node: reply.signal for reply in found.usable}
    ids = _in_order(state, first)
    rows = np.zeros((len(ids), turn.question.symbols), np.float32)
    for row, node in zip(rows, ids, strict=True):
        row[:] = signals.get(node, 0)
    weights = np.array([state.nodes[node].weight for node in ids])
    lost = {*turn.question.asked} - {*ids} - first.failed.keys()
    absent = sum(state.nodes[node].weight for node in sorted(lost) if node in state.nodes)
    sending = np.array([node in signals for node in ids], dtype=np.bool_)
    devices = [state.nodes[node].device for node in ids]
    return uplink.Senders(rows, weights, devices, sending, float(weights.sum()) + absent)


def _averaged(heard: list[Reply], before: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the weighted mean of the arrays that travel whole, as FedAvg has it."""
    weights = np.array([reply.weight for reply in heard])
    if not before or not weights.any():
        return before
    shares = weights / weights.sum()
    pairs = list(zip(shares, heard, strict=True))
    return {name: sum(w * reply.exact[name].astype(np.float64) for w, reply in pairs) for name in before}


def _error(estimate: Estimate, heard: list[Reply], whole: float) -> float | None:
    """Return the error of the estimate in decibel, where all who were heard said what left them."""
    truth = np.zeros(len(estimate.mean))
    for reply in heard:
        if reply.truth is None or reply.truth.shape != truth.shape:
            return None
        truth += reply.weight / whole * reply.truth.astype(np.float64)
    scale = float(np.sum(truth**2))
    return decibel(float(np.sum((estimate.mean - truth) ** 2)) / scale) if scale else None
