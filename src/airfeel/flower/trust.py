"""What is believed of the other side: lengths and weights against the median, plans against the model.

One client that is broken, or means harm, shall not spoil a training, and no server the memory of a client.
Medians bear less than half of such clients.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flwr.app import MetricRecord, RecordDict
from numpy.typing import NDArray

from airfeel.flower.replies import Replies, Reply
from airfeel.flower.report import LOG, RoundReport
from airfeel.flower.state import Layout, Nodes
from airfeel.uplink.scheme import Plan

CAP = 10.0  # times the median weight: no client counts for more
WINDOW = 10  # rounds whose median lengths are remembered
PATIENCE = 3  # rounds in a row without anybody, after which a training ends; that a missing node counts for
PLAN = 4  # times the model, which an array of a plan may have
SHORTER = 1 - 1e-6  # so that rounding makes no signal longer than what was allowed for it
GROWTH = 1e6  # times memory and update, which no memory grows to in a round


@dataclass(frozen=True, slots=True)
class Limits:
    """What a round allows: the median length and its multiple, how far exact arrays move, weights by node.

    A client may be as long as the multiple or as heavy as its limit, not both: one at the limit of its weight
    has the median length at most.
    """

    length: float
    clip: float
    moves: Mapping[str, float]
    weights: Mapping[int, float]


def limits(
    found: Sequence[Reply], clip: float, medians: Sequence[float], nodes: Nodes, exact: Mapping[str, Any]
) -> Limits:
    """Return the limits of a round, from its replies and from the median lengths of rounds before it.

    Rounds differ, as signals may stand for more of them than one: with three replies or more their own median
    counts, up to ``clip`` times that of the rounds before. Who weighs nothing is in no median.

    A weight is at most ten times the median and half of what the others weigh, so that nobody turns a mean
    around; but ``clip`` times the median is always allowed, as a few clients may be unequal.
    """
    counted = [reply for reply in found if reply.weight > 0]
    here, before = _median(reply.energy**0.5 for reply in counted), _median(medians)
    length = min(here, clip * before) if before and len(counted) > 2 else before or here
    moves = {name: _middle([_moved(reply, exact, name) for reply in counted]) for name in exact}
    known = {key: node.weight for key, node in nodes.items()}
    median = _median((known | {reply.node: reply.weight for reply in found}).values())
    capped = {reply.node: min(reply.weight, CAP * median) for reply in found}
    whole = sum(capped.values())
    weights = {
        node: min(CAP * median, max(clip * median, (whole - weight) / 2)) for node, weight in capped.items()
    }
    return Limits(length, clip, {name: clip * move for name, move in moves.items()}, weights)


def bounded(found: Replies, limit: Limits, exact: Mapping[str, Any]) -> tuple[Replies, list[int]]:
    """Return the replies scaled down to the limits; and the nodes that this changed."""
    usable = [_bounded(reply, limit, exact) for reply in found.usable]
    changed = [new.node for old, new in zip(found.usable, usable, strict=True) if new is not old]
    return replace(found, usable=usable), changed


def typical(found: Replies) -> float:
    """Return the median length of the signals in a round, 0 for none."""
    return _median(reply.energy**0.5 for reply in found.usable if reply.weight > 0)


def require_somebody(reports: Sequence[RoundReport]) -> None:
    """End a training in which nobody was heard for three rounds, unless it is the air that is silent."""
    last = reports[-PATIENCE:]
    if len(last) < PATIENCE or any(report.heard or _silent_air(report) for report in last):
        return
    report = last[-1]
    reasons = [*report.refused.values(), *report.failed.values(), report.skipped, "nobody answered"]
    reason = next(reason for reason in reasons if reason)
    raise ValueError(f"nobody was heard in rounds {last[0].round} to {report.round}: {reason}")


def averaged_metrics(
    found: Sequence[Reply], by: str, average: Callable[[list[RecordDict], str], MetricRecord]
) -> MetricRecord:
    """Return the mean of the clients' own metrics, over those that have the form most of them have."""
    counted = [(_form(reply.metrics), reply) for reply in found if reply.weight > 0]
    if not counted:
        return MetricRecord()
    usual = Counter(form for form, _ in counted).most_common(1)[0][0]
    try:
        return average([_weighed(reply, by) for form, reply in counted if form == usual], by)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        LOG.warning("airfeel: the metrics of the clients have no mean: %s", error)
        return MetricRecord()


