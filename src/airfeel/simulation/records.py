"""What is written down about every round."""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _files
from airfeel.learning.tasks import Score
from airfeel.radio.units import RadioUnits
from airfeel.units import decibel, relative_error
from airfeel.uplink.result import Aggregate

Array = NDArray[np.floating[Any]]

UNITS = ("air_seconds", "joules")
"""what only a run with a table [radio] writes down"""


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
    air_seconds, joules
        Time on air so far, and what the device that spent most has sent with so far; only with a table
        [radio], and else not even in the file.
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
    joules: float | None = None

    def to_json(self) -> str:
        """Return one line of JSON; equal records give equal bytes."""
        row = {key: value for key, value in asdict(self).items() if value is not None or key not in UNITS}
        return json.dumps(row, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> "Record":
        """Undo :meth:`to_json`; keys of later versions are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in _files.parse_json(line).items() if key in known})


def make_record(
    round: int,
    aggregate: Aggregate,
    score: Score | None,
    sums: tuple[Array, Array],
    energy: float,
    symbols: int,
    units: RadioUnits | None = None,
) -> Record:
    """Put one round on record.

    ``sums`` are x^ and x summed over all rounds up to this one; ``energy`` and ``symbols`` are totals too.
    """
    nmse = _decibel(aggregate.nmse)
    found, overlap = _found_support(aggregate)
    info, radio = aggregate.info, aggregate.alpha is not None
    chain = None if info is None else info.chain
    return Record(
        round=round,
        accuracy=None if score is None else _finite(score.accuracy),
        loss=None if score is None else _finite(score.loss),
        nmse_db=nmse,
        above_zero_db=None if nmse is None else nmse > 0,
        cumulative_nmse_db=_decibel(relative_error(*sums)) if symbols else None,
        support=int(np.count_nonzero(aggregate.truth)),
        support_found=found,
        support_overlap=overlap,
        iterations=None if info is None else info.iterations,
        status=info.status if info is not None else "silent" if symbols and not radio else None,
        activity=None if chain is None else chain.activity,
        p01=None if chain is None else chain.p01,
        beta=None if chain is None else chain.beta,
        variance=None if chain is None else chain.variance,
        alpha=aggregate.alpha,
        noise_var=aggregate.noise_var,
        devices=int(np.count_nonzero(aggregate.active)),
        energy=energy,
        symbols=symbols,
        downlink=aggregate.downlink,
        air_seconds=None if units is None else units.air_seconds(symbols),
        joules=None if units is None else units.joules(energy),
    )


def _decibel(ratio: float | None) -> float | None:
    return None if ratio is None else decibel(ratio)


def _found_support(aggregate: Aggregate) -> tuple[int | None, int | None]:
    """Count the coefficients held for active, and those among them that are.

    For a spike and a narrow slab, mean^2 > variance says that the support probability is above 1/2.
    """
    if aggregate.variance is None:
        return None, None
    with np.errstate(over="ignore"):
        found = aggregate.mean**2 > aggregate.variance
    return int(np.count_nonzero(found)), int(np.count_nonzero(found & (aggregate.truth != 0)))


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold; a task without the notion of accuracy says nan."""
    return float(value) if math.isfinite(value) else None
