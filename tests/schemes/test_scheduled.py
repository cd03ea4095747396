"""The scheme that sends what is expected to matter, against its defining equations."""

from dataclasses import replace

import numpy as np
import pytest

import small
from airfeel.config import load_config
from airfeel.radio.channels import GaussianMAC
from airfeel.radio.link import Link
from airfeel.radio.power import EqualPower, LeastError
from airfeel.registry import SCHEMES
from airfeel.schemes import basis, scheduled
from airfeel.schemes.scheduled import Scheduled, ScheduledState, expected_energy
from airfeel.simulation.assembly import Own, assemble
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Heard, Setting, size_of

SHAPES = {"weights": (20, 6), "bias": (6,)}
SIZE = size_of(SHAPES)


def setting(symbols=12, rounds=100):
    return Setting(devices=3, symbols=symbols, power=10.0, noise_var=1.0, rounds=rounds)


def heard_course(scheme, energies, rounds, symbols=12, seed=5):
    """Let devices gather sqrt(E_n) in every round; return what is sent in each, and E as believed."""
    state, waiting = scheme.init(SHAPES, setting(symbols)), np.zeros(SIZE)
    sent, believed = [], []
    for t in range(1, rounds + 1):
        waiting = waiting + np.sqrt(energies)
        plan = scheme.plan(state, seed, t)
        chosen = plan["chosen"]
        believed.append(state.expected)
        _, state = scheme.decode(state, plan, Heard(waiting[chosen], 0.0))
        waiting[chosen] = 0
        sent.append(chosen)
    return sent, np.array(believed)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("power", [2, 6])
def test_every_coefficient_is_sent_within_a_bounded_number_of_rounds(seed, power):
    """At most 2 (1 + sqrt(rho)) N/s rounds, with rho the largest over the least E: docs/mathematics.md."""
    energies = np.abs(np.random.default_rng(seed).standard_normal(SIZE)) ** power
    sent, believed = heard_course(Scheduled(basis="identity"), energies, rounds=400, seed=seed)
    last = np.zeros(SIZE, int)
    longest = np.zeros(SIZE, int)
    for t, chosen in enumerate(sent, 1):
        longest = np.maximum(longest, t - last)
        last[chosen] = t
    longest = np.maximum(longest, 400 - last)
    assert believed.min() > 0
    assert longest.max() <= 2 * (1 + np.sqrt(believed.max() / believed.min())) * SIZE / 12
    assert longest.max() < 200  # whatever the energies: everything is sent several times


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exponent_2_makes_the_worst_wait_least_and_exponent_3_the_mean(seed, monkeypatch):
    """With energies that are known: the two optima of docs/mathematics.md, found by the schedule itself."""
    energies = np.exp(2 * np.random.default_rng(seed).standard_normal(SIZE))
    monkeypatch.setattr(scheduled, "expected_energy", lambda heard, layout: energies)
    worst, mean = {}, {}
    for exponent in (1.0, 2.0, 3.0, 6.0):
        scheme = Scheduled(basis="identity", age_exponent=exponent)
        waits = waiting_energies(scheme, energies, rounds=600)[200:]
        worst[exponent], mean[exponent] = np.mean(np.max(waits, axis=1)), np.mean(waits)
    assert min(worst, key=worst.get) == 2
    assert min(mean, key=mean.get) == 3


def waiting_energies(scheme, energies, rounds):
    """Return what has gathered before each round is sent, (rounds, N)."""
    state, age, found = scheme.init(SHAPES, setting()), np.zeros(SIZE), []
    for t in range(1, rounds + 1):
        age += 1
        found.append(energies * age**2)
        plan = scheme.plan(state, 5, t)
        _, state = scheme.decode(state, plan, Heard(np.ones(12), 0.0))
        age[plan["chosen"]] = 0
    return np.array(found)


