"""The two Markov chains behind every coefficient x_n = s_n r_n (17)-(19)."""

from dataclasses import dataclass

from airfeel import _checks


@dataclass(frozen=True, slots=True)
class ChainParams:
    """Parameters of the support chain (18) and the amplitude chain (19).

    ``activity`` is lambda = P(s = 1), ``p01`` = P(1 -> 0), ``beta`` the forgetting coefficient of the
    amplitude and ``variance`` its stationary variance gamma.

    >>> chain = ChainParams(activity=0.05, p01=0.01, beta=0.01, variance=1.0)
    >>> round(chain.p10, 6)
    0.000526
    """

    activity: float
    p01: float
    beta: float
    variance: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values outside the ranges in which both chains exist."""
        activity = _checks.real("activity", self.activity, above=0, below=1)
        p01 = _checks.real("p01", self.p01, above=0, at_most=1)
        _checks.real("beta", self.beta, above=0, at_most=1)
        _checks.real("variance", self.variance, above=0)
        if p01 > (1 - activity) / activity:
            limit = (1 - activity) / activity
            raise _checks.reject("p01", p01, f"must be <= (1 - activity)/activity = {limit:g}, or p10 > 1")

    @property
    def p10(self) -> float:
        """P(0 -> 1), which makes ``activity`` the stationary probability."""
        return min(1.0, self.activity * self.p01 / (1 - self.activity))

    @property
    def process_var(self) -> float:
        """Variance q = beta^2 xi = beta (2 - beta) gamma of the amplitude's innovation."""
        return self.beta * (2 - self.beta) * self.variance
