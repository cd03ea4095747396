"""Flower's client-side clippings inside Air: how far one client moves a mean; what has no guarantee."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.app import ConfigRecord
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import strategy as flower

import flower_apps as apps
from airfeel.flower import Air, AirAvg, air_mod, wire
from airfeel.flower.local import LocalGrid
from airfeel.flower.replies import Reply

QUIET = {"fraction_evaluate": 0.0}
NODES, NORM = 6, 0.5
KINDS = [("scheduled", {}), ("scheduled", {"memory": "auto"}), ("scheduled", {"memory": "error"})]
KINDS += [("common_k", {}), ("dense", {}), ("low_rank", {}), ("fair_k", {})]


def model():
    draw = np.random.default_rng(3)
    return {"w": draw.standard_normal((12, 25)).astype(np.float32), "b": np.zeros(12, np.float32)}


def fixed(noise=0.0, clients=NODES, norm=NORM, inner=None):
    inner = flower.FedAvg(**QUIET) if inner is None else inner
    return flower.DifferentialPrivacyClientSideFixedClipping(inner, noise, norm, clients)


def adaptive(noise=0.0, clients=NODES, **given):
    return flower.DifferentialPrivacyClientSideAdaptiveClipping(
        flower.FedAvg(**QUIET), noise, clients, initial_clipping_norm=NORM, **given
    )


def lengths(grid_of, seen):
    """Return a grid that notes how long the signals are, as the server reads them from messages."""

    class Weighed(LocalGrid):
        def send_and_receive(self, messages, *, timeout=None):
            replies = super().send_and_receive(messages)
            for reply in replies:
                assert not reply.has_error(), reply.error.reason
                seen.append(float(reply.content[wire.ROUND]["energy"]) ** 0.5)
            return replies

    return Weighed(grid_of, NODES)


def test_nobody_sends_more_than_the_norm_in_a_thousand_histories():
    """Updates of any size, schemes with and without memories, values in any number of bits: 1,008 signals.

    Energies in replies are those of the signals as the server reads them, or the replies would be refused.
    """
    draw, seen = np.random.default_rng(11), []
    for history in range(42):
        scheme, options = KINDS[history % len(KINDS)]
        bits = (32, 16, 8, 4, 2, 1)[draw.integers(6)]
        sizes = 10.0 ** draw.uniform(-3, 2, size=(NODES, 5))

        def step(found, device, round, sizes=sizes, history=history):
            noise = np.random.default_rng([history, device, round])
            size = sizes[device, round]
            return {k: (a + size * noise.standard_normal(a.shape)).astype("f4") for k, a in found.items()}

        strategy = Air(fixed(), scheme, 0.4, bits=bits, options=options or None, seed=history)
        strategy.start(lengths(apps.app(step), seen), apps.record(model()), 4)
        assert all(len(report.heard) == NODES for report in strategy.rounds)
    assert len(seen) == 42 * 4 * NODES and max(seen) <= NORM
    assert np.mean(np.array(seen) > 0.9 * NORM) > 0.3  # the clip is no more than it must be


@pytest.mark.parametrize("missing", [0, 2])
def test_one_client_moves_the_mean_by_no_more_than_the_norm_over_their_number(missing):
    """With and without one client, whatever it weighs and however few answer, among a hundred pairs."""
    draw = np.random.default_rng(5)
    wrapped = Air(fixed(clients=NODES + missing), "common_k", 0.5).server.wrapped
    grid = LocalGrid(apps.app(apps.drift), NODES)
    wrapped.configure(1, apps.record(model()), ConfigRecord(), grid, ())
    for _ in range(100):
        replies = [_reply(draw, node) for node in range(NODES)]
        (everybody, _), (without, _) = (wrapped.rows(1, some, {}) for some in (replies, replies[:-1]))
        assert np.linalg.norm(everybody - without) <= NORM / (NODES + missing) * (1 + 1e-9)


def _reply(draw, node):
    signal = (10.0 ** draw.uniform(-3, 4) * draw.standard_normal(40)).astype(np.float32)
    weight = float(10 ** draw.uniform(0, 6))
    return Reply(node, node, node, weight, 1.0, False, apps.RecordDict(), signal, {}, None)


def test_the_noise_is_that_of_the_norm_and_only_where_something_is_sent():
    still = apps.app(lambda found, device, round: found)
    strategy = Air(fixed(noise=1.5), "common_k", 0.5)
    found = strategy.start(LocalGrid(still, NODES), apps.record(model()), 1).arrays
    moved = np.concatenate([(apps.arrays(found)[k] - a).reshape(-1) for k, a in model().items()])
    assert np.count_nonzero(moved) == 156
    assert np.std(moved[moved != 0]) == pytest.approx(1.5 * NORM / NODES, rel=0.25)


@pytest.mark.parametrize("target", [0.3, 0.8])
def test_an_adaptive_norm_goes_to_the_lengths_of_what_is_sent(target):
    """A part ``target`` of the clients is to be within the norm (Andrew et al.): lengths are 1, 2, ... 10."""

    def step(found, device, round):
        return {k: found[k] + np.float32((device + 1) / np.sqrt(312)) for k in found}

    given = {"target_clipped_quantile": target, "clip_norm_lr": 0.5, "clients": 10}
    inner = adaptive(**given)
    strategy = Air(inner, "dense", 1.0)
    strategy.start(LocalGrid(apps.app(step), 10), apps.record(model()), 40)
    assert 10 * target - 1.2 < inner.clipping_norm < 10 * target + 1.2


def test_the_noise_of_an_adaptive_norm_is_that_of_the_norm_that_clipped(monkeypatch):
    """Everybody is within it, so the norm falls by a third before Flower draws its noise."""
    still = apps.app(lambda found, device, round: found)
    inner = adaptive(noise=1.0, clip_norm_lr=0.8, clients=NODES, clipped_count_stddev=0.51)
    strategy, noise = Air(inner, "dense", 1.0), inner.noise_multiplier
    monkeypatch.setattr(type(inner), "_noisy_fraction", lambda self, count, total: 1.0)
    start = {"w": np.zeros(40_000, np.float32)}
    found = apps.arrays(strategy.start(LocalGrid(still, NODES), apps.record(start), 1).arrays)
    assert inner.clipping_norm == pytest.approx(NORM * np.exp(-0.4))
    assert np.std(found["w"]) == pytest.approx(noise * NORM / NODES, rel=0.03)


@pytest.mark.parametrize("mods", [[air_mod], [air_mod, fixedclipping_mod], [air_mod, adaptiveclipping_mod]])
def test_flowers_own_clipping_may_stand_behind_ours(mods):
    seen = []
    strategy = Air(fixed(), "scheduled", 0.3, bits=4, options={"memory": "error"})
    strategy.start(lengths(_app(mods), seen), apps.record(model()), 6)
    assert len(seen) == 6 * NODES and max(seen) <= NORM


@pytest.mark.parametrize("mod", [fixedclipping_mod, adaptiveclipping_mod])
def test_flowers_own_clipping_before_ours_is_a_sentence(mod):
    """It used to leave an empty model behind, without a word."""
    strategy = Air(fixed(), "scheduled", 0.3)
    with pytest.raises(ValueError, match="nobody was heard in rounds 1 to 3: .*clipping_mod expects"):
        strategy.start(LocalGrid(_app([mod, air_mod]), NODES), apps.record(model()), 4)


def test_without_a_strategy_that_adds_noise_the_clip_holds_too():
    seen = []
    config = ConfigRecord({"clipping_norm": NORM})
    strategy = AirAvg("common_k", 0.2, **QUIET)
    strategy.start(
        lengths(_app([air_mod, fixedclipping_mod]), seen), apps.record(model()), 8, train_config=config
    )
    assert max(seen) <= NORM


def _app(mods):
    app = apps.ClientApp()

    @app.train(mods=mods)
    def train(message, context):
        found = apps.arrays(message.content["arrays"])
        moved = {name: (array + 1).astype(array.dtype) for name, array in found.items()}
        content = {"arrays": apps.record(moved), "metrics": apps.MetricRecord({"num-examples": 3})}
        return apps.Message(apps.RecordDict(content), reply_to=message)

    return app


@pytest.mark.parametrize("norm", [0.0, -1.0, "x", float("nan")])
def test_a_norm_that_is_none_is_refused_by_the_client(norm):
    strategy, config = AirAvg("common_k", 0.5, **QUIET), ConfigRecord({"clipping_norm": norm})
    grid = LocalGrid(apps.app(apps.drift), 3)
    strategy.start(grid, apps.record(model()), 1, train_config=config)
    assert all("clipping_norm = " in reason for reason in strategy.rounds[0].failed.values())
    assert len(strategy.rounds[0].failed) == 3