def test_the_plan_takes_the_largest():
    rng = np.random.default_rng(4)
    energy, age = rng.random(SIZE), rng.integers(0, 9, SIZE).astype(np.int32)
    plan = Scheduled(basis="identity").plan(known(energy, age), seed=1, round=3)
    waiting = expected_energy(energy, _layout()) * (age + 1.0) ** 2
    assert set(plan["chosen"]) == set(np.argsort(waiting)[-12:])
    np.testing.assert_array_equal(plan["ages"], age[plan["chosen"]] + 1)


def known(energy, age, **facts):
    """Return the state of a server that has heard these energies."""
    expected = expected_energy(energy, _layout())
    return ScheduledState("20x6 6", 12, 100, age, energy, expected, np.zeros(SIZE), **facts)


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("error", set()),
        ("none", {"ages"}),
        ("average", {"ages"}),
        ("auto", {"ages", "move", "fade", "round"}),
        ("control", {"ages", "move", "fade", "round"}),
    ],
)
def test_the_plan_tells_what_devices_need_and_no_more(memory, told):
    scheme = Scheduled(keeps=memory)
    plan = scheme.plan(scheme.init(SHAPES, setting()), 1, 1)
    assert set(plan) == {"layout", "chosen"} | told
    assert scheme.stateless == (memory == "none") == (not scheme.memory(SHAPES))


def _layout():
    return basis.choose(SHAPES, "identity")


def test_ties_are_broken_by_the_seed_and_the_round():
    scheme = Scheduled(basis="identity")
    state = scheme.init(SHAPES, setting())
    first = [scheme.plan(state, seed, t)["chosen"].tobytes() for seed, t in ((1, 1), (1, 1), (1, 2), (2, 1))]
    assert first[0] == first[1]
    assert len(set(first)) == 3


def test_the_record_is_half_old_and_half_new_over_the_square_of_the_age():
    scheme = Scheduled(basis="identity", keeps="none")
    state = scheme.init(SHAPES, setting())
    plan = scheme.plan(state, 1, 1)
    _, state = scheme.decode(state, plan, Heard(np.full(12, 3.0), 2.0))
    np.testing.assert_allclose(state.energy[plan["chosen"]], 9 - 2)
    assert (np.delete(state.energy, plan["chosen"]) == -1).all()
    assert (state.age[plan["chosen"]] == 0).all() and np.delete(state.age, plan["chosen"]).min() == 1
    later = replace(state, age=np.full(SIZE, 4, np.int32))
    _, after = scheme.decode(later, plan, Heard(np.full(12, 10.0), 0.0))
    np.testing.assert_allclose(after.energy[plan["chosen"]], (7 + 100 / 25) / 2)
    # Where a part of the weight was heard, what it says stands for all, and its noise is larger.
    _, after = scheme.decode(later, plan, Heard(np.full(12, 5.0), 1.0, share=0.5))
    np.testing.assert_allclose(after.energy[plan["chosen"]], (7 + (100 - 4) / 25) / 2)


def test_the_prior_is_row_mean_times_column_mean():
    rng = np.random.default_rng(6)
    row, column = rng.random(20) + 0.5, rng.random(6) + 0.5
    energy = np.append(np.outer(row, column).reshape(-1), np.ones(6)).astype(np.float32)
    hidden = energy.copy()
    hidden[[7, 50, 101]] = -1
    found = expected_energy(hidden, _layout())
    # Exact but for the pseudo-counts, one in 6 to 20 of each mean.
    np.testing.assert_allclose(found[[7, 50, 101]], energy[[7, 50, 101]], rtol=0.25)
    assert (found > 0).all()


def test_low_frequencies_of_an_image_come_first():
    scheme = Scheduled()
    state = scheme.init({"weights": (4, 64)}, setting(symbols=12))
    unit, u, v = np.unravel_index(scheme.plan(state, 1, 1)["chosen"], (4, 8, 8))
    assert set(zip(unit, u, v, strict=True)) == {(i, *w) for i in range(4) for w in ((0, 0), (0, 1), (1, 0))}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("falls", [True, False])
