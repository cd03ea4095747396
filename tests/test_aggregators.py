from dataclasses import dataclass

import numpy as np
import pytest

from airfeel.aggregators import CommonK, ErrorFree, OverTheAir
from airfeel.aggregators.base import Air
from airfeel.aggregators.common_k import coordinates
from airfeel.aggregators.over_the_air import shared_seed
from airfeel.channels import FadingMAC, GaussianMAC
from airfeel.operators import GaussianMatrix, PartialDCT
from airfeel.receivers.base import Estimate, Info
from airfeel.receivers.tsaga import TSAGA
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.transmit import EnergyExceeded, EqualPower, LongTermPower

DEVICES, SIZE = 6, 200
WEIGHTS = np.array([5.0, 1.0, 2.0, 4.0, 3.0, 1.0]) / 16
SILENT_AIR = Air(GaussianMAC(0.0), EqualPower(500.0))
CHANNELS = [GaussianMAC(1.0), FadingMAC(threshold=0.6, csi_error=0.02, phase_error=0.2)]
POLICIES = [EqualPower(500.0), LongTermPower(500.0)]


@dataclass(frozen=True)
class Adjoint:
    """The simplest receiver, x^ = A^T y: exact when s = N and there is no noise."""

    def init(self, size):
        return 0

    def receive(self, state, reception):
        mean = reception.operator.T @ reception.observation
        return Estimate(mean, np.zeros_like(mean), Info(1, "converged", 0.0)), state + 1


def gradients(rounds=1, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((rounds, DEVICES, SIZE)) ** 3).astype(dtype)


def schemes(air, ratio=0.25, sparsity=0.3):
    return {
        "over the air": OverTheAir(Adjoint(), ratio, sparsity, air),
        "Gaussian matrix": OverTheAir(Adjoint(), ratio, sparsity, air, GaussianMatrix),
        "common k": CommonK(ratio, air),
        "error-free": ErrorFree(sparsity),
    }


def run(scheme, rounds, sending=None, seed=3):
    state, results = scheme.init(DEVICES, SIZE), []
    for t, g in enumerate(rounds, start=1):
        mask = None if sending is None else sending[t - 1]
        result, state = scheme.aggregate(state, g, WEIGHTS, seed=seed, round=t, sending=mask)
        results.append(result)
    return results, state


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scheme", ["over the air", "common k", "error-free"])
def test_the_sum_in_the_air_is_the_weighted_mean(scheme, dtype):
    (g,) = gradients(dtype=dtype)
    (result,), state = run(schemes(SILENT_AIR, ratio=1.0, sparsity=1.0)[scheme], [g])
    mean = WEIGHTS @ g.astype(float)
    limit = 1e-6 if dtype == np.float32 else 1e-12
    assert np.linalg.norm(result.mean - mean) < limit * np.linalg.norm(mean)
    np.testing.assert_allclose(result.truth, mean, rtol=1e-12, atol=1e-12)
    assert not state.memory.any()


@pytest.mark.parametrize(
    "receiver", [TSAGA(activity=0.9), TurboCS(activity=0.9)], ids=lambda r: type(r).__name__
)
def test_the_receivers_return_the_weighted_mean_when_nothing_disturbs(receiver):
    rounds = gradients(rounds=3, dtype=np.float64)
    results, _ = run(OverTheAir(receiver, 1.0, 1.0, SILENT_AIR), rounds)
    for g, result in zip(rounds, results, strict=True):
        mean = WEIGHTS @ g
        assert np.linalg.norm(result.mean - mean) < 1e-6 * np.linalg.norm(mean)


def test_rescaled_noise_has_the_variance_of_13():
    """sigma^2 = sigma_e^2 / (M^2 alpha), with neither K_m nor a share inside the root."""
    noise_var = 0.7
    scheme = OverTheAir(Adjoint(), 1.0, 1.0, Air(GaussianMAC(noise_var), EqualPower(500.0)))
    results, _ = run(scheme, gradients(rounds=60, dtype=np.float64))
    errors = []
    for result in results:
        assert result.noise_var == pytest.approx(noise_var / (DEVICES**2 * result.alpha))
        errors.append((result.mean - result.truth) / np.sqrt(result.noise_var))  # A A^T = I keeps the law
    errors = np.concatenate(errors)
    assert abs(np.mean(errors**2) - 1) < 4.5 * np.sqrt(2 / errors.size)
    assert abs(np.mean(errors)) < 4.5 / np.sqrt(errors.size)


def test_the_strongest_device_spends_exactly_p():
    scheme = OverTheAir(Adjoint(), 0.25, 0.3, Air(GaussianMAC(1.0), EqualPower(500.0)))
    results, state = run(scheme, gradients(rounds=5))
    for result in results:
        assert result.energy.max() == pytest.approx(500.0, rel=1e-12)
    np.testing.assert_allclose(state.ledger.spent, sum(r.energy for r in results))
    assert state.ledger.rounds == 5


