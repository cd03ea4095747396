"""What is written down about every round, and who hears of it while a training goes on."""

from __future__ import annotations  # imports for type checkers alone: who reads records needs no receiver

import json
import logging
import math
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from airfeel._checks import visible
from airfeel._timing import Timer
from airfeel.arrays import Array
from airfeel.units import decibel, relative_error

if TYPE_CHECKING:
    from airfeel.learning.tasks import Score
    from airfeel.radio.units import RadioUnits
    from airfeel.uplink.round import Aggregate


UNITS = ("air_seconds", "downlink_seconds", "joules")
"""what only a run with a table [radio] writes down"""
IF_THERE = (*UNITS, "message_bytes", "state_bytes")
"""what is not even in the file where it does not exist"""
_LINES = 10  # how many plain lines a short run prints


@dataclass(frozen=True, slots=True)
class Record:
    """One round. None stands for what does not exist: no evaluation, no radio, no receiver, nothing sent.

    Parameters
    ----------
    round
        Counted from 1.
    accuracy, loss
        On the test set, after this round's update.
    nmse_db
        10 log10(||x^ - x||^2 / ||x||^2); an error of exactly zero is -400 dB.
    above_zero_db
        The estimate is worse than none: NMSE above 0 dB.
    cumulative_nmse_db
        The same for the sums of x^ and x over all rounds so far; with error feedback the sum is what counts.
    support, support_found, support_overlap
        Number of coefficients that are not zero in x, of those the receiver holds for active (posterior mean
        beyond its posterior standard deviation), and of those in both.
    iterations, status, activity, p01, beta, variance
        The receiver's report: iterations, how they ended, and the chain parameters in force.
    alpha, noise_var
        Power scaling (12) and sigma^2 of y = A x + n (13).
    devices
        How many devices were heard.
    energy
        The largest energy any device has spent so far.
    symbols
        Real symbols so far; two of them make a complex channel use.
    downlink
        Numbers of 32 bits that the server told every device in this round beside the model.
    air_seconds, downlink_seconds, joules
        Time on air of the uplink so far, that of the way back, and what the device that spent most has sent
        with so far; only with a table [radio], and else not even in the file.
    message_bytes
        What the first device sent in this round, where signals are messages without radio.
    state_bytes
        What every device carries to the next round; nothing where it carries nothing.
    """

    round: int
    accuracy: float | None
    loss: float | None
    nmse_db: float | None
    above_zero_db: bool | None
    cumulative_nmse_db: float | None
    support: int
    support_found: int | None
    support_overlap: int | None
    iterations: int | None
    status: str | None
    activity: float | None
    p01: float | None
    beta: float | None
    variance: float | None
    alpha: float | None
    noise_var: float | None
    devices: int
    energy: float
    symbols: int
    downlink: int | None = None
    air_seconds: float | None = None
    downlink_seconds: float | None = None
    joules: float | None = None
    message_bytes: int | None = None
    state_bytes: int | None = None

    def to_json(self) -> str:
        """Return one line of JSON; equal records give equal bytes."""
        row = {key: value for key, value in asdict(self).items() if value is not None or key not in IF_THERE}
        return json.dumps(row, separators=(",", ":"), allow_nan=False)


