"""Theorem 3: how far from the optimum training can be, from the errors of sparsification and recovery.

For a loss that is c-strongly convex with an L-Lipschitz gradient, trained with rate 1/L and one local step.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import ArrayLike

from airfeel import _checks
from airfeel.arrays import Array
from airfeel.ranges import Checked


@dataclass(frozen=True, slots=True)
class LossConstants(Checked):
    """What Assumptions 1 to 3 ask of the loss.

    ``strong_convexity`` is c, ``smoothness`` L. ``gradient_bound`` is G, which has to bound the norm of
    every device's local gradient, not only of the global one.
    """

    strong_convexity: Annotated[float, Gt(0)]
    smoothness: Annotated[float, Gt(0)]
    gradient_bound: Annotated[float, Ge(0)]

    def __post_init__(self) -> None:
        """Refuse constants that no loss has."""
        Checked.__post_init__(self)
        _checks.real("strong_convexity", self.strong_convexity, at_most=self.smoothness)


def sparsification_bound(constants: LossConstants, keep: int, size: int, rounds: int) -> Array:
    """Return [G rho ((1 + rho)(1 - rho^(t-1)) / (1 - rho) + 1)]^2 for t = 1..rounds (62).

    It bounds the squared distance of the sparsified from the full aggregate: rho = ((N - k)/N)^(1/2) is what
    top-k leaves of a vector at most, and the error memory adds up its powers.
    """
    rho = _remainder(keep, size)
    t = np.arange(1, _checks.integer("rounds", rounds, at_least=1) + 1)
    series = (1 + rho) * (1 - rho ** (t - 1)) / (1 - rho) + 1
    return np.asarray((constants.gradient_bound * rho * series) ** 2)


def kappa(constants: LossConstants, keep: int, size: int, phi: ArrayLike) -> Array:
    """Return kappa_t of (62) for every round; ``phi`` holds phi_t, the recovery's MSE per coefficient."""
    phi = np.asarray(phi, dtype=float)
    if phi.ndim != 1 or not np.all(np.isfinite(phi) & (phi >= 0)):
        raise ValueError("phi: must be a vector of finite numbers >= 0, one for each round")
    return size * phi + sparsification_bound(constants, keep, size, len(phi))


def loss_bound(constants: LossConstants, keep: int, size: int, phi: ArrayLike, initial_gap: float) -> Array:
    """Return Theorem 3's bound (61) on loss - loss* after every round.

    >>> easy = LossConstants(strong_convexity=0.1, smoothness=1.0, gradient_bound=0.0)
    >>> loss_bound(easy, keep=5, size=10, phi=[0.0, 0.0], initial_gap=1.0).round(2)
    array([0.9 , 0.81])
    """
    return _accumulate(constants, kappa(constants, keep, size, phi) / constants.smoothness, initial_gap)


def loss_bound_limit(constants: LossConstants, keep: int, size: int, phi: float) -> float:
    """Return what the bound (61) tends to for T to infinity, when phi_t never exceeds ``phi``."""
    rho = _remainder(keep, size)
    sparsification = (constants.gradient_bound * rho * ((1 + rho) / (1 - rho) + 1)) ** 2
    recovery = size * _checks.real("phi", phi, at_least=0)
    return (recovery + sparsification) / constants.strong_convexity


def measured_error_bound(constants: LossConstants, squared_errors: ArrayLike, initial_gap: float) -> Array:
    """Return the sharper inequality (83): the bound on loss - loss* from the squared errors ||x^ - g||^2.

    g is the true global gradient, so each error holds what sparsification and recovery did together.
    """
    errors = np.asarray(squared_errors, dtype=float)
    return _accumulate(constants, errors / (2 * constants.smoothness), initial_gap)


def _accumulate(constants: LossConstants, terms: Array, initial_gap: float) -> Array:
    """Return gap_t = (1 - c/L) gap_t-1 + term_t."""
    gap = _checks.real("initial_gap", initial_gap, at_least=0)
    gaps = []
    for term in terms:
        gap = (1 - constants.strong_convexity / constants.smoothness) * gap + float(term)
        gaps.append(gap)
    return np.array(gaps)


def _remainder(keep: int, size: int) -> float:
    size = _checks.integer("size", size, at_least=1)
    keep = _checks.integer("keep", keep, at_least=1, at_most=size)
    return float(np.sqrt((size - keep) / size))