def test_energy_is_that_of_the_signals_really_sent():
    (g,) = gradients()
    scheme = OverTheAir(Adjoint(), 0.25, 1.0, Air(GaussianMAC(1.0), EqualPower(500.0)))
    (result,), _ = run(scheme, [g])
    operator = PartialDCT(SIZE, 50, shared_seed(3, 1))
    for m in range(DEVICES):
        signal = np.sqrt(result.alpha) * DEVICES * WEIGHTS[m] * (operator @ g[m].astype(float))
        assert result.energy[m] == pytest.approx(signal @ signal, rel=1e-5)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("scheme", ["over the air", "Gaussian matrix", "common k", "error-free"])
def test_energy_holds_at_every_prefix_and_nothing_is_lost(scheme, channel, policy):
    rounds = gradients(rounds=12, dtype=np.float64)
    sending = np.random.default_rng(1).random((12, DEVICES)) < 0.8
    results, state = run(schemes(Air(channel, policy))[scheme], rounds, sending)
    spent = np.cumsum([r.energy for r in results], axis=0)
    allowed = 500.0 * np.arange(1, 13)[:, None] * (1 + 1e-9)
    assert (spent <= allowed).all()
    for result, mask in zip(results, sending, strict=True):
        assert not (result.active & ~mask).any()
        assert (result.energy[~result.active] == 0).all()
    # What reached the server, W x, plus what the memories hold is all that was ever computed.
    weight = [WEIGHTS[r.active].sum() for r in results]
    arrived = sum(w * r.truth for w, r in zip(weight, results, strict=True))
    np.testing.assert_allclose(arrived + WEIGHTS @ state.memory, WEIGHTS @ rounds.sum(axis=0), atol=1e-10)


@pytest.mark.parametrize("scheme", ["over the air", "common k"])
def test_saved_energy_is_used(scheme):
    rounds = gradients(rounds=10)
    sending = np.random.default_rng(1).random((10, DEVICES)) < 0.5
    alphas = {}
    for policy in POLICIES:
        results, _ = run(schemes(Air(GaussianMAC(0.0), policy))[scheme], rounds, sending)
        alphas[type(policy)] = np.array([r.alpha for r in results])
    assert (alphas[LongTermPower] >= alphas[EqualPower] * (1 - 1e-9)).all()
    assert alphas[LongTermPower].sum() > 1.2 * alphas[EqualPower].sum()


@pytest.mark.parametrize("scheme", ["over the air", "common k", "error-free"])
def test_a_device_that_does_not_send_keeps_all_it_has(scheme):
    rounds = gradients(rounds=2)
    sending = np.ones((2, DEVICES), bool)
    sending[:, 1] = False
    results, state = run(schemes(SILENT_AIR)[scheme], rounds, sending)
    np.testing.assert_array_equal(state.memory[1], rounds[0, 1] + rounds[1, 1])
    assert not results[0].active[1]


def test_truth_and_noise_are_normalised_by_the_active_weight():
    (g,) = gradients(dtype=np.float64)
    channel = FadingMAC(noise_var=2.0, threshold=0.8)
    scheme = OverTheAir(Adjoint(), 1.0, 1.0, Air(channel, EqualPower(500.0)))
    partly = 0
    for t in range(1, 9):
        active = channel.link(DEVICES, 3, t).active
        partly += 0 < active.sum() < DEVICES
        result, state = scheme.aggregate(scheme.init(DEVICES, SIZE), g, WEIGHTS, seed=3, round=t)
        np.testing.assert_array_equal(state.memory[~active], g[~active])
        np.testing.assert_array_equal(result.active, active)
        if not active.any():
            assert result.alpha is None
            continue
        weight = WEIGHTS[active].sum()
        np.testing.assert_allclose(result.truth, WEIGHTS[active] @ g[active] / weight)
        assert result.noise_var == pytest.approx(2.0 / (DEVICES * weight) ** 2 / result.alpha)
        known = np.abs(channel.gains(DEVICES, 3, t))
        demand = (DEVICES * WEIGHTS * np.linalg.norm(g, axis=1) / known) ** 2
        assert result.alpha == pytest.approx(500.0 / demand[active].max())
    assert partly > 3


def test_imperfect_knowledge_shows_in_the_nmse():
    (g,) = gradients(dtype=np.float64)
    exact, wrong = (
        run(OverTheAir(Adjoint(), 1.0, 1.0, Air(channel, EqualPower(500.0))), [g])[0][0]
        for channel in (FadingMAC(0.0, threshold=0.1), FadingMAC(0.0, threshold=0.1, phase_error=0.5))
    )
    assert exact.nmse < 1e-20
    assert wrong.nmse > 1e-4


