"""What is told of a round: numbers for Flower's metrics, names for the log."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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


@dataclass(frozen=True, slots=True)
class Round:
    """One round as the server saw it; None stands for what does not exist.

    Parameters
    ----------
    asked, heard
        Nodes that were asked, and those whose signals are in the sum.
    silent
        Nodes that answered, but whose link was down or whose energy was too low: they keep everything.
    missing
        Nodes that were asked and did not answer.
    failed, refused
        Nodes that answered with an error, or with something that cannot be used, and the reasons.
    notes
        Errors that Flower itself reports of the missing, without saying of whom.
    joined, returned, restarted
        Nodes heard for the first time; nodes whose client was known as another node; nodes heard before whose
        error memory is empty now.
    traffic
        Bytes up and down.
    channel_uses, energy, alpha
        Real symbols of this round, the largest energy that a device spent in it, and the power scaling (12).
    nmse_db, status, iterations
        Error of the estimate, known in an audit only; the receiver's report.
    skipped
        Why nobody was heard; empty otherwise.
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
    traffic: Traffic = Traffic()
    channel_uses: int = 0
    energy: float = 0.0
    alpha: float | None = None
    nmse_db: float | None = None
    status: str | None = None
    iterations: int | None = None
    skipped: str = ""

    def metrics(self) -> dict[str, int | float]:
        """Return the numbers, which Flower keeps with those of the app."""
        found = {
            "air-bytes-up": self.traffic.up,
            "air-bytes-up-message": self.traffic.up_message,
            "air-bytes-down": self.traffic.down,
            "air-bytes-down-message": self.traffic.down_message,
            "air-asked": len(self.asked),
            "air-heard": len(self.heard),
            "air-silent": len(self.silent),
            "air-missing": len(self.missing),
            "air-failed": len(self.failed),
            "air-refused": len(self.refused),
            "air-channel-uses": self.channel_uses,
            "air-energy": self.energy,
            "air-alpha": self.alpha,
            "air-nmse-db": self.nmse_db,
            "air-iterations": self.iterations,
            "air-diverged": None if self.status is None else int(self.status == "diverged"),
        }
        return {name: value for name, value in found.items() if value is not None}

    def log(self) -> None:
        """Write one line on the round, and one for each node that is not in the sum."""
        kilobytes = self.traffic.up_message / 1000
        said = f"{len(self.heard)} of {len(self.asked)} heard, {kilobytes:.1f} kB up"
        if self.status is not None:
            said += f", receiver {self.status}"
        LOG.info("airfeel round %d: %s", self.round, said)
        if self.joined:
            LOG.info("airfeel round %d: joined: %s", self.round, _listed(self.joined))
        if self.returned:
            LOG.info("airfeel round %d: came back as other nodes: %s", self.round, _listed(self.returned))
        for node in self.restarted:
            LOG.warning("airfeel round %d: node %d restarted, its error memory is empty", self.round, node)
        if self.silent:
            LOG.info("airfeel round %d: not sent, waiting there: %s", self.round, _listed(self.silent))
        for node in self.missing:
            LOG.warning("airfeel round %d: node %d did not answer", self.round, node)
        for note in self.notes:
            LOG.warning("airfeel round %d: Flower says: %s", self.round, note)
        self._log_reasons("failed", self.failed.items())
        self._log_reasons("left out", self.refused.items())
        if self.skipped:
            LOG.warning("airfeel round %d: skipped, %s", self.round, self.skipped)

    def _log_reasons(self, what: str, reasons: Iterable[tuple[int, str]]) -> None:
        for node, reason in reasons:
            LOG.warning("airfeel round %d: node %d %s: %s", self.round, node, what, reason)


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))


def _bytes(messages: Sequence[Message]) -> tuple[int, int]:
    """Return the bytes of all arrays, and those of whole messages without what an audit adds.

    To weigh every message would take longer than many schemes: what the first has beside its arrays counts
    for all, which differ from it in the lengths of some numbers.
    """
    if not messages:
        return 0, 0
    arrays = [wire.payload(message.content) for message in messages]
    first = messages[0].content
    audit = wire.message_bytes(first[wire.TRUTH]) if wire.TRUTH in first else 0
    beside = wire.message_bytes(messages[0]) - audit - arrays[0]
    return sum(arrays), sum(arrays) + beside * len(messages)
