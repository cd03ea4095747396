"""What no receiver beats, and what one without any idea of sparsity reaches: yardsticks for one round."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, lsqr

from airfeel import _checks
from airfeel.arrays import Array, Indices


def genie_least_squares(
    observation: ArrayLike, operator: LinearOperator, support: ArrayLike, *, tolerance: float = 1e-10
) -> Array:
    """Return the least-squares estimate for a support that is known (the genie).

    The best unbiased estimate given the support: its error is the noise that falls into the measured
    dimensions of the support. No receiver that has to find the support itself and knows nothing of earlier
    rounds or of the amplitudes' prior does better on average.

    ``support`` is a boolean mask of the N coefficients that may differ from zero, at most s of them;
    ``tolerance`` the relative accuracy of the iterative solution (LSQR).

    >>> import numpy as np, airfeel as af
    >>> x = np.zeros(100); x[[3, 50]] = 1.0, -2.0
    >>> operator = af.PartialDCT(size=100, rows=20, seed=0)
    >>> bool(np.allclose(genie_least_squares(operator @ x, operator, x != 0), x))
    True
    """
    rows, size = operator.shape
    y = _checks.vector("observation", observation, rows).astype(np.float64)
    known = np.asarray(support)
    if known.dtype != bool or known.shape != (size,):
        stated = f"support has dtype {known.dtype} and shape {known.shape}"
        raise ValueError(f"{stated}: must be a boolean mask of length {size}")
    chosen = np.flatnonzero(known)
    if chosen.size > rows:
        raise _checks.reject("support", chosen.size, f"must hold at most rows = {rows} coefficients")
    x = np.zeros(size)
    if chosen.size:
        part, limit = _columns(operator, chosen), 20 * chosen.size + 100
        x[chosen] = lsqr(part, y, atol=tolerance, btol=tolerance, conlim=0, iter_lim=limit)[0]
    return x


def lmmse(
    observation: ArrayLike, operator: LinearOperator, noise_var: float, signal_var: float
) -> tuple[Array, float]:
    """Return the linear MMSE estimate of one round and its mean-squared error per coefficient.

    Knows the signal's power and nothing else: x ~ (0, ``signal_var`` I). For A A^T = I the estimate is
    v / (v + sigma^2) A^T y, see (22), and its error v - (s/N) v^2 / (v + sigma^2), see (23). As at most s of
    N dimensions are seen, its NMSE is at least 1 - s/N.
    A A^T = I must hold: a padded PartialDCT goes through its ``extended`` form. ``signal_var`` is the mean
    square v of a coefficient (lambda gamma in the model (16)).
    """
    rows, size = operator.shape
    y = _checks.vector("observation", observation, rows).astype(np.float64)
    noise = _checks.real("noise_var", noise_var, at_least=0)
    v = _checks.real("signal_var", signal_var, above=0)
    back = operator.rmatvec(y)
    if not np.allclose(operator.matvec(back), y, rtol=0, atol=1e-3 * float(np.abs(y).max(initial=1e-300))):
        raise _checks.reject("operator", operator, "rows must be orthonormal, A A^T = I")
    return v / (v + noise) * back, v - rows / size * v**2 / (v + noise)


def _columns(operator: LinearOperator, chosen: Indices) -> LinearOperator:
    """Return the operator restricted to some columns."""
    rows, size = operator.shape

    def forward(coefficients: Array) -> Array:
        x = np.zeros(size)
        x[chosen] = coefficients.reshape(-1)
        return np.asarray(operator.matvec(x))

    def adjoint(y: Array) -> Array:
        return np.asarray(operator.rmatvec(y.reshape(-1)))[chosen]

    return LinearOperator((rows, chosen.size), matvec=forward, rmatvec=adjoint, dtype=np.float64)
