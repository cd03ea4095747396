"""The example of secure aggregation: only the sum is seen, and it is the plain one; clients may be lost."""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.app import ConfigRecord

import flower_apps as apps
from airfeel.flower import AirAvg
from airfeel.flower.local import LocalGrid

QUIET = {"fraction_evaluate": 0.0}
NODES = 7
START = {"w": np.zeros((20, 30), np.float32), "b": np.zeros(30, np.float32)}


@pytest.fixture
def secure(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "examples")
    import flower_secure

    yield flower_secure
    del sys.modules["flower_secure"]


class Losing(LocalGrid):
    """A grid that loses the answers of some nodes in training, and notes what the server gets."""

    def __init__(self, app, nodes, lost=()):
        super().__init__(app, nodes)
        self.lost, self.seen, self.errors = lost, [], []

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages)
        self.errors += [reply.error.reason for reply in replies if reply.has_error()]
        kept = [
            r
            for r in replies
            if "secure-masked" not in _content(r) or r.metadata.src_node_id not in self.lost
        ]
        self.seen += [
            apps.arrays(r.content["secure-masked"])["masked"] for r in kept if "secure-masked" in _content(r)
        ]
        return kept


def _content(reply):
    return {} if reply.has_error() else reply.content


def train(secure, rounds=4, lost=(), **given):
    strategy, grid = secure.SecureAvg(ratio=0.3, **given, **QUIET), Losing(secure.app(), NODES, lost)
    result = strategy.start(grid, apps.record(START), rounds)
    return strategy, grid, apps.arrays(result.arrays) if len(result.arrays) else START


def test_the_result_is_the_plain_one_within_the_step(secure):
    """A step is 4 * 7 / 2^30; what single precision leaves of the plain signals is more."""
    plain = AirAvg("scheduled", 0.3, clip=None, **QUIET)
    expected = plain.start(LocalGrid(secure.app([apps.air_mod]), NODES), apps.record(START), 4)
    strategy, grid, found = train(secure)
    assert not grid.errors and strategy.step == 4 * NODES / 2**30
    for name, array in apps.arrays(expected.arrays).items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-6)
    beside = 500 * NODES  # of a record of arrays, which its replies have and plain ones have not
    assert strategy.up[-1] < plain.rounds[-1].traffic.up_message + beside


def test_what_the_server_gets_of_one_client_is_evenly_spread(secure):
    """Whole numbers of 32 bits without a trace of the signal, and others in every training."""
    (_, first, _), (_, second, _) = (train(secure, rounds=1) for _ in range(2))
    for one, other in zip(first.seen, second.seen, strict=True):
        assert one.dtype == np.uint32 and not np.array_equal(one, other)
        places = np.histogram(one, bins=8, range=(0, 2**32))[0] / len(one)
        assert np.abs(places - 1 / 8).max() < 0.1
    sums = [np.sum(grid.seen, axis=0, dtype=np.uint32) for grid in (first, second)]
    assert np.array_equal(*sums)


@pytest.mark.parametrize("lost", [[1003], [1001, 1005, 1007]])
def test_the_masks_of_the_missing_are_taken_off(secure, lost):
    strategy, grid, found = train(secure, lost=lost)
    there = [node for node in range(1001, 1001 + NODES) if node not in lost]
    assert strategy.heard == [there] * 4 and not grid.errors
    goals = [np.random.default_rng(node - 1001) for node in there]
    wanted = np.mean([1 + 0.5 * draw.standard_normal((20, 30)) for draw in goals], axis=0)
    assert np.linalg.norm(found["w"] - wanted) < 0.9 * np.linalg.norm(wanted) and np.abs(found["w"]).max() < 4


def test_half_of_the_clients_are_not_given_away(secure):
    _, grid, found = train(secure, rounds=1, lost=[1001, 1002, 1003, 1004])
    assert len(grid.errors) == 3 and all("nothing is revealed" in reason for reason in grid.errors)
    assert all(np.array_equal(found[name], START[name]) for name in START)


def test_a_key_is_used_once(secure):
    strategy, grid = secure.SecureAvg(ratio=0.3, **QUIET), LocalGrid(secure.app(), 3)
    asked = strategy.configure_train(1, apps.record(START), ConfigRecord(), grid)[0]
    content, node = asked.content, asked.metadata.dst_node_id
    first, second = (grid.answer(apps.Message(content, node, "train")) for _ in range(2))
    assert not first.has_error() and "there is no fresh key for it here" in second.error.reason


def test_the_example_learns(secure, caplog):
    with caplog.at_level(logging.ERROR, "flwr"):  # which it sets for itself, and not for tests that follow
        assert secure.main() < 0.35
