"""One round of any scheme: the sum in the air, energy, memory, and what the server is told."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import airfeel as af
import small
from airfeel import registry
from airfeel.operators import PartialDCT
from airfeel.radio.cell import Cell
from airfeel.radio.channels import GaussianMAC
from airfeel.radio.power import EnergyExceeded, EqualPower, LeastError
from airfeel.radio.response import Response
from airfeel.receivers.base import Estimate, Info
from airfeel.schemes.common_k import CommonK, coordinates
from airfeel.schemes.compressed import Compressed
from airfeel.schemes.error_free import ErrorFree
from airfeel.uplink import memory as blocks
from airfeel.uplink.arrive import Radio
from airfeel.uplink.memory import NextMemory
from airfeel.uplink.round import Uplink, begin, carry
from airfeel.uplink.scheme import Heard, Sent, Setting
from rounds import NOISY, QUIET, FirstOnes, spiky

DEVICES, SIZE = 6, 200
WEIGHTS = np.array([5.0, 1.0, 2.0, 4.0, 3.0, 1.0]) / 16


@dataclass(frozen=True)
class Adjoint:
    """The simplest receiver, x^ = A^T y: exact when s = N and there is no noise."""

    def init(self, size):
        return 0

    def receive(self, state, reception):
        mean = reception.operator.T @ reception.observation
        return Estimate(mean, np.zeros_like(mean), Info(1, "converged", 0.0)), state + 1


@dataclass(frozen=True)
class With(Compressed):
    """Any receiver in a scheme."""

    own: Any = field(default_factory=Adjoint)

    def operator(self, size, symbols, seed):
        return PartialDCT(size, symbols, seed)

    def receiver(self):
        return self.own


def gradients(rounds=1, dtype=np.float32):
    return spiky(rounds, DEVICES, SIZE, seed=0, dtype=dtype)


def start(scheme, ratio=0.25, size=SIZE, devices=DEVICES):
    return begin(scheme, {"theta": (size,)}, Setting(devices, round(ratio * size)))


def run(scheme, air, rounds, ratio=0.25):
    state = start(scheme, ratio)
    for t, g in enumerate(rounds, start=1):
        result, state = carry(scheme, air, state, g, WEIGHTS, seed=3, round=t)
        yield result


def test_rescaled_noise_has_the_variance_of_13():
    """sigma^2 = sigma_e^2 / (M^2 alpha), with neither K_m nor a share inside the root."""
    noise_var = 0.7
    air = Radio(GaussianMAC(noise_var), EqualPower(500.0))
    errors = []
    for result in run(With(1.0), air, gradients(rounds=60, dtype=np.float64), ratio=1.0):
        assert result.noise_var == pytest.approx(noise_var / (DEVICES**2 * result.alpha))
        errors.append((result.mean - result.truth) / np.sqrt(result.noise_var))  # A A^T = I keeps the law
    errors = np.concatenate(errors)
    assert abs(np.mean(errors**2) - 1) < 4.5 * np.sqrt(2 / errors.size)
    assert abs(np.mean(errors)) < 4.5 / np.sqrt(errors.size)


@pytest.mark.parametrize("scheme", [With(1.0), ErrorFree(1.0)])
@pytest.mark.parametrize("role", ["sending", "computing"])
def test_the_mean_is_over_all_that_computed(scheme, role):
    """What a silent device keeps arrives later, once; one that computed nothing has nothing to deliver."""
    (g,) = gradients(dtype=np.float64)
    heard = np.array([True, True, False, True, False, True])
    given = scheme, QUIET, start(scheme, 1.0), g, WEIGHTS
    result, state = carry(*given, seed=3, round=1, **{role: heard})
    weight = WEIGHTS[heard].sum() if role == "computing" else 1.0
    np.testing.assert_allclose(result.truth, WEIGHTS[heard] @ g[heard] / weight, atol=1e-12)
    np.testing.assert_allclose(result.mean, result.truth, atol=1e-10)
    np.testing.assert_array_equal(result.active, heard)
    assert state.memory["error"].any() == (role == "sending")


@pytest.mark.parametrize(("order", "symbols"), [("random", 50), ("turns", 50), ("turns", 33)])
def test_the_coordinates_of_a_round_are_read_where_the_plan_says(order, symbols):
    """A random choice is fresh in each round; turns go round one permutation, and all come once."""
    scheme = CommonK(order)
    state, chosen = start(scheme, symbols / SIZE), []
    for t in range(1, 14):
        result, state = carry(scheme, QUIET, state, np.ones((DEVICES, SIZE)), WEIGHTS, seed=5, round=t)
        plan = scheme.plan(state.scheme, 5, t)
        chosen.append(coordinates(SIZE, symbols, plan["seed"], plan["turn"]))
        np.testing.assert_array_equal(np.flatnonzero(result.mean), np.sort(chosen[-1]))
        assert len(np.unique(chosen[-1])) == symbols
    first = np.concatenate(chosen)[: 2 * SIZE].reshape(2, SIZE)
    if order == "turns":
        assert np.array_equal(*first) and len(np.unique(first[0])) == SIZE
    else:  # in N/s rounds a share 1 - (1 - s/N)^(N/s) is sent
        assert len(np.unique(first[0])) / SIZE == pytest.approx(1 - 0.75**4, abs=0.1)
    decoded, _ = scheme.decode(state.scheme, plan, Heard(np.arange(1.0, symbols + 1), 0.0))
    np.testing.assert_array_equal(decoded.mean[chosen[-1]], np.arange(1.0, symbols + 1))


def test_schemes_of_one_seed_meet_the_same_rows_and_noise():
    seen = []

    @dataclass(frozen=True)
    class Spy(Adjoint):
        def receive(self, state, reception):
            seen.append(reception)
            return super().receive(state, reception)

    (g,) = gradients()
    for sparsity in (1.0, 0.1):
        assert len(list(run(With(sparsity, own=Spy()), NOISY, [g, g]))) == 2
    first, second, *again = (reception.operator.index for reception in seen)
    np.testing.assert_array_equal([first, second], again)
    assert not np.array_equal(first, second)


def test_a_wrong_policy_is_stopped_by_the_audit():
    @dataclass(frozen=True)
    class Greedy(EqualPower):
        def alpha(self, demand, ledger):
            return 1.1 * super().alpha(demand, ledger)

    with pytest.raises(EnergyExceeded, match="after 1 rounds"):
        list(run(CommonK(), Radio(GaussianMAC(1.0), Greedy(500.0)), gradients()))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ErrorFree(0.0), "sparsity = "),
        (lambda: start(ErrorFree(), devices=0), "num_devices = "),
        (lambda: start(ErrorFree(), size=0), "size = "),
        (lambda: Sent(1j * gradients()[0]), "signal is complex: updates must be real"),
        (lambda: Heard(1j * np.ones(9), 0.1), "observation is complex: must be real symbols, of each"),
        *(
            (lambda rows=rows: NextMemory({"error": np.zeros((3, 4))}, np.arange(3)).put(np.arange(3), rows),
             r"settle returned memories of widths .*: must be \{'error': \(4,")
            for rows in ({"other": np.zeros((3, 4))}, {"error": np.zeros((3, 5))}, {})
        ),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_are_refused(make, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        make()


def spoiled(value):
    (g,) = gradients()
    g[5, 17] = value
    return g


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        *(
            ({name: np.ones(3, bool)}, rf"{name} has shape \(3,\): must be \(6,\)")
            for name in ("sending", "computing")
        ),
        ({"weights": [0.5, -0.5, *[0.25] * 4]}, r"weights\[1\] = -0.5: every entry must be >= 0"),
        ({"weights": [np.nan, *[0.2] * 5]}, r"weights\[0\] = nan: every entry must be finite"),
        ({"weights": [0.5, 0.5]}, r"weights has shape \(2,\): must be a vector of length 6"),
        ({"updates": 1j * gradients()[0]}, "gradients have dtype complex64: must be real"),
        *(
            ({"updates": spoiled(value)}, r"gradients\[5\] is not finite.*learning rate")
            for value in (np.nan, np.inf, -np.inf)
        ),
        *(
            (
                {"updates": np.ones(shape, np.float32)},
                rf"gradients have shape .*{shape[1]}\): must be \(6, 200\)",
            )
            for shape in ((8, 200), (5, 200), (6, 201))
        ),
    ],
)
@pytest.mark.parametrize("scheme", [CommonK(), ErrorFree()])
@pytest.mark.parametrize("height", [2, DEVICES])
def test_what_makes_no_round_is_refused_however_few_devices_fit(
    changes, sentence, scheme, height, monkeypatch
):
    monkeypatch.setattr(blocks, "BLOCK", height * SIZE)
    options = {"updates": gradients()[0], "weights": WEIGHTS, "seed": 0, "round": 1} | changes
    options["weights"] = np.array(options["weights"])
    with pytest.raises(ValueError, match=f"^{sentence}"):
        carry(scheme, NOISY, start(scheme), **options)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("dense", 0),
        ("common_k", 3),  # seed, turn, number of symbols
        ("tsa_ga", 2),  # seed, number of symbols
        ("scheduled", 2 * 12 + 5),  # positions, ages; how far controls move and fade; round; layout
    ],
)
def test_what_the_server_announces_is_counted(name, numbers):
    scheme = registry.SCHEMES.get(name).build({})
    state, given = begin(scheme, {"w": (10, 10)}, Setting(2, 12)), (np.ones((2, 100)), np.ones(2) / 2)
    for sending in (None, np.zeros(2, np.bool_)):
        result, _ = carry(scheme, Radio(), state, *given, seed=1, round=1, sending=sending)
        assert result.downlink == numbers


@dataclass(frozen=True)
class Listening(CommonK):
    """Common coordinates, and a note of everything that was heard."""

    noted: list = field(default_factory=list)

    def decode(self, state, plan, heard):
        self.noted.append(heard)
        return super().decode(state, plan, heard)


def test_the_server_is_told_what_part_of_the_weight_computed_and_was_heard():
    (g,) = gradients()
    computing = np.array([True, True, True, True, False, False])
    sending = np.array([True, False, True, True, False, False])
    for channel in (GaussianMAC(1.0), GaussianMAC(0.0)):
        scheme = Listening()
        given = scheme, Radio(channel), start(scheme), g, WEIGHTS
        carry(*given, seed=1, round=1)
        carry(*given, seed=1, round=1, computing=computing, sending=sending)
        carry(*given, seed=1, round=1, computing=computing, sending=np.zeros(6, bool))
        everybody, some, nobody = scheme.noted[0], scheme.noted[2], scheme.noted[4]
        assert (everybody.share, everybody.computed, everybody.silent) == (1.0, 1.0, False)
        assert some.share == pytest.approx(11 / 12) and some.computed == pytest.approx(12 / 16)
        assert (nobody.share, nobody.silent) == (0.0, True) and nobody.computed == some.computed
        assert not nobody.observation.any() and nobody.noise_var == np.inf and len(scheme.noted) == 5


def test_a_share_counts_deliveries_in_part_and_symbol_by_symbol():
    (g,) = gradients()
    cell = Cell(losses_db=(80.0, 90.0, 95.0, 100.0, 110.0, 120.0), reference_db=90.0)
    scheme = Listening()
    uplink = Uplink(scheme, Radio(cell, LeastError(500.0)), start(scheme), WEIGHTS, seed=1, round=1)
    uplink.encode(np.arange(6), g)
    uplink.arrive()
    delivered = uplink.arrival.delivered
    assert ((delivered > 0) & (delivered < 1)).any()
    assert uplink.arrival.share == pytest.approx(WEIGHTS @ delivered)

    taps = np.random.default_rng(0).standard_normal((2, 3, DEVICES, 30))
    response = Response(taps[0] + 1j * taps[1], threshold=0.7)
    carry(scheme, Radio(response), start(scheme), g, WEIGHTS, seed=1, round=1)
    active = response.link(DEVICES, 50, 1, 1).active
    np.testing.assert_allclose(scheme.noted[-1].share, WEIGHTS @ active, atol=1e-12)
    assert not active.all()


def test_without_an_error_memory_the_truth_is_what_is_found_without_noise():
    (g,) = gradients()
    noisy, quiet = (
        carry(scheme := FirstOnes(), air, start(scheme), g, WEIGHTS, seed=1, round=1)[0]
        for air in (NOISY, QUIET)
    )
    np.testing.assert_allclose(noisy.truth, WEIGHTS @ np.where(np.arange(SIZE) < 50, g, 0), atol=1e-6)
    np.testing.assert_array_equal(noisy.truth, quiet.truth)
    error = np.sum((noisy.mean - noisy.truth) ** 2) / (50 * noisy.noise_var)
    assert noisy.nmse > 1e3 * quiet.nmse and abs(error - 1) < 4.5 * np.sqrt(2 / 50)


def encode_of_0_2(self, plan, accumulated):
    """Return what a scheme made as airfeel 0.2 had them."""
    return accumulated


PUBLIC = {name: getattr(CommonK, name) for name in ("init", "plan", "decode")} | {"encode": encode_of_0_2}


@pytest.mark.parametrize("kind", [type("Before", (), PUBLIC), type("Derived", (CommonK,), PUBLIC)])
def test_a_scheme_in_the_form_before_gets_a_sentence_that_names_the_new_one(kind):
    sentence = r"^scheme = .*; derive it from af.ErrorFeedback, which calls compress\(plan, accumulated\)"
    for scheme in (kind(), kind):
        with pytest.raises(ValueError, match=sentence):
            registry.SCHEMES.given(scheme)
        with pytest.raises(ValueError, match=sentence):
            af.train(af.load_config(None, small.SETTINGS), scheme=scheme, dataset=small.arrays())
