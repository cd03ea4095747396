"""Flower's strategies inside Air: what a strategy is shown of a round, and what becomes of its answer.

A strategy with a server rule is shown one reply, the mean that was recovered. One that compares clients is
shown a row for each of them: the coefficients that all of them sent, as a model that was zero before.
"""

from __future__ import annotations  # the documentation is built without Flower's classes

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedTrimmedAvg,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
)
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.flower import wire
from airfeel.flower.replies import Replies, Reply
from airfeel.flower.report import LOG
from airfeel.flower.state import Arrays, Layout
from airfeel.uplink.scheme import Scheme, require_no_momentum

RULES = (FedAdam, FedAdagrad, FedYogi, FedAvgM)
ROBUST = (FedMedian, FedTrimmedAvg, Krum, MultiKrum, Bulyan)
PRIVATE = (DifferentialPrivacyClientSideFixedClipping, DifferentialPrivacyClientSideAdaptiveClipping)
Shown = tuple[NDArray[np.float64], Arrays, dict[str, float]]  # row, moves of exact arrays, metrics

ROW = "coefficients"  # name of the array that a strategy is shown for each client
KNOWN = "FedAvg, FedProx, FedAdam, FedAdagrad, FedYogi, FedAvgM, FedMedian, FedTrimmedAvg, Krum, MultiKrum, "
KNOWN += "Bulyan, QFedAvg, or FedAvg or FedProx inside one of Flower's client-side clippings"


