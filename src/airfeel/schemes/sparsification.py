"""Top-k (9)(10): what a device sends now, and what it keeps for later.

Arrays hold one device per row.
"""

import numpy as np

from airfeel import _checks
from airfeel.arrays import Array, Mask


def top_k(accumulated: Array, keep: int) -> tuple[Array, Array]:
    """Split each row into its ``keep`` entries of largest magnitude and the rest (9)(10).

    Exactly ``keep`` entries are kept; among equal magnitudes the lower index wins. kept + remainder equals
    the (finite) input bit for bit, because every entry goes to one side unchanged.

    >>> kept, remainder = top_k(np.array([[3.0, -4.0, 1.0, -3.0]]), keep=2)
    >>> kept + 0
    array([[ 3., -4.,  0.,  0.]])
    >>> remainder
    array([[ 0.,  0.,  1., -3.]])
    """
    size = accumulated.shape[1]
    keep = _checks.integer("keep", keep, at_least=0, at_most=size)
    if keep == 0:
        return np.zeros_like(accumulated), accumulated.copy()
    if keep == size:
        return accumulated.copy(), np.zeros_like(accumulated)
    # Times 0 or 1, and minus itself or zero, are exact, and several times as fast as np.where.
    kept = accumulated * largest(np.abs(accumulated), keep)
    return kept, accumulated - kept


def largest(values: Array, keep: int) -> Mask:
    """Mark the ``keep`` >= 1 largest entries of each row, the lower index first among equals."""
    split = values.shape[1] - keep
    threshold = np.partition(values, split, axis=1)[:, split, None]
    chosen = values >= threshold
    if np.count_nonzero(chosen) == keep * len(chosen):  # no ties, and counting all is faster than each row
        return chosen
    surplus = np.count_nonzero(chosen, axis=1) - keep
    for row in np.flatnonzero(surplus):
        ties = np.flatnonzero(values[row] == threshold[row])
        chosen[row, ties[len(ties) - surplus[row] :]] = False
    return chosen
