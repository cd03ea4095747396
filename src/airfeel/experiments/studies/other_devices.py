"""What other devices do to the error of a profile: more or fewer of them, and some of them silent.

The devices of a profile are all heard in every round, and as they hold alike data they choose the same
coefficients in the same rounds: the aggregate has a rhythm of its own that no receiver can foresee. Only what
differs among the devices averages out, as 1/M. Where devices are silent at random they fall out of step, and
more of the error does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from airfeel.units import decibel, from_decibel

FARTHEST = 4.0  # times the profile's devices: beyond, more devices are promised to do no more good
ENOUGH = 0.01  # share of the devices that have to be silent in a round to put them all out of step
STEADY_DB, STEPPING_DB = 0.1, 0.6  # by how much such changes differ between seeds: by M, and by silence
# A device that missed rounds comes back with what it kept, which no receiver foresees either. Where OFTEN of
# those that compute are missing, it is in what was measured; where SELDOM or more are, four trainings had 1.3
# to 2.9 dB beyond that. Half of BACKLOG_DB is promised, and limits are all of it and nothing; beyond MOST,
# where errors grow faster, nothing is told.
OFTEN, SELDOM, MOST, BACKLOG_DB = 1 / 11, 0.3, 0.35, 3.0


@dataclass(frozen=True, slots=True)
class Changed:
    """By how many dB the error of one link changed, which the profile has with ``nmse_db``."""

    nmse_db: float
    doubled_db: float
    """with twice as many devices, at the same receive SNR"""
    silent_db: float
    """with some of them silent, at the same noise"""
    both_db: float


@dataclass(frozen=True, slots=True)
class OtherDevices:
    """What was measured beside the links of a profile with so many ``devices``."""

    devices: int
    links: Sequence[Changed]

    def change_db(self, nmse_db: float, devices: int, silent: float = 0.0) -> tuple[float, float]:
        """Return what to add to the error that the profile has, and by how much that may be wrong.

        ``silent`` is the share of the devices that is not heard in a round. The error is linear in 1/M, and
        interpolated between the links that were measured; at 0 dB nothing is heard and nothing changes.
        """
        more = 1 - self.devices / min(devices, FARTHEST * self.devices)  # 0 for M, 1/2 for 2 M
        stepping = min(1.0, silent / ENOUGH)
        known = sorted(self.links, key=lambda link: link.nmse_db)
        changes = [_at(link, more, stepping) for link in known]
        doubt = STEADY_DB * abs(more) + STEPPING_DB * stepping
        levels = [link.nmse_db for link in known]
        return float(np.interp(nmse_db, [*levels, 0.0], [*changes, 0.0])), doubt


def backlog_db(late: float) -> float:
    """Return what to add where this share of the devices misses a round, which may be wrong by as much."""
    if late > MOST:
        rule = f"must be at most {MOST:g} with --profile; train with them and give the folder of the run"
        raise ValueError(f"share of the devices that computed and cannot send = {late:.2f}: {rule}")
    return BACKLOG_DB / 2 * min(1.0, max(0.0, late - OFTEN) / (SELDOM - OFTEN))


def _at(link: Changed, more: float, stepping: float) -> float:
    """Return the change at one link in dB: in the error itself, a plane through what was measured."""
    doubled, silent, both = map(from_decibel, (link.doubled_db, link.silent_db, link.both_db))
    heard = 1 + 2 * more * (doubled - 1)
    unheard = silent + 2 * more * (both - silent)
    least = min(doubled, both) / 2  # a line must not be followed to nothing
    return decibel(max(least, heard + stepping * (unheard - heard)))
