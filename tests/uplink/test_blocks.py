"""A round a few devices at a time: what depends on the blocks, and what must not."""

import tracemalloc

import numpy as np
import pytest

from airfeel.radio.cell import Cell
from airfeel.radio.channels import FadingMAC
from airfeel.radio.power import EqualPower, LeastError, Selection
from airfeel.registry import SCHEMES
from airfeel.schemes.a_dsgd import ADsgd
from airfeel.schemes.common_k import CommonK
from airfeel.schemes.compressed import TurboDecoded
from airfeel.schemes.error_free import ErrorFree
from airfeel.schemes.scheduled import Scheduled
from airfeel.uplink import memory as blocks
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting
from rounds import NOISY, handed_over, spiky

DEVICES, SIZE, ROUNDS = 7, 300, 4
WEIGHTS = np.array([3.0, 1.0, 2.0, 2.0, 1.0, 4.0, 1.0]) / 14
AIRS = [NOISY, Radio(FadingMAC(threshold=0.6), EqualPower(500.0))]
CHOSEN = [Radio(Cell(reference_db=90.0), policy(500.0)) for policy in (LeastError, Selection)]

# That of the signals; BLAS compresses one row in another order than several, which AMP's iterations see.
ROUNDING = [(ADsgd, 1e-4), (ErrorFree, 1e-14), (object, 1e-6)]


def updates(seed=0, dtype=np.float32):
    return spiky(ROUNDS, DEVICES, SIZE, seed=seed, dtype=dtype)


def masks(seed):
    """Who computes, and who of them sends, in every round; in round 1 only the last device computes."""
    rng = np.random.default_rng(seed)
    computing = rng.random((ROUNDS, DEVICES)) < 0.8
    computing[0] = np.arange(DEVICES) == DEVICES - 1
    return computing, computing & (rng.random((ROUNDS, DEVICES)) < 0.8)


def course(scheme, air, rounds, height, monkeypatch, seed=0):
    """Return the results and states of all rounds with so many devices in a block."""
    monkeypatch.setattr(blocks, "BLOCK", height * SIZE)
    state = begin(scheme, {"theta": (SIZE // 10, 10)}, Setting(DEVICES, 90, power=500.0, noise_var=0.1))
    found = []
    for t, (given, computing, sending) in enumerate(zip(rounds, *masks(seed), strict=True), start=1):
        g = np.where(computing[:, None], given, 0).astype(given.dtype)
        options = {"seed": 5, "round": t, "computing": computing, "sending": sending}
        result, state = carry(scheme, air, state, g, WEIGHTS, **options)
        found.append((result, state))
    return found


@pytest.mark.parametrize("height", [1, 2, 3])
@pytest.mark.parametrize(
    "name", [name for name in SCHEMES.names() if name != "scalecom"]
)  # one of a block leads
def test_blocks_change_no_memory_and_what_arrives_only_by_rounding(name, height, monkeypatch):
    """Rows are independent: equal bytes. Only sums over devices are split, which moves the last bits."""
    scheme = SCHEMES.get(name).build({})
    for seed, air in enumerate(AIRS if isinstance(scheme, ADsgd) else AIRS + CHOSEN):
        rounds = updates(seed)
        whole = course(scheme, air, rounds, DEVICES, monkeypatch, seed=seed)
        parts = course(scheme, air, rounds, height, monkeypatch, seed=seed)
        for (one, state), (other, again) in zip(whole, parts, strict=True):
            for key, rows in state.memory.items():
                assert rows.tobytes() == again.memory[key].tobytes()
            scale = np.abs(one.truth).max()
            np.testing.assert_allclose(other.truth, one.truth, rtol=0, atol=1e-14 * scale)
            assert other.active.tolist() == one.active.tolist()
            if isinstance(scheme, TurboDecoded):
                assert other.mean.tobytes() == one.mean.tobytes()
                assert other.energy.tobytes() == one.energy.tobytes()
            bound = next(bound for kind, bound in ROUNDING if isinstance(scheme, kind))
            np.testing.assert_allclose(other.mean, one.mean, rtol=0, atol=bound * scale)


def test_memories_take_on_the_precision_of_the_updates_whoever_computes(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", SIZE)
    (g, *_) = updates(dtype=np.float64)
    computing = np.arange(DEVICES) == 4
    state = begin(ErrorFree(0.1), {"theta": (SIZE,)}, Setting(DEVICES, 90))
    _, after = carry(ErrorFree(0.1), NOISY, state, g, WEIGHTS, seed=0, round=1, computing=computing)
    assert after.memory["error"].dtype == np.float64
    kept = after.memory["error"][4] != 0
    assert kept.sum() == 270 and np.array_equal(after.memory["error"][4, kept], g[4, kept])
    assert not np.delete(after.memory["error"], 4, axis=0).any()


@pytest.mark.parametrize("height", [2, DEVICES])
def test_signals_too_weak_to_be_sent_stay_with_the_devices(height, monkeypatch):
    """Power control decides after everybody has encoded; then all that was taken out must be back."""
    monkeypatch.setattr(blocks, "BLOCK", height * SIZE)
    g = 1e-120 * updates(dtype=np.float64)[0]
    state = begin(CommonK(), {"theta": (SIZE,)}, Setting(DEVICES, 90))
    result, after = carry(CommonK(), NOISY, state, g, WEIGHTS, seed=0, round=1)
    assert result.alpha is None and not result.active.any() and not result.mean.any()
    assert after.memory["error"].tobytes() == g.tobytes()


def test_huge_updates_pass_until_they_are_too_large_together():
    g = np.zeros((DEVICES, SIZE), np.float32)
    g[3] = 3e38
    state = begin(ErrorFree(0.5), {"theta": (SIZE,)}, Setting(DEVICES, 90))
    _, state = carry(ErrorFree(0.5), NOISY, state, g, WEIGHTS, seed=0, round=1)
    assert np.count_nonzero(state.memory["error"][3]) == SIZE // 2
    with pytest.raises(ValueError, match=r"^gradients\[3\] is not finite.*learning rate"):
        carry(ErrorFree(0.5), NOISY, state, g, WEIGHTS, seed=0, round=2)


@pytest.mark.parametrize(
    ("name", "devices"), [("dense", 60), ("error_free", 60), ("tsa_ga", 60), ("common_k", 60), ("none", 600)]
)
def test_a_round_takes_the_memories_and_a_few_rows(name, devices, monkeypatch):
    """Of ``scheduled`` without memories far less than a row for each device."""
    size = 20_000
    monkeypatch.setattr(blocks, "BLOCK", 2 * size)
    scheme = Scheduled(keeps="none") if name == "none" else SCHEMES.get(name).build({})
    weights = np.full(devices, 1 / devices)
    row = np.random.default_rng(1).standard_normal(size).astype(np.float32) ** 3

    def produce(some):
        return np.outer((some + 1).astype(np.float32), row)

    state = begin(scheme, {"theta": (size,)}, Setting(devices, size // 50))
    _, state = handed_over(scheme, NOISY, state, produce, weights, seed=0, round=1)
    tracemalloc.start()
    handed_over(scheme, NOISY, state, produce, weights, seed=0, round=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    memories = 4 * devices * size
    if scheme.stateless:
        assert peak < memories / 10
    else:
        assert memories < peak < 1.9 * memories  # the next ones; those before were there already