class Wrapped:
    """One of Flower's strategies: ``kind`` says what it sees.

    ``"mean"``: nothing, as it averages like FedAvg; it chooses whom to ask. ``"rule"``: the mean model.
    ``"rows"``: what every client sent. ``inner`` is the strategy without a clipping around it.
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy, self.private = strategy, isinstance(strategy, PRIVATE)
        self.inner = strategy.strategy if self.private else strategy
        self.name = type(strategy).__name__
        if isinstance(strategy, type):
            raise _checks.reject("strategy", strategy, f"must be an object: {strategy.__name__}(...)")
        averages = (
            isinstance(self.inner, FedAvg) and type(self.inner).aggregate_train is FedAvg.aggregate_train
        )
        if self.private and not averages:
            rule = "noise is for a mean, so what is inside must be FedAvg or FedProx"
            raise _checks.reject("strategy", f"{self.name}({type(self.inner).__name__})", rule)
        if averages:
            self.kind = "rows" if self.private else "mean"
        elif isinstance(strategy, (*ROBUST, QFedAvg)):
            self.kind = "rows"
        elif isinstance(strategy, RULES):
            self.kind = "rule"
        else:  # it may need whole models, and nobody would notice what it makes of something else
            raise _checks.reject("strategy", self.name, f"must be one of Flower's {KNOWN}")
        self._norm = 0.0

    def require(self, scheme: Scheme[Any], ratio: float, given: Mapping[str, Any]) -> None:
        """Refuse what cannot be together with this strategy; ``given`` are arguments by name."""
        momentum = "momentum", getattr(given["optimizer"], "momentum", 0.0)
        require_no_momentum(scheme, ratio, *momentum, "give the clients' own steps momentum")
        if getattr(self.inner, "server_momentum", 0.0) and scheme.in_lumps and ratio < 1:
            told = "0.5 did no harm at a ratio of 0.15, 0.9 ruins training at 0.04"
            LOG.warning("airfeel: server_momentum meets numbers that stand for several rounds: %s", told)
        if self.kind == "rows":
            if given["channel"] is not None:
                rule = f"adds signals up, and {self.name} needs those of every client: leave it out"
                raise _checks.reject("channel", given["channel"], rule)
            if not scheme.common_support:
                rule = f"must be one in which all clients send the same coefficients for {self.name}, such as"
                raise _checks.reject("scheme", type(scheme).__name__, f"{rule} 'scheduled'")
        if isinstance(self.strategy, QFedAvg) and ratio < 1:
            rule = "must be 1 for QFedAvg, which needs the length of whole updates; bits= makes them small"
            raise _checks.reject("ratio", ratio, rule)
        if self.kind == "rule" and (given["optimizer"] is not None or given["rate"] != 1):
            rule = f"must be left out beside {self.name}, which has a server rule of its own"
            name = "rate" if given["optimizer"] is None else "optimizer"
            raise _checks.reject(name, given[name], rule)
        if given["checkpoint"] is not None and (self.kind == "rule" or self.private):
            rule = f"has no place for what {self.name} carries from round to round: leave it out"
            raise _checks.reject("checkpoint", str(given["checkpoint"]), rule)
        if self.private and given["audit"]:
            raise _checks.reject("audit", True, f"tells what {self.name} is to keep private: leave it out")

    @property
    def identity(self) -> str:
        """The strategy and its options in words; nothing for FedAvg."""
        if type(self.strategy) is FedAvg:
            return ""
        own = {k: v for k, v in vars(self.inner).items() if isinstance(v, int | float | str)}
        options = {k: v for k, v in sorted(own.items()) if k not in vars(FedAvg())}
        return f", {self.name}{options or ''}"

    def configure(
        self, round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, exact: Sequence[str]
    ) -> list[Message]:
        """Return the strategy's requests, each with the model."""
        if self.kind != "rows":
            return list(self.strategy.configure_train(round, arrays, config, grid))
        names = [t.name for t in Layout.of(wire.from_record(arrays), exact).tensors if t.exact]
        if self.private and names:
            rule = "travel whole and nothing keeps them private: use a model without such arrays"
            raise ValueError(f"the arrays {names} {rule}")
        shown = wire.to_record({name: np.zeros(()) for name in (ROW, *names)})
        messages = list(self.strategy.configure_train(round, shown, config, grid))
        if self.private:
            self._norm = float(self.strategy.clipping_norm)
            if len(messages) > (most := self.strategy.num_sampled_clients):
                rule = "must be at least that, or the noise is too weak"
                raise ValueError(f"{len(messages)} clients are asked, num_sampled_clients = {most}: {rule}")
        for message in messages:
            message.content = RecordDict({**message.content, self.inner.arrayrecord_key: arrays})
        return messages

    def fit(self, found: Replies) -> Replies:
        """Refuse replies without the loss that a strategy needs beside the row."""
        key = getattr(self.inner, "train_loss_key", None)
        if key is None or self.kind != "rows":
            return found
        bad = {
            r.node: f"its metric {key!r} must be a number >= 0" for r in found.usable if _loss(r, key) is None
        }
        usable = [reply for reply in found.usable if reply.node not in bad]
        return replace(found, usable=usable, refused={**found.refused, **bad})

    def rows(
        self, round: int, replies: Sequence[Reply], exact: Arrays
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]] | None:
        """Return what the strategy makes of the clients' rows, and of their exact arrays; None for nothing.

        For a private mean all weights are one, rows are no longer than the norm, and who is missing counts as
        a row of zeros: so nobody moves the mean by more than the norm over the number of clients.
        """
        shown = [self._shown(reply, exact) for reply in replies]
        missing = self.strategy.num_sampled_clients - len(shown) if self.private else 0
        nobody: Shown = np.zeros_like(shown[0][0]), {}, {"norm_bit": 0}
        shown += max(0, missing) * [nobody]
        requests = [self._reply({ROW: row, **more}, metrics) for row, more, metrics in shown]
        found, _ = self.strategy.aggregate_train(round, requests)
        if not found:
            return None
        arrays = wire.from_record(found)
        row = -np.asarray(arrays[ROW], np.float64)
        if self.private and (now := float(self.strategy.clipping_norm)) < self._norm:
            # An adaptive clipping draws its noise for the next norm: what is lacking for this one.
            lacking = self.strategy.noise_multiplier * np.sqrt(self._norm**2 - now**2)
            row += (
                lacking / self.strategy.num_sampled_clients * np.random.default_rng().normal(size=row.shape)
            )
        return row, {name: exact[name] + arrays[name].reshape(np.shape(exact[name])) for name in exact}

    def apply(self, round: int, mean: Arrays) -> dict[str, NDArray[Any]] | None:
        """Return the model after the strategy's server rule, given the mean of the clients' models."""
        found, _ = self.strategy.aggregate_train(round, [self._reply(mean, {})])
        return wire.from_record(found) if found else None

    def _shown(self, reply: Reply, exact: Arrays) -> Shown:
        """Return what the strategy sees of one client: its row, how it moved exact arrays, its metrics.

        Signals stand for what is taken away from a model, and rows for what is added to it.
        """
        row, by = -reply.signal.astype(np.float64), self.inner.weighted_by_key
        if self.private:
            length = float(np.linalg.norm(row))
            return row * min(1.0, self._norm / (length or 1.0)), {}, {"norm_bit": int(reply.within)}
        # Old versions of Flower cannot put a single number back into a record.
        moved = {name: np.atleast_1d(reply.exact[name].astype(np.float64) - exact[name]) for name in exact}
        metrics = {by: reply.weight}
        if isinstance(self.strategy, QFedAvg):
            metrics[self.strategy.train_loss_key] = _loss(reply, self.strategy.train_loss_key) or 0.0
        return row, moved, metrics

    def _reply(self, arrays: Arrays, metrics: Mapping[str, float]) -> Message:
        told = MetricRecord({self.inner.weighted_by_key: 1.0, **metrics})
        content = RecordDict({self.inner.arrayrecord_key: wire.to_record(arrays), "metrics": told})
        return Message(content, 1, MessageType.TRAIN)


def _loss(reply: Reply, key: str) -> float | None:
    """Return a client's loss, if it has told one that can be used."""
    found = [record[key] for record in reply.metrics.metric_records.values() if key in record]
    good = len(found) == 1 and not isinstance(found[0], list) and 0 <= found[0] < 1e30
    return float(found[0]) if good else None
