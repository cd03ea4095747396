"""How the receiver's iterations ended, counted over rounds."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endings:
    """How many rounds a receiver reported on; how many of them diverged, and hit the iteration limit."""

    rounds: int
    diverged: int
    limited: int

    def facts(self) -> dict[str, int | None]:
        """Return the counts as ``summary.json`` has them: None for a scheme without a receiver."""
        counted = {"rounds_diverged": self.diverged, "rounds_at_limit": self.limited}
        return {key: count if self.rounds else None for key, count in counted.items()}


def count_endings(statuses: Iterable[str | None]) -> Endings:
    """Count what the records call ``status``.

    >>> count_endings(["converged", "diverged", "iteration limit", "silent", "diverged"])
    Endings(rounds=4, diverged=2, limited=1)
    >>> count_endings([None, None]).facts()
    {'rounds_diverged': None, 'rounds_at_limit': None}
    """
    # Silent is a round in which nothing was heard, with a receiver or without.
    found = [status for status in statuses if status not in (None, "silent")]
    return Endings(len(found), found.count("diverged"), found.count("iteration limit"))