@pytest.mark.parametrize("layout", ["10x28cx28c 10", "16x8x3cx3c 16"])
def test_whether_energies_fall_with_the_frequency_is_learned(layout, falls, seed):
    """Coefficients are drawn with energies that do or do not; half was heard, low frequencies first."""
    layout = basis.read(layout)
    profile = basis.profile(layout)
    true = profile if falls else np.ones(len(profile))
    heard = 7 * true * np.random.default_rng(seed).standard_normal(len(true)) ** 2
    heard[np.argsort(profile)[: len(true) // 2]] = -1
    found = expected_energy(heard, layout)
    unheard = (heard < 0) & (np.arange(len(true)) < layout[0].size)
    slope = np.polyfit(np.log(profile[unheard]), np.log(found[unheard]), 1)[0]
    assert slope == pytest.approx(float(falls), abs=0.2)


@pytest.mark.parametrize("heard", [np.zeros(SIZE), np.full(SIZE, -1.0)])
def test_nothing_heard_and_nothing_there_still_give_a_schedule(heard):
    found = expected_energy(heard, _layout())
    assert np.isfinite(found).all() and (found >= 0).all()
    plan = Scheduled().plan(known(heard, np.zeros(SIZE, np.int32)), 1, 1)
    assert len(np.unique(plan["chosen"])) == 12


@pytest.mark.parametrize(("rounds", "symbols"), [(100, 12), (7, 3), (1, 5), (3, 1)])
def test_a_warm_up_sends_more_first_and_as_much_in_all(rounds, symbols):
    scheme = Scheduled(warmup=True)
    state = scheme.init(SHAPES, setting(symbols, rounds))
    counts = [len(scheme.plan(state, 1, t)["chosen"]) for t in range(1, rounds + 1)]
    assert abs(sum(counts) - rounds * symbols) <= max(0, sum(c == 1 for c in counts))
    if rounds == 100:
        assert sum(counts) == rounds * symbols
        assert counts[0] == 30 and set(counts[20:]) == {10}


def test_a_warm_up_needs_the_horizon():
    with pytest.raises(ValueError, match="warmup = True: needs the number of rounds"):
        Scheduled(warmup=True).init(SHAPES, Setting(3, 12))


class InPart:
    """Devices are heard in some symbols only, and some symbols by nobody."""

    noise_var = 0.0

    def link(self, num_devices, symbols, seed, round):
        rng = np.random.default_rng((seed, round))
        active = (rng.random((num_devices, symbols)) < 0.6) & (rng.random(symbols) < 0.9)
        return Link(active, np.ones(active.shape), np.ones(active.shape), np.zeros(symbols))


WEIGHTS = np.array([4.0, 1.0, 2.0, 2.0, 1.0]) / 10
QUIET = {
    "whole": Radio(GaussianMAC(0.0), EqualPower(500.0)),
    "per symbol": Radio(InPart(), EqualPower(500.0)),
    "scaled": Radio(GaussianMAC(0.0), LeastError(500.0)),
}


def drifting(rounds, seed=3):
    """Return updates that devices differ in for good, and that change slowly (rounds, M, N)."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((5, SIZE)) + rng.standard_normal(SIZE)
    return own + 0.3 * rng.standard_normal((rounds, 5, SIZE))


def course(scheme, air, updates, sending=None, computing=None):
    """Yield result and state of every round."""
    state = begin(scheme, SHAPES, Setting(5, 40, power=500.0, noise_var=1.0, rounds=len(updates)))
    for t, g in enumerate(updates, 1):
        masks = {"sending": sending, "computing": computing}
        own = {key: mask[t - 1] for key, mask in masks.items() if mask is not None}
        result, state = carry(scheme, air, state, g, WEIGHTS, seed=7, round=t, **own)
        yield result, state


def some(rounds, share, seed):
    """Return who is there in each round; nobody in round 4, and the first device never from 5 to 20."""
    found = np.random.default_rng(seed).random((rounds, 5)) < share
    found[3], found[4:20, 0] = False, False
    return found


def in_a_round(scheme):
    """Return what is left of a control after a round in which 40 coefficients are sent."""
    return scheme.fade ** (40 / SIZE)


def controls(scheme, state):
    """Return H, and the weighted mean of all h_m as they are at the end of the server's round."""
    faded = in_a_round(scheme) ** (state.scheme.round - state.memory["seen"][:, 1:])
    return state.scheme.control, WEIGHTS @ (faded * state.memory["control"])


@pytest.mark.parametrize("memory", ["auto", "control"])
@pytest.mark.parametrize("air", QUIET)
def test_the_server_knows_the_mean_of_all_controls(air, memory):
    """Without noise: whoever computes, is heard, in part or not at all, or comes back after long."""
    scheme = Scheduled(keeps=memory)
    sending, computing = some(30, 0.7, 1), some(30, 0.8, 2)
    rounds = course(scheme, QUIET[air], drifting(30), sending & computing, computing)
    moved = 0.0
    for result, state in rounds:
        server, devices = controls(scheme, state)
        np.testing.assert_allclose(server, devices, atol=1e-12)
        np.testing.assert_allclose(result.mean, result.truth, atol=1e-12)
        moved = max(moved, np.abs(server).max())
    assert moved > 0.1


@pytest.mark.parametrize("memory", ["auto", "control"])
def test_noise_alone_drives_the_controls_apart_and_fades(memory):
    """H - sum of w_m h_m: every visit adds a W nu / L, and every round leaves a share of what was."""
    scheme, rounds = Scheduled(keeps=memory), 150
    sending, computing = some(rounds, 0.7, 1), some(rounds, 0.8, 2)
    state = begin(scheme, SHAPES, Setting(5, 40, power=500.0, noise_var=1.0, rounds=rounds)).scheme
    apart, drawn, drifts, left = np.zeros(SIZE), [], [], in_a_round(scheme)
    given = Radio(GaussianMAC(1.0), EqualPower(500.0)), drifting(rounds), sending & computing, computing
    for t, (result, after) in enumerate(course(scheme, *given), 1):
        plan, state = scheme.plan(state, 7, t), after.scheme
        server, devices = controls(scheme, after)
        added, apart = server - devices - left * apart, server - devices
        off = np.setdiff1d(np.arange(SIZE), plan["chosen"])
        np.testing.assert_allclose(added[off], 0, atol=1e-6)  # devices keep theirs in single precision
        drifts.append(apart)
        if result.noise_var is not None and plan["move"] > 0.1:
            deviation = plan["move"] * WEIGHTS[computing[t - 1]].sum() * np.sqrt(result.noise_var)
            drawn.append(added[plan["chosen"]] * plan["ages"] / deviation)
    drawn = np.concatenate(drawn)
    assert abs(drawn.mean()) < 4 / np.sqrt(len(drawn))
    assert np.mean(drawn**2) == pytest.approx(1, abs=6 / np.sqrt(len(drawn)))
    size = np.mean(np.square(drifts), axis=1)
    assert 0.5 * size[75:].mean() < size[25:75].mean() < 2 * size[75:].mean()  # it does not grow


@pytest.mark.parametrize("memory", ["none", "average", "auto", "control", "error"])
def test_a_silent_round_says_nothing_and_everything_grows_older(memory):
    scheme, sending = Scheduled(keeps=memory), some(6, 0.7, 1)
    before, after = list(course(scheme, QUIET["whole"], drifting(6), sending))[2:4]
    assert not after[0].mean.any() and (after[1].scheme.age == before[1].scheme.age + 1).all()
    np.testing.assert_array_equal(after[1].scheme.energy, before[1].scheme.energy)
    np.testing.assert_allclose(after[1].scheme.control, in_a_round(scheme) * before[1].scheme.control)


def test_with_everybody_heard_there_is_no_control():
    scheme, one = Scheduled(), {}
    for memory in ("auto", "average"):
        one[memory] = [
            (result.mean.tobytes(), state)
            for result, state in course(Scheduled(keeps=memory), QUIET["whole"], drifting(8))
        ]
    assert [mean for mean, _ in one["auto"]] == [mean for mean, _ in one["average"]]
    assert not one["auto"][-1][1].memory["control"].any() and scheme.keeps == "auto"


@pytest.mark.parametrize("memory", ["none", "average", "auto", "error"])
def test_where_all_is_sent_and_everybody_heard_it_is_the_mean_of_the_updates(memory):
    """Federated averaging is the limit: every L_n is 1, and the newest update alone counts."""
    scheme, updates = Scheduled(keeps=memory), drifting(5)
    state = begin(scheme, SHAPES, Setting(5, SIZE))
    for t, g in enumerate(updates, 1):
        result, state = carry(scheme, QUIET["whole"], state, g, WEIGHTS, seed=7, round=t)
        np.testing.assert_allclose(result.mean, WEIGHTS @ g, atol=1e-12)


@pytest.mark.parametrize("move", [0.3, 0.0])
def test_a_device_sends_what_is_new_of_the_mean_of_its_latest_updates_for_all_rounds_it_stands_for(move):
    """u <- u + max(1/rounds, newest) (g - u), signal L (u - h), h <- fade^dt h, then + a (signal / L)."""
    scheme = Scheduled(basis="identity", newest=0.4)
    g, memory = drifting(4)[:, :1], {key: row[None] for key, row in scheme.memory(SHAPES).items()}
    chosen, ages = np.array([3, 5, 70]), np.array([4, 1, 2])
    u = h = np.zeros(SIZE)
    for own, t in enumerate([1, 2, 6, 7]):
        plan = {"layout": "20x6 6", "chosen": chosen, "ages": ages, "move": move, "fade": 0.9, "round": t}
        u = u + max(1 / (own + 1), 0.4) * (g[own, 0] - u)
        h = 0.9 ** (t - [0, 1, 2, 6][own]) * h
        alone = (ages == 1) & (move == 0)
        new = np.where(alone, g[own, 0][chosen], u[chosen]) - h[chosen]
        sent = scheme.encode(plan, memory, g[own])
        np.testing.assert_allclose(sent.signal[0], ages * new, atol=1e-12)
        heard = np.array([0.0, 1.0, 0.5, 1.0])[own]
        memory = scheme.settle(plan, memory, g[own], sent, np.array([heard]))
        h = h.copy()
        h[chosen] += move * heard * new
        np.testing.assert_allclose(memory["average"][0], u, atol=1e-12)
        np.testing.assert_allclose(memory["control"][0], h, atol=1e-12)
        assert memory["seen"].tolist() == [[own + 1, t if move else 0]]


def test_the_server_adds_what_it_knows_and_believes_a_multiple_of_what_it_expected():
    """f = L H + y / share, clipped to c sqrt(E) L, the rest waits; H <- lambda H + a W y / L."""
    scheme, rng = Scheduled(basis="identity", clip=1.5, fade=0.9 ** (SIZE / 12)), np.random.default_rng(2)
    state = known(np.full(SIZE, 4.0), np.full(SIZE, 2, np.int32), share=0.6, round=3)
    state = replace(state, control=rng.standard_normal(SIZE))
    plan = scheme.plan(state, 1, 5)
    assert plan["move"] == pytest.approx(0.4)
    y, chosen = 6 * rng.standard_normal(12), plan["chosen"]
    estimate, after = scheme.decode(state, plan, Heard(y, 0.1, share=0.5, computed=0.8))
    control = 0.81 * state.control
    found = 3 * control[chosen] + y / 0.5
    most = 1.5 * 3 * np.sqrt(state.expected[chosen])
    np.testing.assert_allclose(estimate.mean[chosen], np.clip(found, -most, most))
    assert (np.abs(found) > 3 * most).any() and (np.abs(found) < most).any()
    np.testing.assert_array_equal(after.age[chosen], 3 - np.ceil(3 * np.minimum(most / np.abs(found), 1)))
    learned = np.maximum(np.minimum(found**2, 4 * most**2) - 0.1 / 0.25, 0) / 9
    np.testing.assert_allclose(after.energy[chosen], (state.energy[chosen] + learned) / 2)
    control[chosen] += 0.4 * 0.8 * y / 3
    np.testing.assert_allclose(after.control, control)
    assert after.share == pytest.approx(0.4) and after.round == 5


def test_what_is_not_believed_is_made_up_for_at_the_next_visits():
    """Of a constant update what arrived and what waits add up, but for less than a round at each visit."""
    scheme, g = Scheduled(basis="identity", keeps="none"), np.ones((1, SIZE))
    state, arrived, visits = (
        known(np.full(SIZE, 1e-4), np.full(SIZE, 39, np.int32)),
        np.zeros(SIZE),
        np.zeros(SIZE),
    )
    for t in range(1, 41):
        plan = scheme.plan(state, 1, t)
        heard = Heard(scheme.encode(plan, {}, g).signal[0], 1e-12, share=1.0, computed=1.0)
        estimate, state = scheme.decode(state, plan, heard)
        arrived += estimate.mean
        visits[plan["chosen"]] += 1
        assert np.all(arrived + state.age <= 39 + t + 1e-9)
        assert np.all(arrived + state.age > 39 + t - visits - 1e-9)
    assert np.all(arrived > 60) and np.all(visits > 1)


def test_a_choice_among_equals_does_not_depend_on_rounding_or_on_the_processor():
    """Last bits of the energies, which other versions of NumPy may add up otherwise, choose nothing."""
    energy, age = np.ones(SIZE), np.zeros(SIZE, np.int32)
    bits = 1 + 4e-16 * np.random.default_rng(1).integers(-2, 3, SIZE)
    for seed in range(20):
        plans = [
            Scheduled(basis="identity").plan(replace(known(energy, age), expected=expected), seed, 1)
            for expected in (energy, energy * bits)
        ]
        np.testing.assert_array_equal(plans[0]["chosen"], plans[1]["chosen"])


def test_the_error_memory_of_0_2_keeps_what_was_not_delivered():
    """Of all that was ever computed, what left and what stays add up, in coefficients; nothing is clipped."""
    scheme, arrived, updates = Scheduled(keeps="error"), np.zeros(SIZE), drifting(12)
    layout = basis.choose(SHAPES, "auto")
    for t, (result, state) in enumerate(course(scheme, QUIET["per symbol"], updates, some(12, 0.7, 1)), 1):
        arrived += result.mean
        left = basis.backward(layout, WEIGHTS @ state.memory["error"].reshape(1, 5, SIZE))[0]
        np.testing.assert_allclose(arrived + left, WEIGHTS @ updates[:t].sum(axis=0), atol=1e-9)


def test_the_key_of_a_configuration_is_memory():
    part = SCHEMES.get("scheduled")
    assert part.build({"memory": "none"}) == Scheduled(keeps="none")
    assert "memory" in {option.name for option in part.options}


@pytest.mark.parametrize(("momentum", "ratio"), [(0.9, 1.0), (0.0, 0.1)])
def test_momentum_at_the_server_is_taken_where_nothing_waits(momentum, ratio):
    settings = {"scheme": "scheduled", "server.momentum": momentum, "uplink.ratio": ratio}
    parts = assemble(load_config(None, small.SETTINGS | settings), Own(dataset=small.arrays()))
    assert getattr(parts.optimizer, "momentum", None) == momentum


@pytest.mark.parametrize("memory", ["auto", "none", "error"])
def test_momentum_at_the_server_is_refused_in_one_sentence(memory):
    settings = {"scheme": "scheduled", "server.momentum": 0.9, "uplink.ratio": 0.1, "uplink.memory": memory}
    with pytest.raises(ValueError, match=r"^server.momentum = 0.9: with Scheduled .* devices.momentum"):
        assemble(load_config(None, small.SETTINGS | settings), Own(dataset=small.arrays()))
