"""AirAvg and air_mod where every reply arrives: the mean, the trajectory, what travels and what it weighs."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.serverapp.strategy import FedAvg

import airfeel as af
import flower_apps as apps
import small
from airfeel.flower import AirAvg, AirMod, air_mod, wire
from airfeel.flower.local import LocalGrid
from airfeel.learning.optimizers.descent import Adam, GradientDescent
from airfeel.radio.channels import FadingMAC
from airfeel.registry import SCHEMES
from airfeel.schemes.common_k import CommonK
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.loop import start, steps

QUIET = {"fraction_evaluate": 0.0}


def train(strategy, model, *, rounds=5, nodes=4, app=None, **given):
    """Return the model after every round."""
    course = []
    grid = LocalGrid(apps.app(apps.drift) if app is None else app, nodes)

    def look(round, arrays):
        course.append(apps.arrays(arrays))

    strategy.start(grid, apps.record(model), rounds, evaluate_fn=look, **given)
    return course


def close(first, second, rtol):
    """Whether two models agree, relative to the size of each array."""
    return all(
        np.abs(first[k].astype(float) - second[k]).max() <= rtol * np.abs(second[k]).max() for k in second
    )


@pytest.mark.parametrize("scheme", ["dense", "common_k", "scheduled"])
def test_everything_sent_is_fedavg(scheme):
    """Weights are unequal (10, 20, 30, 40), and five rounds long nothing but rounding is between the two."""
    model = apps.model()
    expected = train(FedAvg(**QUIET), model, app=apps.app(apps.drift, mod=None))
    found = train(AirAvg(scheme, ratio=1.0, **QUIET), model)
    for mine, theirs in zip(found, expected, strict=True):
        assert close(mine, theirs, rtol=1e-6)


def test_an_app_with_the_mod_serves_other_strategies_too():
    model = apps.model()
    plain = train(FedAvg(**QUIET), model, app=apps.app(apps.drift, mod=None))
    with_mod = train(FedAvg(**QUIET), model, app=apps.app(apps.drift, mod=air_mod))
    assert close(with_mod[-1], plain[-1], rtol=1e-6)


@pytest.mark.parametrize(
    ("scheme", "channel"),
    [
        ("tsa_ga", {"channel.noise_var": 1.0}),
        ("common_k", {"channel.kind": "fading"}),
        ("scheduled", {"channel.noise_var": 1.0}),
        ("d_dsgd", {"channel.noise_var": 0.1, "channel.kind": "fading"}),
        ("error_free", {}),
        ("split", {}),
    ],
)
@pytest.mark.parametrize("exchange", ["one", "two"])
def test_the_trajectory_is_that_of_train(scheme, channel, exchange):
    """The same data, seeds and scheme, once in our loop and once as messages between apps."""
    if exchange == "two" and scheme in ("d_dsgd", "error_free", "split"):
        pytest.skip("their signals do not add up in the air")
    settings = small.SETTINGS | {"rounds": 6, "scheme": scheme, "devices.samples": [60, 80, 100, 120, 140]}
    config = af.load_config(None, settings | channel)
    parts = assemble(config, Own(dataset=small.arrays()))
    expected = list(steps(parts, start(parts)))
    rate = config.devices.learning_rate

    def step(model, device, round):
        theta = np.concatenate([model[name].reshape(-1) for name in parts.shapes])
        given = parts.task, theta, parts.data[device], rate, config.seed, round, device
        moved = theta - rate * parts.training.accumulated_gradient(*given)
        return as_model(moved)

    def as_model(theta):
        found, begin = {}, 0
        for name, shape in parts.shapes.items():
            size = int(np.prod(shape))
            found[name] = theta[begin : begin + size].reshape(shape).astype(np.float32)
            begin += size
        return found

    weights = lambda device, round: {"num-examples": len(parts.data[device])}  # noqa: E731
    air = parts.air.channel if parts.scheme.uses_radio else None
    more = {"power": config.uplink.power, "exchange": exchange, "seed": config.seed, "audit": True}
    strategy = AirAvg(parts.scheme, config.uplink.ratio, air, **more, **QUIET)
    app, model = apps.app(step, metrics=weights), as_model(parts.task.init(config.seed))
    course = train(strategy, model, rounds=6, nodes=5, app=app)
    for found, known, report in zip(course[1:], expected, strategy.rounds, strict=True):
        assert close(found, as_model(known.state.theta), rtol=1e-3)
        assert len(report.heard) == known.record.devices
        if known.record.nmse_db is not None and known.record.nmse_db > -60:  # below it is all rounding
            assert report.nmse_db == pytest.approx(known.record.nmse_db, abs=0.1)
        assert report.channel_uses == known.aggregate.channel_uses
        assert report.energy == pytest.approx(known.aggregate.energy.max(), rel=1e-3)


def test_exact_arrays_travel_whole_and_others_keep_their_types():
    """Statistics by name and whole numbers by type: both are FedAvg's mean, the latter to the nearest one."""
    model = apps.model(
        running_mean=np.ones(5, np.float32),
        steps=np.array(7, np.int64),
        half=np.linspace(-1, 1, 8, dtype=np.float16),
        double=np.linspace(-1, 1, 8),
    )
    expected = train(FedAvg(**QUIET), model, rounds=1, app=apps.app(apps.drift, mod=None))[-1]
    strategy = AirAvg("common_k", ratio=0.1, exact=["*running_*"], **QUIET)
    found = train(strategy, model, rounds=1)[-1]
    assert {name: array.dtype for name, array in found.items()} == {k: a.dtype for k, a in model.items()}
    assert {name: array.shape for name, array in found.items()} == {k: a.shape for k, a in model.items()}
    np.testing.assert_allclose(found["running_mean"], expected["running_mean"], rtol=1e-6)
    assert found["steps"] == round(float(expected["steps"])) == 9
    everything = train(AirAvg("dense", **QUIET), model, rounds=1)[-1]
    assert close(everything, {k: expected[k] for k in ("weight", "bias", "double")}, rtol=1e-6)
    assert close(everything, {"half": expected["half"]}, rtol=2e-3)  # FedAvg itself adds in half precision


