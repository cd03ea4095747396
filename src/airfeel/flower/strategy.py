"""The server's line: ``strategy = Air(FedAdam(), scheme="scheduled", ratio=0.04)``, or ``AirAvg(...)``."""

from __future__ import annotations  # the documentation is built without Flower's classes

import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from airfeel import _checks
from airfeel.flower import trust, wire
from airfeel.flower.downlink import Downlink, told_in
from airfeel.flower.replies import Question, sort
from airfeel.flower.report import LOG, RoundReport, Traffic
from airfeel.flower.server import OpenRound, Server, radio
from airfeel.flower.state import Layout, State, in_order
from airfeel.flower.wrapped import Wrapped
from airfeel.learning.optimizers import Optimizer
from airfeel.learning.optimizers.descent import GradientDescent
from airfeel.radio.link import Channel
from airfeel.radio.power import PowerPolicy
from airfeel.schemes.split import symbols_within
from airfeel.streams import bits as random_bits
from airfeel.units import count
from airfeel.uplink.packing import value_bits
from airfeel.uplink.scheme import Scheme, everywhere, placed

Evaluate = Callable[[int, ArrayRecord], Any]

RESULTS = ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp")


class Air(Strategy):  # type: ignore[misc]
    """One of Flower's strategies over a compressed uplink, with or without a radio.

    Clients need ``mods=[air_mod]``. They send signals that are ``ratio`` as long as the model, or with
    ``compression`` so many times fewer bytes. Where the strategy averages, the server takes their weighted
    mean, or what a channel makes of it, recovers the mean update and applies it, by the strategy's own rule
    if it has one (FedAdam, FedAdagrad, FedYogi, FedAvgM). A robust strategy (FedMedian, FedTrimmedAvg, Krum,
    MultiKrum, Bulyan), QFedAvg, or FedAvg inside one of Flower's client-side clippings gets a row of
    coefficients for every client, as all of them send the same ones, and the update is recovered from what it
    makes of these.

    Parameters
    ----------
    strategy
        The strategy: it chooses whom to ask, and has its own arguments.
    scheme
        A scheme by name (``airfeel list``), by ``package.module:Name``, or an object. If unset ``"tsa_ga"``,
        or ``"scheduled"`` where the strategy gets rows.
    ratio
        s/N, the length of a signal over the number of parameters; 0.1 if unset.
    bits
        Of a value in a message, for a digital uplink: 1, 2, 4, 8, 16 or 32 (single precision). Fewer are
        rounded after a random rotation, right in the mean (:class:`airfeel.uplink.packing.Rounding` says how
        nearly).
    downlink
        Bits of a parameter on the way down, 1, 2, 4, 8 or 16: clients get what the model differs in from the
        one they have, which they keep; those who have none get it whole, as all do with 32. For evaluations
        that holds where they have the mod too.
    compression
        In place of scheme and ratio, for a digital uplink: clients send arrays of so many times fewer bytes,
        one bit for a coefficient (the scheme ``split``), and carry nothing from round to round. Up to 30 all
        coefficients travel in every round; 100 is as far as was measured.
    channel
        None for a digital uplink, which loses nothing; ``"gaussian"``, ``"fading"`` or any channel for a
        radio that is simulated at the server.
    options
        Of a scheme given by name, such as ``{"sparsity": 0.5}``. Here ``scheduled`` has ``memory = "none"``
        unless told otherwise: every client may be new.
    power
        P, the average energy of a device in a round, or a power policy such as
        :class:`airfeel.radio.power.LongTermPower`.
    exchange
        ``"one"``: energy and signal are in one reply. ``"two"``: clients announce their energy, are told
        alpha, and then transmit, as a real radio would need it. Results are equal.
    optimizer, rate
        The server's update, theta - rate times the mean update by default: FedAvg's. Any of
        :mod:`airfeel.learning.optimizers`, such as ``GradientDescent(momentum=0.9)`` or ``Adam()``.
    exact
        Patterns of names of arrays that travel whole and are averaged as in FedAvg; arrays that are not
        floating always do.
    minimum
        Replies without which a round is skipped: nobody is heard, so clients keep what they have.
    clip
        Signals longer than so many times the median of the round are scaled down to that, and arrays that
        travel whole likewise, if they move farther; weights are at most ten times the median and half of what
        the others weigh (but so many times the median always), and who is heavier may be less long. None:
        never.
    audit
        Tell the error of the estimate. Where a scheme's symbols are mixtures, clients also send what these
        stand for, which is not counted in the bytes.
    checkpoint
        A file (``.npz``) written after every round. If it is there, :meth:`start` goes on from it.
    seed
        Of plans and of the channel's randomness.

    Attributes
    ----------
    rounds
        A :class:`airfeel.flower.report.RoundReport` for every round so far.
    """

    def __init__(
        self,
        strategy: Strategy,
        scheme: str | Scheme[Any] | None = None,
        ratio: float | None = None,
        channel: str | Channel | None = None,
        *,
        compression: float | None = None,
        bits: int | None = None,
        downlink: int | str = 32,
        options: Mapping[str, Any] | None = None,
        power: float | PowerPolicy = 500.0,
        exchange: str = "one",
        optimizer: Optimizer | None = None,
        rate: float = 1.0,
        exact: Sequence[str] = ("*running_*",),
        minimum: int = 1,
        clip: float | None = 3.0,
        audit: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(strategy, Air):
            raise _checks.reject("strategy", type(strategy).__name__, "has a compressed uplink already")
        self.strategy, wrapped = strategy, Wrapped(strategy)
        self._inner = wrapped.inner
        usual = "scheduled" if wrapped.kind == "rows" else "tsa_ga"
        if compression is not None:
            _checks.real("compression", compression, at_least=1)
            others = {"scheme": scheme, "options": options, "ratio": ratio, "channel": channel, "bits": bits}
            if first := next((name for name, value in others.items() if value is not None), None):
                rule = f"chooses the scheme and how much it sends, without a radio; leave out {first}"
                raise _checks.reject("compression", compression, rule)
            usual = "split"
        found = wire.build(usual if scheme is None else scheme, options or {})
        self.compression, air = compression, radio(channel, power)
        self.ratio = _checks.real("ratio", 0.1 if ratio is None else ratio, above=0, at_most=1)
        given = {"channel": channel, "optimizer": optimizer, "rate": rate}
        wrapped.require(found, self.ratio, {**given, "checkpoint": checkpoint, "audit": audit})
        self.server = Server(
            wrapped,
            scheme=found,
            air=air,
            optimizer=optimizer or GradientDescent(),
            rate=_checks.real("rate", rate, above=0),
            seed=_checks.integer("seed", seed, at_least=0),
            minimum=_checks.integer("minimum", minimum, at_least=1),
            clip=None if clip is None else _checks.real("clip", clip, at_least=1),
        )
        self.bits = value_bits("bits", 32 if bits is None else bits)
        if bits is not None and air is not None:
            raise _checks.reject("bits", bits, "is for a digital uplink: a radio adds signals up as they are")
        if bits is not None and type(found).pack is not Scheme.pack:
            rule = f"is not for {type(found).__name__}, which writes its messages in bits by itself"
            raise _checks.reject("bits", bits, rule)
        plain = self.server.optimizer == GradientDescent() and wrapped.kind != "rule"
        self._changes_few = found.common_support and plain
        self.downlink = told_in(downlink, self._changes_few)
        self.exchange = _checks.choice("exchange", exchange, ("one", "two"))
        if exchange == "two" and not self.server.superposes:
            rule = "is for a channel on which the signals of the scheme add up"
            raise _checks.reject("exchange", exchange, rule)
        if isinstance(exact, str) or not all(isinstance(pattern, str) for pattern in exact):
            raise _checks.reject("exact", exact, 'must be a list of patterns, such as ["*running_*"]')
        self.exact, self.audit, self.checkpoint = tuple(exact), bool(audit), checkpoint
        self.rounds: list[RoundReport] = []
        self._named = wire.describe(self.server.scheme)
        self._session = uuid.uuid4().hex  # names this process to clients, and changes no result
        self._state: State | None = None
        self._arrays: ArrayRecord | None = None  # the model as it was last given out
        self._open: OpenRound | None = None
        self._down: Downlink | None = None
        self._evaluation = Traffic()
        self._done, self._timeout = 0, 3600.0
        self._horizon: int | None = None
        self._clipped: set[int] = set()  # nodes of which the log has told

    def __init_subclass__(cls, **given: Any) -> None:
        """Refuse other strategies beside this one: theirs would never be called."""
        super().__init_subclass__(**given)
        for base in cls.__mro__:
            if base not in Air.__mro__ and not issubclass(base, Air) and hasattr(base, "aggregate_train"):
                rule = f"would never be called: write Air({base.__name__}(...), ...)"
                raise ValueError(f"class {cls.__name__}: {base.__name__} beside Air {rule}")

    def __getattr__(self, name: str) -> Any:
        """Return what the strategy inside has, such as ``fraction_train``."""
        if "_inner" in self.__dict__ and name in vars(self._inner):
            return getattr(self._inner, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what the strategy inside has there."""
        there = "_inner" in self.__dict__ and name in vars(self._inner)
        setattr(self._inner, name, value) if there else super().__setattr__(name, value)

    def summary(self) -> None:
        """Log the settings."""
        self.strategy.summary()
        LOG.info("\t└──> airfeel: %s", self._identity)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Train up to round ``num_rounds``, going on from the checkpoint if there is one.

        Rounds keep their numbers in a training that goes on; the model is then that of the checkpoint.
        """
        self._horizon, self._timeout = num_rounds, timeout
        self._state, self._open, self._done, self.rounds = None, None, 0, []  # another start begins anew
        self._session, self._clipped = uuid.uuid4().hex, set()
        if self.downlink != 32:  # nothing is known of clients that another start has met
            wide = self.downlink if isinstance(self.downlink, int) else 32
            given = wide, self._changes_few, self.server.seed, self.arrayrecord_key, self.exact
            self._down = Downlink(*given)
        if self.checkpoint is not None and os.path.exists(self.checkpoint):
            initial_arrays = self._resume(self.checkpoint)
        done, left = self._done, max(0, num_rounds - self._done)

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            return None if evaluate_fn is None else evaluate_fn(server_round + done, arrays)

        told = grid, initial_arrays, left, timeout, train_config, evaluate_config
        result = super().start(*told, None if evaluate_fn is None else evaluate)
        if not len(result.arrays):
            result.arrays = initial_arrays
        for name in RESULTS:
            setattr(result, name, {key + done: value for key, value in getattr(result, name).items()})
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Announce a round: the model, the plan, and to each node which of its signals was heard last."""
        if self._horizon is None:  # somebody else's start
            rule = "must be the outermost strategy: write Air(Wrapper(FedAvg(...), ...), ...)"
            raise ValueError(f"{type(self).__name__} {rule}")
        round = server_round + self._done
        messages = self.server.wrapped.configure(round, arrays, config, grid, self.exact)
        if not messages:
            return messages
        state, scheme = self._state_for(arrays, len(messages)), self.server.scheme
        asked = in_order(state.nodes, (int(message.metadata.dst_node_id) for message in messages))
        plan = scheme.plan(state.scheme, self.server.seed, round)
        step = "send" if self.exchange == "one" else "announce"
        given = (*self._named, self.arrayrecord_key, "\n".join(self.exact), step, self.audit)
        rounding = int(random_bits(self.server.seed, "values", round).random_raw() >> 1)
        announced = wire.Announcement(state.training, self._session, round, *given)
        announced = replace(announced, bits=self.bits, rounding=rounding if self.bits < 32 else 0)
        common = {wire.ROUND: announced.record(), **wire.plan_records(plan)}
        for message in messages:
            own = wire.node_record(scheme, asked, int(message.metadata.dst_node_id), state.nodes)
            message.content = RecordDict({**message.content, **common, **own})
        if self._down is not None:
            self._down.address(messages, round, grid)
        fresh = everywhere(scheme.memory(state.layout.shapes), 1)
        symbols = scheme.width(placed(scheme, plan, [0], len(asked)), fresh, state.layout.size)
        digest = wire.digest(announced, state.layout, plan)
        question = Question(
            announced, digest, symbols, state.layout, self.weighted_by_key, asked, scheme, plan
        )
        self._open = OpenRound(question, Traffic().sent(messages))
        return messages if self.exchange == "one" else self._announce(messages, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take the weighted mean of the signals that count, recover the mean update, and apply it."""
        if self._open is None or self._state is None:
            return None, None
        received, traffic = self._received(replies, self._open.traffic)
        current = replace(self._open, traffic=traffic)
        found = self.server.wrapped.fit(sort(received, current.question))
        state, report = self.server.conclude(current, self._state, found)
        moved = bool(report.heard) or state.theta is not self._state.theta
        if moved:
            self._arrays = self._model(state)
        self._state, self._open = state, None
        if self.checkpoint is not None:
            state.save(self.checkpoint)
        self.rounds.append(report)
        report.log()
        for node in set(report.clipped) - self._clipped:
            LOG.warning("airfeel round %d: node %d sends too much, and is scaled down", report.round, node)
        self._clipped |= set(report.clipped)
        trust.require_somebody(self.rounds)
        metrics = trust.averaged_metrics(found.usable, self.weighted_by_key, self.train_metrics_aggr_fn)
        metrics.update(report.metrics())
        return self._arrays if moved else None, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask for an evaluation, with the number that the round has in the whole training."""
        round = server_round + self._done
        messages = list(self.strategy.configure_evaluate(round, arrays, config, grid))
        if self._down is not None:
            self._down.address(messages, round, grid)
        self._evaluation = Traffic().sent(messages)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the mean of the clients' metrics, and what the evaluation took in bytes."""
        received, traffic = self._received(replies, self._evaluation)
        metrics: MetricRecord | None = self.strategy.aggregate_evaluate(server_round + self._done, received)
        if self.rounds:
            self.rounds[-1] = replace(self.rounds[-1], evaluation=traffic)
        if metrics is not None:
            metrics.update(traffic.metrics())
        return metrics

    def _received(self, replies: Iterable[Message], traffic: Traffic) -> tuple[list[Message], Traffic]:
        """Return the replies, and what they add to the traffic."""
        if self._down is not None:
            return self._down.complete(replies, traffic, self._timeout)
        received = list(replies)
        return received, traffic.received(received)

    @property
    def _identity(self) -> str:
        server, (name, options) = self.server, self._named
        radio = "digital" if server.air is None else f"{server.air.channel}, {server.air.policy}"
        update = f"{server.optimizer}, rate {server.rate:g}, exact {list(self.exact)}"
        length = f"ratio {self.ratio:g}" if self.compression is None else f"compression {self.compression:g}"
        length += f", {self.bits} bits" if self.bits < 32 else ""
        length += f", downlink {self.downlink}" if self.downlink != 32 else ""
        return f"{name} {options}, {length}, {radio}, {update}, seed {server.seed}{server.wrapped.identity}"

    def _resume(self, path: str | os.PathLike[str]) -> ArrayRecord:
        """Return the model of the checkpoint, and go on after its round."""
        state = State.load(path, self._identity, trusted=[type(self.server.scheme).__module__])
        self._state, self._done = state, state.round
        self._arrays = self._model(state)
        LOG.info("airfeel: going on after round %d from %s", state.round, os.fspath(path))
        return self._arrays

    def _symbols(self, layout: Layout) -> int:
        """Return s: a share of N, or what fits in so many times fewer bytes of arrays, headers included."""
        if self.compression is None:
            return count(self.ratio, layout.size)
        whole = layout.nbytes + wire.HEADER * len(layout.shapes)
        return symbols_within(layout.size, whole / self.compression - wire.DESCRIPTION)

    def _state_for(self, arrays: ArrayRecord, asked: int) -> State:
        """Return the state of the training: begun now, or brought to the model that is given."""
        if self._state is not None and arrays is self._arrays:
            return self._state
        model = wire.from_record(arrays)
        layout = Layout.of(model, self.exact)
        if self._state is None:
            given = self._symbols(layout), asked, self._horizon, self._identity
            self._state = self.server.begin(layout, *given)
        if layout != self._state.layout:
            raise ValueError("initial_arrays: must have the names, shapes and types of the model so far")
        state = replace(self._state, theta=layout.flat(model), exact=layout.exact(model))
        self._state, self._arrays = state, arrays
        if self._down is not None:
            self._model(state)
        return state

    def _model(self, state: State) -> ArrayRecord:
        """Return the model that is given out: with a downlink, as clients make it of what they are told."""
        if self._down is None:
            return wire.to_record(state.layout.arrays(state.theta, state.exact))
        basis = self.server.scheme.basis_of(state.scheme)
        return self._down.model(state.layout, basis, state.theta, state.exact)

    def _announce(self, messages: list[Message], grid: Grid) -> list[Message]:
        """Ask for energies first; return the messages that tell alpha to those who can send."""
        current, state = self._open, self._state
        assert current is not None and state is not None
        replies = grid.send_and_receive(messages, timeout=self._timeout)
        received, traffic = self._received(replies, current.traffic)
        current = self.server.permit(current, sort(received, current.question, signals=False), state)
        told = replace(current.question.announced, step="transmit", alpha=current.alpha)
        content = RecordDict({wire.ROUND: told.record()})
        second = [Message(content, node, MessageType.TRAIN) for node in current.told]
        self._open = replace(current, traffic=traffic.sent(second))
        return second


class AirAvg(Air):
    """Federated averaging over a compressed uplink: the short form of ``Air(FedAvg(...), ...)``.

    It takes what :class:`Air` takes but for the strategy, and whatever Flower's FedAvg takes, such as
    ``fraction_train``.
    """

    def __init__(
        self,
        scheme: str | Scheme[Any] | None = None,
        ratio: float | None = None,
        channel: str | Channel | None = None,
        **given: Any,
    ) -> None:
        ours = {name: given.pop(name) for name in signature(Air).parameters if name in given}
        super().__init__(FedAvg(**given), scheme, ratio, channel, **ours)
