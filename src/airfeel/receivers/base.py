"""The seam between physics and inference: a reception goes in, an estimate comes out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
from annotated_types import Ge
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from airfeel import _checks
from airfeel.arrays import Array as Array

if TYPE_CHECKING:
    from airfeel.beliefs.chains import ChainParams

Tolerance = Annotated[float, Ge(0)]
Precision = Literal["float32", "float64"]


@dataclass(frozen=True, slots=True, eq=False)
class Reception:
    """What the server holds after one round: y = A x + n with independent noise (13).

    Whoever has a real radio builds these and needs nothing else of the channel code. The ``operator`` is a
    SciPy linear operator, a sparse matrix or an array. Orthonormal rows, A A^T = I, are fast at any size; any
    other matrix is decoded by its singular values, up to 4,000 rows or columns.

    ``noise_var`` is the variance of the noise in an entry of ``observation``: a number, or one number per
    entry. In a complex entry the noise is circular, half of it in either part.

    **I/Q samples, x real.** The operator's type tells what a complex ``observation`` is. A complex operator
    has a row for every entry. With a real operator an entry is a channel use: entry e has rows 2e (in phase)
    and 2e + 1 (quadrature) of the operator, the last one a single row where their number is odd. Both are
    stored as real measurements: first all real parts, then all imaginary parts, or in the order of the rows.

    >>> from airfeel.operators import PartialDCT
    >>> operator = PartialDCT(size=8, rows=4, seed=0)
    >>> uses = Reception(np.array([1 + 2j, 3 - 4j]), operator, noise_var=0.2)
    >>> uses.observation, uses.noise_var
    (array([ 1.,  2.,  3., -4.]), 0.1)
    """

    observation: Array
    operator: LinearOperator
    noise_var: float | Array

    def __post_init__(self) -> None:
        """Refuse an observation that does not fit the operator."""
        operator = linear_operator(self.operator)
        rows, observation = int(operator.shape[0]), np.asarray(self.observation)
        samples = np.issubdtype(operator.dtype, np.complexfloating)
        uses = np.iscomplexobj(observation) and not samples
        entries = (rows + 1) // 2 if uses else rows
        if (samples or uses) and observation.shape != (entries,):
            rule = f"must be {rows} samples, one for each row of the complex operator"
            if uses:
                rule = (
                    f"must be {entries} complex channel uses for the operator's {rows} rows, two each as x "
                    "is real; or an operator of complex type, a row for each"
                )
            raise ValueError(f"observation has shape {observation.shape}: {rule}")
        noise_var: Any
        if np.ndim(self.noise_var) == 0:
            noise_var = _checks.real("noise_var", self.noise_var, at_least=0)
        else:
            noise_var = _checks.vector("noise_var", self.noise_var, entries)
            if (noise_var < 0).any():
                bad = int(np.flatnonzero(noise_var < 0)[0])
                raise _checks.reject(f"noise_var[{bad}]", float(noise_var[bad]), "every entry must be >= 0")
        if samples or uses:
            parts = np.stack([observation.real, observation.imag], axis=int(uses)).reshape(-1)
            noise_var = noise_var / 2
            if samples:
                operator, rows = real_form(operator), 2 * rows
            if np.ndim(noise_var):
                noise_var = (np.repeat(noise_var, 2) if uses else np.tile(noise_var, 2))[:rows]
            observation = parts[:rows]
        observation = _checks.vector("observation", observation, rows)
        object.__setattr__(self, "operator", operator)
        object.__setattr__(self, "observation", observation)
        object.__setattr__(self, "noise_var", noise_var)


def linear_operator(matrix: Any) -> LinearOperator:
    """Return an array, a sparse matrix or a linear operator as a linear operator on numbers."""
    given = isinstance(matrix, LinearOperator | np.ndarray) or sparse.issparse(matrix)
    kind = matrix.dtype.kind if given and matrix.dtype is not None else "O"
    if kind not in "biufc" or len(matrix.shape) != 2 or not min(matrix.shape):
        rule = "must be a scipy.sparse.linalg.LinearOperator, a sparse matrix or an array (rows, N)"
        raise _checks.reject("operator", matrix, f"{rule} of numbers")
    return aslinearoperator(matrix)


def real_form(operator: LinearOperator) -> LinearOperator:
    """Return the operator of a real x whose rows are the real parts, then the imaginary parts, of A x."""
    rows, size = operator.shape

    def forward(x: Array) -> Array:
        product = operator.dot(x)
        return np.concatenate([product.real, product.imag])

    def adjoint(y: Array) -> Array:
        return np.asarray(operator.H.dot(y[:rows] + 1j * y[rows:]).real)

    both = {"matvec": forward, "rmatvec": adjoint, "matmat": forward, "rmatmat": adjoint}
    return LinearOperator((2 * rows, size), dtype=np.float64, **both)


@dataclass(frozen=True, slots=True)
class Info:
    """How a round of recovery went.

    ``status`` is ``"converged"``, ``"iteration limit"``, ``"diverged"`` (the best iterate was returned) or
    ``"silent"`` (only zeros were received so far). ``tau`` is the variance of the pseudo-observation z = x
    + N(0, tau) that the estimate rests on, averaged over blocks. ``chain`` holds the parameters in force
    during this round. ``restarted`` says that the level changed so abruptly that the memory was dropped,
    ``surprised`` that the round contradicted the prior, which was then doubted.
    """

    iterations: int
    status: str
    tau: float
    chain: "ChainParams | None" = None
    restarted: bool = False
    surprised: bool = False

    @property
    def converged(self) -> bool:
        """Whether the iteration settled."""
        return self.status in ("converged", "silent")

    @property
    def diverged(self) -> bool:
        """Whether the iteration had to be cut off."""
        return self.status == "diverged"


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The recovered aggregate: the mean of every coefficient, and where it is known its posterior variance.

    ``info`` says how the recovery went; None where nothing was recovered.
    """

    mean: Array
    variance: Array | None = None
    info: Info | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """The state of a receiver without memory: the number of coefficients."""

    size: int


State = TypeVar("State")


class Receiver(Protocol[State]):
    """Two pure functions and a frozen state; the receiver object itself only holds parameters."""

    def init(self, size: int) -> State:
        """Return the state before the first round, for ``size`` coefficients."""

    def receive(self, state: State, reception: Reception) -> tuple[Estimate, State]:
        """Recover one round and carry what it taught into the next state."""


def require_size(size: int, reception: Reception) -> None:
    """Refuse a reception whose operator does not fit the state."""
    columns = int(reception.operator.shape[1])
    if columns != size:
        raise _checks.reject("operator", reception.operator, f"must have {size} columns like the state")
