"""Links that differ from symbol to symbol: what arrives, what it costs, what is remembered."""

from dataclasses import dataclass

import numpy as np
import pytest

from airfeel.operators import PartialDCT
from airfeel.radio.channels import GaussianMAC
from airfeel.radio.link import Link, superpose
from airfeel.radio.power import EqualPower, Ledger
from airfeel.registry import SCHEMES
from airfeel.schemes.common_k import coordinates
from airfeel.schemes.compressed import heard_by_all, shared_seed
from airfeel.uplink.arrive import Radio, Senders, Superposed
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Heard, Setting
from rounds import SHAPES, SIZE, WEIGHTS, drifting

M, S = 5, 40
SYMBOLS, ROUNDS = 101, 5
SUPERPOSED = [n for n in SCHEMES.names() if n not in ("error_free", "dense", "d_dsgd")]


@dataclass(frozen=True)
class PerSymbol:
    """Everything differs from symbol to symbol; some symbols nobody can send."""

    noise_var: float = 0.0
    heard: float = 0.7
    empty: float = 0.0
    ripple: float = 0.0

    def link(self, num_devices, symbols, seed, round):
        rng = np.random.default_rng((seed, round))
        active = (rng.random((num_devices, symbols)) < self.heard) & (rng.random(symbols) >= self.empty)
        cost = rng.exponential(size=(num_devices, symbols)) + 0.1
        noise = self.noise_var * np.exp(self.ripple * rng.standard_normal(symbols))
        return Link(active, cost, np.ones((num_devices, symbols)), noise)


@dataclass(frozen=True)
class Broadcast:
    """The paper's channel, said symbol by symbol."""

    noise_var: float = 1.0

    def link(self, num_devices, symbols, seed, round):
        ones = np.ones((num_devices, symbols))
        return Link(ones.astype(bool), ones, ones, np.full(symbols, self.noise_var))


def start(scheme, symbols=SYMBOLS):
    return begin(scheme, SHAPES, Setting(M, symbols, power=500.0, noise_var=1.0, rounds=ROUNDS))


def course(name, air):
    scheme, results = SCHEMES.get(name).build({}), []
    state = start(scheme)
    for t, g in enumerate(drifting(ROUNDS), start=1):
        result, state = carry(scheme, air, state, g, WEIGHTS, seed=7, round=t)
        results.append(result)
    return results, state


@pytest.mark.parametrize("symbols", [1, 6, 7])
def test_a_complex_gain_turns_pairs_of_symbols(symbols):
    rng = np.random.default_rng(symbols)
    signals = rng.standard_normal((3, symbols))
    for shape in ((3,), (3, symbols)):
        gain = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        heard = superpose(Link(np.ones(3, bool), np.ones(3), gain, 0.0), signals, 1, 1)
        expected = np.zeros(symbols)
        for m in range(3):
            for f in range(symbols):
                factor = gain[m] if gain.ndim == 1 else gain[m, f]
                pair = np.append(signals[m], 0.0)[f - f % 2 : f - f % 2 + 2]
                turned = factor * (pair[0] + 1j * pair[1])
                expected[f] += turned.imag if f % 2 else turned.real
        np.testing.assert_allclose(heard, expected, atol=1e-12)


def test_gains_and_noise_of_each_symbol():
    rng = np.random.default_rng(0)
    signals, gain = rng.standard_normal((3, 20_000)), rng.standard_normal((3, 20_000))
    variance = np.where(np.arange(20_000) % 2, 4.0, 0.25)
    heard = superpose(Link(np.ones(3, bool), np.ones(3), gain, variance), signals, 1, 1)
    noise = heard - (gain * signals).sum(axis=0)
    for parity, expected in ((0, 0.25), (1, 4.0)):
        assert np.mean(noise[parity::2] ** 2) == pytest.approx(expected, rel=4 * np.sqrt(2 / 10_000))


def came(link, senders, signals, coordinates):
    """Return what arrives over a given link."""

    class Still:
        def link(self, num_devices, symbols, seed, round):
            return link

    on_air = Superposed(Radio(Still(), EqualPower(500.0)), senders, Ledger.open(M), coordinates, 1, 1)
    on_air.put(slice(None), signals)
    return on_air.arrive()


