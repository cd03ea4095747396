"""Look back over a window of rounds: backward messages and pairwise moments of the two chains.

Everything is per coefficient; index i runs over the window's rounds, a pair i is (i - 1, i).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import Amplitude, Chain, Message, numbers

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class SupportMoments:
    """E[s_i] of every round and E[s_i s_i-1] of every pair, given the whole window."""

    smoothed: list[Array]
    both: list[Array]


@dataclass(frozen=True, slots=True, eq=False)
class AmplitudeMoments:
    """Given the window: E[r_i r_i-1 - r_i-1^2] and E[(r_i - r_i-1)^2] of every pair."""

    drift: list[Array]
    jump: list[Array]


def smooth_support(filtered: Sequence[Array], likelihood: Sequence[Array], chain: Chain) -> SupportMoments:
    """Pass (65)-(69) backwards: E[s_i] and the 2 x 2 joint of neighbours.

    ``filtered`` is P(s_i = 1) given the rounds up to i; ``likelihood`` is the evidence pd of round i alone.
    """
    leave, stay, enter, rest = numbers(chain, lambda c: (c.p01, 1 - c.p01, c.p10, 1 - c.p10))
    tiny = np.finfo(filtered[0].dtype).tiny  # for rounds that exclude one another, possible only with p01 = 1
    smoothed, both = [filtered[-1]], []
    on, off = likelihood[-1], 1 - likelihood[-1]  # lb(last) = 1/2, and factors common to on and off cancel
    for i in range(len(filtered) - 1, 0, -1):
        from_active = stay * on
        joint = filtered[i - 1] * from_active  # s = 1 in both rounds
        from_active += leave * off
        from_idle = enter * on
        from_idle += rest * off
        active = filtered[i - 1] * from_active
        weight = active + (1 - filtered[i - 1]) * from_idle
        np.maximum(weight, tiny, out=weight)
        joint /= weight
        active /= weight
        both.append(joint)
        smoothed.append(active)
        from_idle += from_active  # now the normaliser of the backward message
        from_active /= np.maximum(from_idle, tiny, out=from_idle)
        on = likelihood[i - 1] * from_active
        off = (1 - likelihood[i - 1]) * (1 - from_active)
    return SupportMoments(smoothed[::-1], both[::-1])


def smooth_amplitude(
    filtered: Sequence[Amplitude], messages: Sequence[Message], chain: Chain
) -> AmplitudeMoments:
    """Pass the amplitude messages backwards in information form and combine them with the forward ones.

    For each pair the joint of (r_i-1, r_i) is Gaussian with precision [[1/vf + a^2/q, -a/q], [-a/q, 1/q +
    J]], where N(mf, vf) is the filtered belief at i - 1 and (J, h) all that the rounds from i on say about
    r_i. The moments below are its inverse written without cancellation, so that they also hold for beta =
    1, flat messages and vanishing q.
    """
    a, q, beta = numbers(chain, lambda c: (1 - c.beta, c.process_var, c.beta))
    a_square, beta_square = numbers(chain, lambda c: ((1 - c.beta) * (1 - c.beta), c.beta * c.beta))
    drift, jump = [], []
    precision, shift = messages[-1].precision, messages[-1].shift
    for i in range(len(messages) - 1, 0, -1):
        mf, vf = filtered[i - 1].mean, filtered[i - 1].variance
        qj = q * precision
        w = 1 + qj
        inverse = 1 / (w + a_square * vf * precision)
        before = (w * mf + a * vf * shift) * inverse
        step = (a * mf + (q + a_square * vf) * shift) * inverse - before
        drift.append(before * step - vf * (beta + qj) * inverse)
        jump.append(step * step + (vf * (beta_square + qj) + q) * inverse)
        precision = messages[i - 1].precision + a_square * precision / w
        shift = messages[i - 1].shift + a * shift / w
    return AmplitudeMoments(drift[::-1], jump[::-1])