def make_record(
    round: int,
    aggregate: Aggregate,
    score: Score | None,
    sums: tuple[Array, Array],
    energy: float,
    symbols: int,
    state_bytes: int = 0,
    units: RadioUnits | None = None,
    downlink_seconds: float = 0.0,
) -> Record:
    """Put one round on record.

    ``sums`` are x^ and x summed over all rounds up to this one; the numbers behind it are totals too.
    """
    nmse = None if aggregate.nmse is None else decibel(aggregate.nmse)
    summed = relative_error(*sums) if symbols else None
    found = overlap = None
    if aggregate.variance is not None:
        # For a spike and a narrow slab, mean^2 > variance says that the support probability is above 1/2.
        with np.errstate(over="ignore"):
            active = aggregate.mean**2 > aggregate.variance
        found = int(np.count_nonzero(active))
        overlap = int(np.count_nonzero(active & (aggregate.truth != 0)))
    info, radio = aggregate.info, aggregate.alpha is not None
    chain = None if info is None else info.chain
    return Record(
        round=round,
        accuracy=None if score is None else _finite(score.accuracy),
        loss=None if score is None else _finite(score.loss),
        nmse_db=nmse,
        above_zero_db=None if nmse is None else nmse > 0,
        cumulative_nmse_db=None if summed is None else decibel(summed),
        support=int(np.count_nonzero(aggregate.truth)),
        support_found=found,
        support_overlap=overlap,
        iterations=None if info is None else info.iterations,
        status=info.status if info is not None else "silent" if symbols and not radio else None,
        **{name: getattr(chain, name, None) for name in ("activity", "p01", "beta", "variance")},
        alpha=aggregate.alpha,
        noise_var=aggregate.noise_var,
        devices=int(np.count_nonzero(aggregate.active)),
        energy=energy,
        symbols=symbols,
        downlink=aggregate.downlink,
        air_seconds=None if units is None else units.air_seconds(symbols),
        downlink_seconds=None if units is None else downlink_seconds,
        joules=None if units is None else units.joules(energy),
        message_bytes=aggregate.message_bytes,
        state_bytes=state_bytes or None,
    )


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold; a task without the notion of accuracy says nan."""
    return float(value) if math.isfinite(value) else None


class Progress:
    """Somebody who hears about a run while it goes on; this one shows nothing."""

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Hear how many rounds there will be, how many exist, and what happened on the way here."""
        self._rounds, self._timer = rounds, Timer(rounds, done)
        self._done, self._round = done, Timer(1)

    def within(self, done: int, of: int) -> None:
        """Hear how many devices have trained in the round under way."""

    def update(self, record: Record) -> None:
        """Hear about one more round."""


class Lines(Progress):
    """Plain lines on stderr, for files, pipes and notebooks: about ten over a whole run, more if it is long.

    They are no log: that is seen only where somebody has arranged for it, and these were asked for.
    """

    def begin(self, rounds: int, done: int, notes: list[str]) -> None:
        """Say where the run starts."""
        super().begin(rounds, done, notes)
        for note in notes:
            _say(note)

    def within(self, done: int, of: int) -> None:
        """Say something when the round takes seconds, and nothing was said for a while."""
        if self._round.is_due() and self._timer.is_due():
            self._timer.said()
            left = self._timer.left(self._done + done / of)
            _say(f"round {self._done + 1}/{self._rounds}", trained(done, of), left and f"about {left}")

    def update(self, record: Record) -> None:
        """Say something at every tenth part of the run, and when nothing was said for a while."""
        part, done = max(1, self._rounds // _LINES), record.round
        self._done, self._round = done, Timer(1)
        words = timing(self._timer, done)  # in every round, as the first is not timed
        if done % part == 0 or done == self._rounds or self._timer.is_due():
            self._timer.said()
            _say(f"round {done}/{self._rounds}", describe(record), words)


def _say(*words: str) -> None:
    """Write a line to what is stderr now; nothing goes wrong where nobody can read it any more."""
    line = logging.makeLogRecord({"msg": visible("  ".join(filter(None, words)), keep="\n")})
    logging.StreamHandler().handle(line)


def timing(timer: Timer, done: float) -> str:
    """Return how fast rounds are and how much time is left, as far as that is known."""
    speed = timer.per_second(done)
    return "  ".join(filter(None, [f"{speed:.3g} rounds/s" if speed else "", timer.left(done)]))


def trained(done: int, of: int) -> str:
    """Return how far a round is in words."""
    return f"{done} of {of} devices trained"


def describe(record: Record) -> str:
    """Return a round's accuracy and NMSE, its own and that of all rounds so far, as far as they exist."""
    words = [] if record.accuracy is None else [f"accuracy {record.accuracy:.4f}"]
    words += [] if record.nmse_db is None else [f"NMSE {record.nmse_db:.1f} dB"]
    words += [] if record.cumulative_nmse_db is None else [f"cumulative {record.cumulative_nmse_db:.1f} dB"]
    return "  ".join(words)