@pytest.mark.parametrize("scheme", ["over the air", "Gaussian matrix", "common k"])
def test_all_signals_zero_sends_nothing(scheme):
    part = schemes(Air(GaussianMAC(1.0), EqualPower(500.0)))[scheme]
    (result,), state = run(part, np.zeros((1, DEVICES, SIZE)))
    assert result.alpha is None
    assert result.noise_var is None
    assert result.nmse is None
    assert result.channel_uses == 0
    assert not result.mean.any()
    assert not result.energy.any()
    assert state.ledger.rounds == 1


def test_nobody_sending_leaves_the_receiver_alone():
    rounds = gradients(rounds=2)
    sending = np.zeros((2, DEVICES), bool)
    sending[1] = True
    part = schemes(Air(GaussianMAC(1.0), LongTermPower(500.0)))["over the air"]
    results, state = run(part, rounds, sending)
    assert results[0].alpha is None
    assert state.receiver == 1  # only the second round reached it
    assert results[1].energy.max() == pytest.approx(1000.0)  # two rounds' worth


def test_common_coordinates_all_have_their_turn_once():
    for rows, size in ((50, 200), (33, 100)):
        turns = [coordinates(size, rows, 7, t) for t in range(1, 40)]
        assert all(len(np.unique(turn)) == rows for turn in turns)
        order = np.concatenate(turns)
        for start in range(0, len(order) - size, size):
            assert len(np.unique(order[start : start + size])) == size
    assert not np.array_equal(coordinates(200, 50, 7, 1), coordinates(200, 50, 8, 1))


def test_common_k_reads_only_its_coordinates():
    (g,) = gradients()
    (result,), state = run(CommonK(0.25, SILENT_AIR), [g])
    turn = coordinates(SIZE, 50, 3, 1)
    rest = np.setdiff1d(np.arange(SIZE), turn)
    np.testing.assert_allclose(result.mean[turn], WEIGHTS @ g[:, turn].astype(float), rtol=1e-5, atol=1e-6)
    assert not result.mean[rest].any()
    assert not state.memory[:, turn].any()
    np.testing.assert_array_equal(state.memory[:, rest], g[:, rest])
    assert result.channel_uses == 50


@pytest.mark.parametrize("scheme", ["over the air", "common k", "error-free"])
def test_a_round_is_pure(scheme):
    part = schemes(Air(CHANNELS[1], LongTermPower(500.0)))[scheme]
    rounds = gradients(rounds=3)
    _, state = run(part, rounds[:2])
    memory, spent, third = state.memory.copy(), state.ledger.spent.copy(), rounds[2].copy()
    first, after = part.aggregate(state, rounds[2], WEIGHTS, seed=3, round=3)
    np.testing.assert_array_equal(state.memory, memory)
    np.testing.assert_array_equal(state.ledger.spent, spent)
    np.testing.assert_array_equal(rounds[2], third)
    again, later = part.aggregate(state, rounds[2], WEIGHTS, seed=3, round=3)
    assert first.mean.tobytes() == again.mean.tobytes()
    assert after.memory.tobytes() == later.memory.tobytes()


def test_schemes_of_one_seed_meet_the_same_rows_and_noise():
    seen = []

    @dataclass(frozen=True)
    class Spy(Adjoint):
        def receive(self, state, reception):
            seen.append(reception)
            return super().receive(state, reception)

    (g,) = gradients()
    for sparsity in (1.0, 0.1):
        run(OverTheAir(Spy(), 0.25, sparsity, Air(GaussianMAC(1.0), EqualPower(500.0))), [g])
    np.testing.assert_array_equal(seen[0].operator.index, seen[1].operator.index)
    run(OverTheAir(Spy(), 0.25, 1.0, Air(GaussianMAC(1.0), EqualPower(500.0))), [g, g])
    assert not np.array_equal(seen[-1].operator.index, seen[-2].operator.index)


def test_a_wrong_policy_is_stopped_by_the_audit():
    @dataclass(frozen=True)
    class Greedy(EqualPower):
        def alpha(self, demand, ledger):
            return 1.1 * super().alpha(demand, ledger)

    with pytest.raises(EnergyExceeded, match="after 1 rounds"):
        run(CommonK(0.25, Air(GaussianMAC(1.0), Greedy(500.0))), gradients())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: OverTheAir(Adjoint(), ratio=0.0), "ratio"),
        (lambda: OverTheAir(Adjoint(), sparsity=1.1), "sparsity"),
        (lambda: CommonK(ratio=2.0), "ratio"),
        (lambda: ErrorFree(0.0), "sparsity"),
        (lambda: ErrorFree().init(0, 5), "num_devices"),
        (lambda: ErrorFree().init(5, 0), "size"),
    ],
)
def test_bad_parameters_are_named(make, name):
    with pytest.raises(ValueError, match=f"{name} = "):
        make()


def test_a_mask_of_the_wrong_length_is_named():
    with pytest.raises(ValueError, match=r"sending has shape \(3,\): must be \(6,\)"):
        run(ErrorFree(), gradients(), np.ones((1, 3), bool))
