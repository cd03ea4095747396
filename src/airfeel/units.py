"""Conversions that everybody shares."""


def count(share: float, size: int) -> int:
    """Return ``share`` of ``size`` as a whole number, at least one.

    >>> count(0.1, 7850), count(1e-9, 10)
    (785, 1)
    """
    return max(1, round(share * size))