@pytest.mark.parametrize("coordinates", [True, False])
def test_what_the_server_makes_of_symbols_that_some_devices_leave_out(coordinates):
    signals = np.random.default_rng(3).standard_normal((M, S))
    link = PerSymbol(noise_var=1.0, heard=0.5, empty=0.2, ripple=1.0).link(M, S, 1, 1)
    link.active[2] = False  # sends nothing at all
    quiet = Link(link.active, link.cost, link.gain, np.zeros(S))
    whole, everybody = 1.25, np.ones(M, bool)
    senders = Senders(np.arange(M), WEIGHTS, everybody, whole, M)
    arrived, silent = (came(each, senders, signals, coordinates) for each in (link, quiet))
    demand = (M * WEIGHTS) ** 2 * (link.active * link.cost * signals**2).sum(axis=1)
    assert arrived.alpha == pytest.approx(500.0 / demand.max())
    np.testing.assert_allclose(arrived.energy, arrived.alpha * demand)
    sent = WEIGHTS[[0, 1, 3, 4]].sum()
    divisors = np.full(S, whole) if coordinates else whole / sent * (WEIGHTS @ link.active)
    nobody = ~link.active.any(axis=0)
    assert nobody.any() and (~nobody).any()
    for f in range(S):
        if nobody[f]:
            assert arrived.observation[f] == 0 and np.isinf(arrived.noise_var[f])
            continue
        expected = (WEIGHTS * link.active[:, f]) @ signals[:, f] / divisors[f]
        assert silent.observation[f] == pytest.approx(expected, abs=1e-12)
        variance = link.noise_var[f] / (M * np.sqrt(arrived.alpha) * divisors[f]) ** 2
        assert arrived.noise_var[f] == pytest.approx(variance)


@pytest.mark.parametrize("name", SUPERPOSED)
def test_a_link_that_is_the_same_in_all_symbols_is_that_link(name):
    """AMP included: equal noise is one number, however it was said."""
    one, _ = course(name, Radio(GaussianMAC(1.0), EqualPower(500.0)))
    two, _ = course(name, Radio(Broadcast(1.0), EqualPower(500.0)))
    for a, b in zip(one, two, strict=True):
        assert b.noise_var == pytest.approx(a.noise_var, rel=1e-9)
        np.testing.assert_allclose(b.mean, a.mean, rtol=0, atol=1e-6 * np.abs(a.mean).max())
        np.testing.assert_allclose(b.energy, a.energy, rtol=1e-9)


def test_a_vote_that_was_not_sent_is_cast_again():
    scheme, air = SCHEMES.get("sign_vote").build({"step": 0.5}), Radio(PerSymbol(0.0), EqualPower(500.0))
    (g, *_), state = drifting(ROUNDS), start(scheme)
    _, after = carry(scheme, air, state, g, WEIGHTS, seed=7, round=1)
    plan = scheme.plan(state.scheme, 7, 1)
    sent = scheme.compress(plan, g)
    active = air.channel.link(M, SYMBOLS, 7, 1).active
    moved = np.zeros((M, SIZE), bool)
    chosen = coordinates(SIZE, SYMBOLS, plan["seed"], plan["turn"])
    moved[:, chosen] = active
    np.testing.assert_array_equal(after.memory["error"], np.where(moved, sent.remainder, g))


def test_symbols_nobody_sent_leave_the_reception():
    operator = PartialDCT(300, 90, shared_seed(1, 1), block=100)
    noise = np.full(90, 0.1)
    kept = np.random.default_rng(1).random(90) < 0.6
    noise[~kept] = np.inf
    observation = np.where(kept, np.arange(90.0), 0.0)
    reception = heard_by_all(Heard(observation, noise), operator)
    dense = operator @ np.eye(300)
    np.testing.assert_allclose(reception.operator @ np.eye(300), dense[kept], atol=1e-12)
    np.testing.assert_array_equal(reception.observation, observation[kept])
    assert reception.noise_var == 0.1
    # A block that would be left with nothing keeps its symbols, as loud as a number can be.
    noise[: operator.block_rows[0]] = np.inf
    reception = heard_by_all(Heard(observation, noise), operator)
    assert reception.operator is operator and (reception.noise_var[np.isinf(noise)] > 1e300).all()


def test_part_of_an_operator_must_cover_every_block():
    operator = PartialDCT(300, 90, 3, block=100)
    first = int(operator.block_rows[0])
    assert not operator.covered_by(np.arange(90) >= first)
    for wrong in (np.arange(90) >= first, np.ones(89, bool)):
        with pytest.raises(ValueError, match="kept = "):
            operator.only(wrong)
    part = operator.only(np.arange(90) % 3 > 0)
    dense = part @ np.eye(300)
    np.testing.assert_allclose(part.extended @ (part.extended.T @ np.eye(60)), np.eye(60), atol=1e-10)
    np.testing.assert_allclose(part.T @ np.eye(60), dense.T, atol=1e-10)


def test_devices_that_take_turns_pay_the_mean_over_their_symbols():
    link = Link(np.array([[True, True, False], [True, False, False]]), np.full((2, 3), 2.0), np.ones(2), 1.0)
    link.cost[0, 1] = 4.0
    able, energy = Radio(policy=EqualPower(10.0)).afford(3.0, link, Ledger.open(2))
    np.testing.assert_allclose(energy, [9.0, 6.0])
    able, _ = Radio(policy=EqualPower(8.0)).afford(3.0, link, Ledger.open(2))
    assert able.tolist() == [False, True]
