"""Random numbers addressed by what they are for.

A run never carries generator state: every draw is named by (seed, purpose, round, device), so competing
schemes meet the same data, rows and noise, a run resumes at any round, and the number of workers cannot
change a result.
"""

import hashlib

import numpy as np

from airfeel import _checks


def stream(seed: int, purpose: str, round: int = 0, device: int = 0) -> np.random.Generator:
    """Return the generator for ``purpose`` in one round on one device, independent of all others.

    >>> a = stream(7, "noise", round=3).standard_normal()
    >>> a == stream(7, "noise", round=3).standard_normal()
    True
    >>> a == stream(7, "noise", round=4).standard_normal()
    False
    """
    return np.random.Generator(bits(seed, purpose, round, device))


def derived(seed: int, purpose: str, round: int = 0) -> int:
    """Return a seed that others can be told, as a plan does: what they draw from it, both sides know."""
    return int(bits(seed, purpose, round).random_raw() >> 1)


def bits(seed: int, purpose: str, round: int = 0, device: int = 0) -> np.random.Philox:
    """Return the bit generator behind :func:`stream`.

    Its raw 64-bit output is part of NumPy's compatibility promise, so what is derived from it alone (such as
    the rows of an operator) is the same with every NumPy version and on every platform.
    """
    for name, value in (("seed", seed), ("round", round), ("device", device)):
        _checks.integer(name, value, at_least=0)
    address = f"{int(seed)}/{purpose}/{int(round)}/{int(device)}".encode()
    key = hashlib.blake2b(address, digest_size=16).digest()
    return np.random.Philox(key=np.frombuffer(key, dtype="<u8").astype(np.uint64))
