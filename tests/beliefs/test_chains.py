"""One step of the two Markov chains, and the paper's amplitude message, against plain probability."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from airfeel.beliefs import chains
from airfeel.beliefs.chains import ChainParams
from airfeel.beliefs.spike_slab import EXPONENTS

CHAIN = ChainParams(activity=0.2, p01=0.15, beta=0.3, variance=1.7)


def test_activity_is_stationary():
    transition = np.array([[1 - CHAIN.p10, CHAIN.p10], [CHAIN.p01, 1 - CHAIN.p01]])
    assert np.allclose([0.8, 0.2] @ transition, [0.8, 0.2])


def test_variance_is_stationary():
    # (19) with innovation variance xi leaves gamma where it is.
    xi, beta = CHAIN.innovation_var, CHAIN.beta
    assert (1 - beta) ** 2 * 1.7 + beta**2 * xi == pytest.approx(1.7)
    assert CHAIN.process_var == pytest.approx(beta**2 * xi)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"activity": 0.0}, "activity = 0"),
        ({"activity": 1.0}, "activity = 1"),
        ({"p01": 0.0}, "p01 = 0"),
        ({"activity": 0.9, "p01": 0.5}, "p01 = 0.5: must be <= .1 - activity./activity"),
        ({"beta": 0.0}, "beta = 0"),
        ({"p01": "0.1"}, "p01 = .0.1.: must be a finite number"),
    ],
)
def test_chains_that_do_not_exist_are_refused(change, named):
    with pytest.raises(ValueError, match="^" + named):
        ChainParams(**{"activity": 0.2, "p01": 0.1, "beta": 0.1, "variance": 1.0, **change})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_came_from_active_stays_a_probability_where_rounding_decides(dtype):
    support = np.array([0, np.finfo(dtype).tiny, 0.5, 1 - np.finfo(dtype).epsneg, 1], dtype=dtype)
    for activity in (0.5 + 1e-9, 0.3, 1e-9):
        for p01 in (1 - 4e-9, 1e-9, 0.4):
            chain = ChainParams(activity, min(p01, (1 - activity) / activity), 0.3, 1.0)
            for share in chains.came_from_active(support, chain):
                assert ((share >= 0) & (share <= 1)).all()


def log_mixture(r, lam, z, tau, eps):
    """The logarithm of (34) in many digits: both components, with Omega, as printed."""
    omega = eps * lam / ((1 - lam) + eps * lam)

    def component(weight, mean, variance):
        return weight / variance.sqrt() * (-((r - mean) ** 2) / (2 * variance)).exp()

    return (component(1 - omega, z / eps, tau / eps**2) + component(omega, z, tau)).ln()


def expand(lam, z, tau):
    """First and second derivative of the log mixture at r = z by central differences in 80 digits."""
    with localcontext() as context:
        context.prec = 80
        context.Emin, context.Emax = -(10**9), 10**9
        lam, z, tau, eps = (Decimal(float(value)) for value in (lam, z, tau, chains.EPSILON))
        step = Decimal("1e-20") * tau.sqrt()
        below, middle, above = (log_mixture(z + k * step, lam, z, tau, eps) for k in (-1, 0, 1))
        slope = (above - below) / (2 * step)
        curvature = (above - 2 * middle + below) / step**2
        return float(slope), float(curvature)


EXPANSIONS = [
    (lam, z, tau)
    for lam in (1e-6, 0.01, 0.3, 0.999)
    for z in (-30.0, -3.0, 0.0, 0.5, 8.0)
    for tau in (0.01, 1.0, 20.0)
]


def test_expansion_message_is_the_second_order_expansion():
    lam, z, tau = (np.array(column) for column in zip(*EXPANSIONS, strict=True))
    message = chains.expansion_message(lam, z, tau)
    slope, curvature = np.array([expand(*case) for case in EXPANSIONS]).T
    informative = curvature < 0  # vbar = -1/h only makes sense there
    precision = np.where(informative, -curvature, 0)
    shift = np.where(informative, slope - curvature * z, 0)  # precision times rbar = z - g/h
    assert np.allclose(message.precision, precision, rtol=1e-8, atol=0)
    assert np.allclose(message.shift, shift, rtol=1e-8, atol=1e-30)


def test_expansion_message_is_silent_where_the_mixture_is_convex():
    # Midway between two components of equal weight, very far apart, the log mixture bends upwards.
    z, tau = np.array([1e8, -1e8, 1.0]), np.array(1.0)
    exponent = np.maximum(-((1 - chains.EPSILON) ** 2) * z**2 / 2, EXPONENTS[z.dtype][0])
    equal = np.exp(-exponent)  # odds against at which both components weigh the same at r = z
    message = chains.expansion_message(1 / (1 + equal), z, tau)
    assert message.precision[:2].tolist() == [0, 0] and message.shift[:2].tolist() == [0, 0]
    assert message.precision[2] == pytest.approx(0.5, rel=1e-6)


def test_expansion_message_of_a_coefficient_that_cannot_be_active():
    message = chains.expansion_message(np.zeros(3), np.array([-2.0, 0.0, 1e6]), np.array(0.5))
    assert np.allclose(message.precision, chains.EPSILON**2 / 0.5)
    assert np.isfinite(message.shift).all()
