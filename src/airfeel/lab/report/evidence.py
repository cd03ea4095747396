"""How easily chance alone gives a verdict, and which verdicts stand when many are given at once.

A claim is *reproduced* if all of its comparisons hold: a claim that does not hold has one that does not, and
the chance that this one's 95 % interval lies wholly on the claimed side is at most 2.5 % (an
intersection-union test, which needs no correction). A claim is *not reproduced* if any comparison fails, so
that there the chances of all comparisons add up. Over many claims, Holm's method says which verdicts stand.
"""

import math
from collections.abc import Sequence

from scipy.special import stdtr, stdtrit

from airfeel.lab.report.means import Mean

LEVEL = 0.05  # chance that any verdict among those that stand is wrong


def chance_inside(mean: Mean, low: float, high: float) -> float:
    """Return how easily a number outside a range, or at its limits, gives a mean so far inside it."""
    return max(_beyond(mean, low, 1), _beyond(mean, high, -1))


def chance_outside(mean: Mean, low: float, high: float) -> float:
    """Return how easily a number inside a range gives a mean so far outside it."""
    limits = math.isfinite(low) + math.isfinite(high)
    sides = [_beyond(mean, limit, sign) for limit, sign in ((low, -1), (high, 1)) if math.isfinite(limit)]
    return min(1.0, limits * min(sides))


def holm(chances: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Return which of several findings stand, such that any of these is false with a chance below ``level``.

    >>> holm([0.04, 0.01, 0.02]), holm([0.04, 0.012, 0.03])
    ([True, True, True], [False, True, False])
    """
    stands = [False] * len(chances)
    for done, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[place] > level / (len(chances) - done):
            break
        stands[place] = True
    return stands


def _beyond(mean: Mean, limit: float, sign: int) -> float:
    """Return the one-sided p-value of Student's test that the number is above (1) or below (-1) a limit."""
    if not math.isfinite(limit):
        return 0.0
    distance = sign * (mean.value - limit)
    error = (mean.high - mean.value) / float(stdtrit(mean.seeds - 1, 0.975))
    if error == 0:  # all seeds alike
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(mean.seeds - 1, -distance / error))
