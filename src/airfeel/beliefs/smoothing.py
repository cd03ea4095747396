"""Look back over a window of rounds: backward messages and pairwise moments of the two chains.

Arrays are (rounds, coefficients); index i runs over the window's rounds, a pair i is (i - 1, i).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.beliefs.chains import Amplitude, ChainParams, Message

Array = NDArray[Any]


def smooth_support(filtered: Array, likelihood: Array, chain: ChainParams) -> tuple[Array, Array]:
    """Pass (65)-(69) backwards: return E[s_i] of every round and E[s_i s_i-1] of every pair.

    ``filtered`` is P(s_i = 1) given the rounds up to i; ``likelihood`` is the evidence pd of round i alone.
    """
    leave, stay, enter, rest = chain.p01, 1 - chain.p01, chain.p10, 1 - chain.p10
    tiny = np.finfo(filtered.dtype).tiny  # for rounds that exclude one another, possible only with p01 = 1
    on, off = likelihood.copy(), 1 - likelihood  # lb(last) = 1/2, and factors common to on and off cancel
    for i in range(len(on) - 1, 1, -1):
        from_active, from_idle = stay * on[i] + leave * off[i], enter * on[i] + rest * off[i]
        total = np.maximum(from_active + from_idle, tiny)
        on[i - 1] *= from_active / total
        off[i - 1] *= from_idle / total
    on, off, earlier = on[1:], off[1:], filtered[:-1]
    active = earlier * (stay * on + leave * off)
    weight = np.maximum(active + (1 - earlier) * (enter * on + rest * off), tiny)
    smoothed = np.concatenate([active / weight, filtered[-1:]])
    return smoothed, earlier * (stay * on) / weight


def smooth_amplitude(filtered: Amplitude, message: Message, chain: ChainParams) -> tuple[Array, Array]:
    """Return E[r_i r_i-1 - r_i-1^2] and E[(r_i - r_i-1)^2] of every pair, given the whole window.

    The amplitude messages go backwards in information form and are combined with the forward ones.
    For each pair the joint of (r_i-1, r_i) is Gaussian with precision [[1/vf + a^2/q, -a/q], [-a/q, 1/q +
    J]], where N(mf, vf) is the filtered belief at i - 1 and (J, h) all that the rounds from i on say about
    r_i. The moments below are its inverse written without cancellation, so that they also hold for beta =
    1, flat messages and vanishing q.
    """
    beta, a, q = chain.beta, 1 - chain.beta, chain.process_var
    precision, shift = message.precision.copy(), message.shift.copy()
    for i in range(len(shift) - 1, 1, -1):
        w = 1 + q * precision[i]
        precision[i - 1] += a * a * precision[i] / w
        shift[i - 1] += a * shift[i] / w
    precision, shift, mf, vf = precision[1:], shift[1:], filtered.mean[:-1], filtered.variance[:-1]
    qj = q * precision
    w = 1 + qj
    inverse = 1 / (w + a * a * vf * precision)
    before = (w * mf + a * vf * shift) * inverse
    step = (a * mf + (q + a * a * vf) * shift) * inverse - before
    drift = before * step - vf * (beta + qj) * inverse
    return drift, step * step + (vf * (beta * beta + qj) + q) * inverse
