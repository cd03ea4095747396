"""What is told of a round: numbers for Flower's metrics, names for the log."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from flwr.app import Message

from airfeel.flower import wire

LOG = logging.getLogger("flwr")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of the arrays (payload) and of whole messages, summed over clients, up and down."""

    up: int = 0
    up_message: int = 0
    down: int = 0
    down_message: int = 0

    def sent(self, messages: Sequence[Message]) -> "Traffic":
        """Add what the server sends."""
        arrays, whole = _bytes(messages)
        return replace(self, down=self.down + arrays, down_message=self.down_message + whole)

    def received(self, messages: Sequence[Message]) -> "Traffic":
        """Add what it gets."""
        arrays, whole = _bytes([message for message in messages if message.has_content()])
        return replace(self, up=self.up + arrays, up_message=self.up_message + whole)

    def metrics(self) -> dict[str, int | float]:
        """Return the numbers for Flower's metrics."""
        return {f"air-bytes-{name.replace('_', '-')}": value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One round as the server saw it; None stands for what does not exist.

    Nodes are ``asked``; those ``heard`` are in the sum. The ``silent`` answered, but their link was down or
    their energy too low: they keep everything. Others are ``missing``, or ``failed`` with an error, or
    ``refused`` as what they sent cannot be used, with the reasons; ``notes`` are errors that Flower itself
    reports of the missing, without saying of whom. Nodes that ``joined`` are heard of for the first time,
    those that ``returned`` have a client that was known as another node, and those that ``restarted`` were
    heard before and have an empty error memory now. What the ``clipped`` sent was too long or too heavy, and
    counts as much less.

    ``traffic`` is in bytes, ``evaluation`` that of the evaluation after the round; ``channel_uses`` in real
    symbols, ``energy`` the largest that a device spent, ``alpha`` the power scaling (12), ``nmse_db`` the
    error of the estimate, known in an audit only. ``status`` and ``iterations`` are the receiver's report;
    ``skipped`` says why nobody was heard.
    """

    round: int
    asked: tuple[int, ...] = ()
    heard: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    failed: Mapping[int, str] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    joined: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    restarted: tuple[int, ...] = ()
    clipped: tuple[int, ...] = ()
    traffic: Traffic = Traffic()
    evaluation: Traffic = Traffic()
    channel_uses: int = 0
    energy: float = 0.0
    alpha: float | None = None
    nmse_db: float | None = None
    status: str | None = None
    iterations: int | None = None
    skipped: str = ""

    def metrics(self) -> dict[str, int | float]:
        """Return the numbers, which Flower keeps with those of the app."""
        nodes = ("asked", "heard", "silent", "missing", "failed", "refused")
        found = {
            **{name: len(getattr(self, name)) for name in nodes},
            "channel-uses": self.channel_uses,
            "energy": self.energy,
            "alpha": self.alpha,
            "nmse-db": self.nmse_db,
            "iterations": self.iterations,
            "diverged": None if self.status is None else int(self.status == "diverged"),
        }
        told = {f"air-{name}": value for name, value in found.items() if value is not None}
        return {**self.traffic.metrics(), **told}

    def log(self) -> None:
        """Write one line on the round, and one for each node that is not in the sum."""
        said = f"{len(self.heard)} of {len(self.asked)} heard, {self.traffic.up_message / 1000:.1f} kB up"
        told = [said if self.status is None else f"{said}, receiver {self.status}"]
        lists = {"joined": self.joined, "came back as other nodes": self.returned}
        lists["not sent, waiting there"] = self.silent
        told += [f"{what}: {', '.join(map(str, sorted(ids)))}" for what, ids in lists.items() if ids]
        warned = [f"node {node} restarted, its error memory is empty" for node in self.restarted]
        warned += [f"node {node} did not answer" for node in self.missing]
        warned += [f"Flower says: {note}" for note in self.notes]
        warned += [f"node {node} failed: {reason}" for node, reason in self.failed.items()]
        warned += [f"node {node} left out: {reason}" for node, reason in self.refused.items()]
        warned += [f"skipped, {self.skipped}"] if self.skipped else []
        for level, lines in ((logging.INFO, told), (logging.WARNING, warned)):
            for line in lines:
                LOG.log(level, "airfeel round %d: %s", self.round, line)


def _bytes(messages: Sequence[Message]) -> tuple[int, int]:
    """Return the bytes of all arrays, and those of whole messages without what an audit adds.

    To weigh every message would take longer than many schemes: what the first one has beside its arrays
    counts for all with records of the same names, which differ from it in the lengths of some numbers.
    """
    arrays, whole, beside = 0, 0, dict[tuple[str, ...], int]()
    for message in messages:
        content, here = message.content, wire.payload(message.content)
        form = tuple(content)
        if form not in beside:
            beside[form] = wire.beside(message)
        arrays, whole = arrays + here, whole + here + beside[form]
    return arrays, whole
