"""The ledger of misprints names tests that exist; those of the theory's formulas are here."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_every_test_named_in_the_errata_exists():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "errata.md").read_text())
    assert len(named) >= 15
    for file, function in named:
        assert f"def {function}(" in (ROOT / "tests" / file).read_text(), (file, function)


@pytest.mark.parametrize("t", [1, 2, 7, 40])
def test_62_sums_the_memory_exactly(t):
    rho = np.sqrt(0.8)
    summed = sum(rho ** (t - i) for i in range(1, t)) + sum(rho ** (t + 1 - i) for i in range(1, t + 1))
    ours = rho * ((1 + rho) * (1 - rho ** (t - 1)) / (1 - rho) + 1)
    printed = rho * ((1 + rho) * (1 - rho**t) / (1 - rho) + 1)
    assert ours == pytest.approx(summed, rel=1e-12)
    assert printed > summed


def test_58_is_strong_convexity_only_the_other_way_round():
    """For F(v) = c |v|^2 / 2: F(v) - F(u) = grad(u) (v - u) + c |v - u|^2 / 2, an equality."""
    c, u, v = 0.5, np.array([1.0, -2.0]), np.array([0.3, 0.8])
    bound = c * u @ (v - u) + c / 2 * (v - u) @ (v - u)
    difference = c / 2 * (v @ v - u @ u)
    assert difference == pytest.approx(bound)
    assert -difference != pytest.approx(bound)
