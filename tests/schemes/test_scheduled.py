"""The scheme that sends what is expected to matter, against its defining equations."""

import numpy as np
import pytest

from airfeel.schemes import basis, scheduled
from airfeel.schemes.scheduled import Scheduled, ScheduledState, expected_energy
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
        believed.append(expected_energy(state.energy, _layout()))
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


def test_what_gathers_more_is_sent_more_often():
    energies = np.where(np.arange(SIZE) % 7 == 0, 100.0, 1.0)
    sent = np.concatenate(heard_course(Scheduled(basis="identity"), energies, rounds=300)[0][50:])
    often = np.bincount(sent, minlength=SIZE)
    ratio = often[energies == 100].mean() / often[energies == 1].mean()
    # E L^2 is alike for all where they wait 1 / sqrt(E); E is half prior, about the mean over all.
    prior = energies.mean()
    assert ratio == pytest.approx(np.sqrt((100 + prior) / (1 + prior)), rel=0.15)


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
    state = ScheduledState("20x6 6", 12, 100, age, energy)
    plan = Scheduled(basis="identity").plan(state, seed=1, round=3)
    waiting = expected_energy(energy, _layout()) * (age + 1.0) ** 2
    assert set(plan["chosen"]) == set(np.argsort(waiting)[-12:])
    assert set(plan) == {"layout", "chosen"}


def _layout():
    return basis.choose(SHAPES, "identity")


def test_ties_are_broken_by_the_seed_and_the_round():
    scheme = Scheduled(basis="identity")
    state = scheme.init(SHAPES, setting())
    first = [scheme.plan(state, seed, t)["chosen"].tobytes() for seed, t in ((1, 1), (1, 1), (1, 2), (2, 1))]
    assert first[0] == first[1]
    assert len(set(first)) == 3


def test_the_record_is_half_old_and_half_new_over_the_square_of_the_age():
    scheme = Scheduled(basis="identity")
    state = scheme.init(SHAPES, setting())
    plan = scheme.plan(state, 1, 1)
    _, state = scheme.decode(state, plan, Heard(np.full(12, 3.0), 2.0))
    np.testing.assert_allclose(state.energy[plan["chosen"]], 9 - 2)
    assert (np.delete(state.energy, plan["chosen"]) == -1).all()
    assert (state.age[plan["chosen"]] == 0).all() and np.delete(state.age, plan["chosen"]).min() == 1
    later = ScheduledState(state.layout, 12, 100, np.full(SIZE, 4, np.int32), state.energy)
    _, after = scheme.decode(later, plan, Heard(np.full(12, 10.0), 0.0))
    np.testing.assert_allclose(after.energy[plan["chosen"]], (7 + 100 / 25) / 2)


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


def test_pixels_in_no_order_are_no_reason_to_wait():
    """All frequencies are alike: after a few rounds high ones are sent as often as low ones."""
    scheme, shapes = Scheduled(), {"weights": (10, 196)}
    state, rng, often = scheme.init(shapes, setting(symbols=196)), np.random.default_rng(3), np.zeros(1960)
    for t in range(1, 41):
        chosen = scheme.plan(state, 1, t)["chosen"]
        gathered = (state.age[chosen] + 1) * rng.choice([-1.0, 1.0], len(chosen))
        _, state = scheme.decode(state, {"chosen": chosen}, Heard(gathered, 0.0))
        if t > 20:
            often[chosen] += 1
    low = basis.profile(basis.read("10x14cx14c")) > 1
    assert often[~low].mean() > 0.8 * often[low].mean()


@pytest.mark.parametrize("heard", [np.zeros(SIZE), np.full(SIZE, -1.0)])
def test_nothing_heard_and_nothing_there_still_give_a_schedule(heard):
    found = expected_energy(heard, _layout())
    assert np.isfinite(found).all() and (found >= 0).all()
    state = ScheduledState("20x6 6", 12, 100, np.zeros(SIZE, np.int32), heard)
    plan = Scheduled().plan(state, 1, 1)
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


@pytest.mark.parametrize(
    ("options", "rule"),
    [({"basis": "x"}, "basis = 'x'"), ({"age_exponent": 0.0}, "age_exponent")],
)
def test_bad_options_are_refused(options, rule):
    with pytest.raises(ValueError, match=rule):
        Scheduled(**options)