def numbers(layout: Layout) -> int:
    """Return how many numbers an array of a plan may have for a model."""
    return PLAN * (layout.size + 256)


def require_plan(plan: Plan, layout: Layout) -> None:
    """Refuse a plan that is too large for the model or not finite, before anything is allocated for it."""
    for name, value in plan.items():
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in "biuf" or value.size > numbers(layout):
                held = f"{value.size} entries of {value.dtype}"
                raise ValueError(f"the plan has {held} in {name!r}, for a model of {layout.size} numbers")
            if not np.isfinite(value).all():
                raise ValueError(f"the plan is not finite in {name!r}")
        elif name == "symbols" and not (type(value) is int and 1 <= value <= layout.size):
            rule = f"must be between 1 and {layout.size}, the numbers of the model"
            raise ValueError(f"the plan asks for {str(value)[:40]} symbols: {rule}")


def require_memory(
    before: Mapping[str, Any], update: NDArray[np.float32], outcomes: Iterable[Mapping[str, Any]]
) -> None:
    """Refuse a plan after which a client would carry what is not finite, or far more than it had."""
    most = GROWTH * (1 + length_of(update) + sum(map(length_of, before.values())))
    if not all(length_of(row) <= most for after in outcomes for row in after.values()):
        raise ValueError("the plan would spoil the memory of this client")


def _silent_air(report: RoundReport) -> bool:
    """Whether nobody could send, or nobody had anything to send: no fault of the clients."""
    untold = bool(report.silent) and report.skipped.startswith("0 usable")  # in an exchange of two messages
    return untold or report.skipped == "nothing was sent"


def _bounded(reply: Reply, limit: Limits, exact: Mapping[str, Any]) -> Reply:
    """Return a reply as it is, or with a shorter signal, arrays nearer to the model's, a smaller weight."""
    heaviest = limit.weights[reply.node]
    if reply.weight > heaviest > 0:
        reply = replace(reply, weight=heaviest)
    times = min(limit.clip, max(1.0, heaviest / reply.weight)) if reply.weight else limit.clip
    length, longest = reply.energy**0.5, times * limit.length
    if length > longest > 0:
        part = longest / length
        signal = (reply.signal * (part * SHORTER)).astype(np.float32)
        truth = None if reply.truth is None else reply.truth * part
        reply = replace(reply, signal=signal, truth=truth, energy=part**2 * reply.energy)
    for name in exact if reply.exact else ():
        move, most = _moved(reply, exact, name), limit.moves[name]
        if move > most:
            base = np.asarray(exact[name], np.float64)
            nearer = base + most / move * (reply.exact[name].astype(np.float64) - base)
            reply = replace(reply, exact={**reply.exact, name: nearer})
    return reply


def _moved(reply: Reply, exact: Mapping[str, Any], name: str) -> float:
    """Return how far one exact array of a reply is from that of the model; 0 for an announcement."""
    if name not in reply.exact:
        return 0.0
    return length_of(reply.exact[name].astype(np.float64) - np.asarray(exact[name], np.float64))


def _median(values: Iterable[float]) -> float:
    """Return the lower median of what is above zero, or 0: of two, the smaller one is believed."""
    there = sorted(value for value in values if value > 0)
    return float(there[(len(there) - 1) // 2]) if there else 0.0


def _middle(values: Sequence[float]) -> float:
    """Return the upper median, zeros included: what most clients leave as it is, nobody moves."""
    return sorted(values)[len(values) // 2] if values else 0.0


def length_of(row: Any) -> float:
    """Return the Euclidean norm of some numbers, in double precision."""
    return float(np.linalg.norm(np.asarray(row, np.float64).reshape(-1)))


def _form(metrics: RecordDict) -> tuple[Any, ...]:
    """Return names of records and metrics, and how many numbers each has."""
    items = ((a, b, np.shape(value)) for a, r in metrics.metric_records.items() for b, value in r.items())
    return tuple(sorted(items))


def _weighed(reply: Reply, by: str) -> RecordDict:
    """Return the metrics with the weight that counts."""
    given = {
        name: MetricRecord({k: reply.weight if k == by else v for k, v in record.items()})
        for name, record in reply.metrics.metric_records.items()
    }
    return RecordDict(given)