def test_bytes_are_counted():
    """A tenth of 500,000 numbers with type and length, and an array with its head; the rest is small."""
    model = {"w": np.zeros((1000, 500), np.float32), "running_mean": np.zeros(25, np.float32)}
    strategy, seen = AirAvg("common_k", ratio=0.1, **QUIET), []
    weigh = lambda round, node, reply: seen.append(wire.message_bytes(reply)) or [reply]  # noqa: E731
    strategy.start(apps.Faulty(apps.app(apps.drift), 3, weigh), apps.record(model), 2)
    for report in strategy.rounds:
        traffic = report.traffic
        assert traffic.up == 3 * (len("<f4 50000\n") + 200_000 + 128 + 4 * 25)
        assert traffic.up_message < 0.11 * 3 * 4 * 500_000 and traffic.down > 3 * 4 * 500_025
        assert traffic.up_message == pytest.approx(sum(seen[:3]), rel=1e-3)
        assert report.metrics()["air-bytes-up"] == traffic.up


def test_metrics_of_the_app_are_averaged_by_weight():
    strategy = AirAvg("common_k", **QUIET)
    grid = LocalGrid(apps.app(apps.drift, metrics=lambda device, round: {"loss": float(device)}), 4)
    result = strategy.start(grid, apps.record(apps.model()), 2)
    for metrics in result.train_metrics_clientapp.values():
        assert metrics["loss"] == pytest.approx((0 * 10 + 1 * 20 + 2 * 30 + 3 * 40) / 100)
        assert metrics["air-heard"] == 4
        assert "num-examples" not in metrics


