import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airfeel.radio.power import EnergyExceeded, EqualPower, Ledger, LongTermPower


def test_equal_power_spends_exactly_p_on_the_strongest_device():
    demand = np.array([1.0, 8.0, 0.0])
    alpha = EqualPower(500.0).alpha(demand, Ledger.open(3))
    np.testing.assert_allclose(alpha * demand, [62.5, 500.0, 0.0])


@pytest.mark.parametrize("policy", [EqualPower(1.0), LongTermPower(1.0)])
def test_nothing_to_send_means_no_alpha(policy):
    assert policy.alpha(np.zeros(3), Ledger.open(3)) is None
    assert policy.alpha(np.array([0.0, 5e-324]), Ledger.open(2)) is None  # its scale would overflow


@given(st.integers(0, 2**32 - 1))
def test_long_term_power_holds_at_every_prefix_and_never_sends_weaker(seed):
    rng = np.random.default_rng(seed)
    equal, saving = EqualPower(2.0), LongTermPower(2.0)
    ledger = Ledger.open(4)
    for t in range(1, 30):
        demand = rng.exponential(size=4) * (rng.random(4) < 0.7)
        alpha = saving.alpha(demand, ledger)
        if alpha is None:
            alpha = 0.0
            assert not demand.any()
        else:
            assert alpha >= equal.alpha(demand, ledger) * (1 - 1e-12)
        ledger = ledger.charge(alpha * demand, saving.power)  # raises where (7) fails
        assert (ledger.spent <= t * 2.0 * (1 + 1e-9)).all()


def test_long_term_power_uses_what_was_saved():
    policy, ledger = LongTermPower(1.0), Ledger.open(2)
    ledger = ledger.charge(policy.alpha(np.array([1.0, 0.25]), ledger) * np.array([1.0, 0.25]), 1.0)
    np.testing.assert_allclose(ledger.spent, [1.0, 0.25])
    assert policy.alpha(np.array([0.0, 1.0]), ledger) == pytest.approx(1.75)


def test_the_audit_stops_a_device_that_would_exceed_p():
    ledger = Ledger.open(2).charge(np.array([1.0, 0.5]), 1.0)
    with pytest.raises(EnergyExceeded, match=r"device 0 would have spent 2\.01 after 2 rounds"):
        ledger.charge(np.array([1.01, 1.5]), 1.0)
    with pytest.raises(EnergyExceeded, match="device 1"):
        ledger.charge(np.array([0.0, np.nan]), 1.0)
    assert ledger.charge(np.array([1.0, 1.5]), 1.0).rounds == 2


@pytest.mark.parametrize("policy", [EqualPower, LongTermPower])
@pytest.mark.parametrize("power", [0.0, -1.0, np.inf, "much"])
def test_power_must_be_positive(policy, power):
    with pytest.raises(ValueError, match="power = "):
        policy(power)