@pytest.mark.parametrize("scheme", [name for name in SCHEMES.names() if name != "scalecom"])
def test_every_scheme_learns_what_all_want(scheme):
    """All clients go to the same point; every scheme brings the model closer to it."""
    goal = {"w": np.where(np.arange(400) % 10, 0, np.sin(np.arange(400))).reshape(20, 20).astype(np.float32)}

    def step(model, device, round):
        return {"w": model["w"] + 0.2 * (goal["w"] - model["w"])}

    strategy = AirAvg(scheme, ratio=0.4, channel="gaussian", power=1e6, audit=True, **QUIET)
    found = train(strategy, {"w": np.zeros((20, 20), np.float32)}, rounds=12, app=apps.app(step))[-1]
    assert np.linalg.norm(found["w"] - goal["w"]) < 0.75 * np.linalg.norm(goal["w"])


@dataclasses.dataclass(frozen=True)
class Doubled(CommonK):
    """A scheme of one's own: common coordinates, sent twice as strong."""

    factor: float = 2.0

    def compress(self, plan, accumulated):
        sent = super().compress(plan, accumulated)
        return af.Sent(self.factor * sent.signal, sent.remainder)

    def decode(self, state, plan, heard):
        return super().decode(state, plan, af.Heard(heard.observation / self.factor, heard.noise_var))


def test_a_scheme_of_ones_own_runs_where_the_client_has_it():
    model = apps.model()
    own = train(AirAvg(Doubled(factor=4.0), ratio=0.5, **QUIET), model, app=_with(AirMod(schemes=[Doubled])))
    plain = train(AirAvg("common_k", ratio=0.5, **QUIET), model)
    assert close(own[-1], plain[-1], rtol=1e-6)


def test_a_client_runs_nothing_that_only_the_server_names():
    strategy = AirAvg(Doubled(), **QUIET)
    train(strategy, apps.model(), rounds=1)
    reasons = list(strategy.rounds[0].failed.values())
    assert len(reasons) == 4
    assert all("Doubled" in reason and "is not registered here" in reason for reason in reasons)
    assert strategy.rounds[0].skipped


def test_a_name_in_a_message_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="is not registered here"):
        SCHEMES.registered("evil_module:Scheme")


def test_the_servers_optimizer():
    """One step of Adam moves every parameter by the rate; momentum adds up.

    The server keeps double precision: thirty steps that are each too small for float16 arrive.
    """
    model = {"w": np.zeros(50, np.float32)}

    def step(arrays, device, round):
        return {"w": arrays["w"] + 1}

    adam = train(AirAvg("dense", optimizer=Adam(), rate=0.01, **QUIET), model, rounds=1, app=apps.app(step))
    np.testing.assert_allclose(adam[-1]["w"], 0.01, rtol=1e-5)
    momentum = AirAvg("dense", optimizer=GradientDescent(momentum=0.5), **QUIET)
    np.testing.assert_allclose(train(momentum, model, rounds=2, app=apps.app(step))[-1]["w"], 1 + 1.5)
    half, least = {"w": np.full(64, 1.0, np.float16)}, np.spacing(np.float16(1.0))
    small_steps = apps.app(lambda arrays, device, round: {"w": arrays["w"] + least})
    found = train(AirAvg("dense", rate=0.05, **QUIET), half, rounds=30, app=small_steps)[-1]["w"]
    assert found.dtype == np.float16 and (found >= 1 + least).all()


@pytest.mark.parametrize(
    "given",
    [
        {"scheme": "tsa_ga", "ratio": 0.5, "channel": FadingMAC(noise_var=0.1)},
        {"scheme": "scheduled", "ratio": 0.3, "bits": 1},
    ],
)
def test_equal_trainings_are_equal_whatever_the_ids(given):
    """Node ids are drawn by chance: sums and rounding follow the devices' own numbers, and the air theirs."""
    found = []
    for ids, seed in (([5, 6, 7, 8], 0), ([80, 3, 41, 7], 0), ([5, 6, 7, 8], 1)):
        grid, strategy = LocalGrid(apps.app(apps.drift), ids), AirAvg(**given, seed=seed, **QUIET)
        found.append(apps.arrays(strategy.start(grid, apps.record(apps.model()), 4).arrays))
    first, second, other = found
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def _with(mod):
    return apps.app(apps.drift, mod=mod)
