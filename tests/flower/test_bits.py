"""AirAvg(bits=...): values of any scheme in few bits on the wire; scheduled keeps nothing at the clients."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import flower_apps as apps
from airfeel.flower import AirAvg, air_mod, wire
from airfeel.flower.local import LocalGrid
from airfeel.uplink.packing import Rounding, pack, unpack

QUIET = {"fraction_evaluate": 0.0}
MODEL = {"w": np.linspace(-1, 1, 30000, dtype=np.float32).reshape(100, 300), "b": np.ones(300, np.float32)}
NOISE = {1: 0.58, 2: 0.14, 4: 0.013, 8: 2e-4, 16: 1e-7}  # error of one device over what it sends


def train(rounds=3, nodes=5, step=apps.drift, grid=LocalGrid, model=MODEL, **given):
    strategy = AirAvg(**{"scheme": "scheduled", "ratio": 0.3, **QUIET, **given})
    grid = grid(apps.app(step), nodes)
    found = apps.arrays(strategy.start(grid, apps.record(model), rounds).arrays)
    return strategy, grid, found


@pytest.mark.parametrize("bits", NOISE)
def test_rounding_is_right_in_the_mean_and_as_exact_as_its_bits(bits):
    values = np.random.default_rng(5).standard_normal(3000).astype(np.float32)
    read = []
    for device in range(200):
        rounding = Rounding(bits, 7, device)
        message = rounding.write(values)
        read.append(rounding.read(message, len(values)))
        assert message.nbytes * 8 <= 3072 * (bits + (1 / 8 if bits >= 8 else 1 / 16))
    energy = np.sum(values**2)
    error = np.mean([np.sum((one - values) ** 2) for one in read]) / energy
    assert NOISE[bits] / 10 < error < NOISE[bits]
    assert np.sum((np.mean(read, axis=0) - values) ** 2) / energy < 2 * error / 200 + 1e-12


@pytest.mark.parametrize("bits", NOISE)
@pytest.mark.parametrize("scale", [0.0, 1e-42, 1e-25, 1e30])
def test_values_of_any_size_are_rounded(bits, scale):
    values = (scale * np.random.default_rng(1).standard_normal(700)).astype(np.float32)
    rounding = Rounding(bits, 1, 2)
    found = rounding.read(rounding.write(values), 700)
    assert np.isfinite(found).all()
    assert scale > 1e-40 or np.abs(found).max() <= 4 * scale
    assert scale < 1e-40 or np.sum((found / scale - values / scale) ** 2) < 0.8 * np.sum(
        (values / scale) ** 2
    )


@pytest.mark.parametrize("bits", [None, 2, 4, 16])  # one bit is no more than that of a place
def test_places_of_a_sparse_signal_travel_beside_its_values(bits):
    signal = np.zeros(5000, np.float32)
    signal[::50] = np.arange(1, 101)
    rounding = None if bits is None else Rounding(bits, 1, 2)
    arrays = pack(signal, rounding)
    found = unpack(arrays, 5000, rounding)
    assert set(arrays) == {"places", "values"} and not found[signal == 0].any()
    assert np.sum((found - signal) ** 2) < 0.7 * np.sum(signal**2)
    for wrong in ({"values": arrays["values"][:0]}, {"places": arrays["places"][:3]}):
        with pytest.raises(ValueError, match="its signal is"):
            unpack({**arrays, **wrong}, 5000, rounding)


def test_a_signal_comes_back_as_it_was():
    draw = np.random.default_rng(1)
    for share in (0.0, 0.05, 0.5, 1.0):
        signal = np.where(draw.random(1003) < share, draw.standard_normal(1003), 0).astype(np.float32)
        assert np.array_equal(unpack(pack(signal), 1003), signal)


@pytest.mark.parametrize(("bits", "fewer"), [(1, 98), (2, 48), (4, 25), (8, 13), (16, 6.5), (32, 3.3)])
def test_arrays_are_as_many_times_smaller(bits, fewer):
    strategy, grid, _ = train(bits=bits)
    whole = 5 * (30300 * 4 + 2 * wire.HEADER)
    assert whole / strategy.rounds[0].traffic.up == pytest.approx(fewer, rel=0.08)
    assert not any(context.state for context in grid.contexts.values())


@pytest.mark.parametrize(
    ("scheme", "options"),
    [("scheduled", None), ("scheduled", {"memory": "auto"})]
    + [(name, None) for name in ("error_free", "tsa_ga", "common_k")],
)
def test_sixteen_bits_are_as_good_as_all(scheme, options):
    """But for the last bits, which may change what is chosen next."""
    given = {"scheme": scheme, "rounds": 6, "options": options}
    found, whole = (train(bits=bits, **given)[2] for bits in (16, 32))
    moved = sum(np.sum((whole[k] - MODEL[k]) ** 2) for k in MODEL)
    assert 0 < sum(np.sum((found[k] - whole[k]) ** 2) for k in MODEL) < 3e-3 * moved


@pytest.mark.parametrize("memory", ["none", "auto", "error"])
def test_what_all_want_is_learned_with_two_bits(memory):
    goal = {name: array + np.float32(0.5) * np.sign(array) for name, array in MODEL.items()}

    def towards(model, device, round):
        return {name: model[name] - 0.3 * (model[name] - goal[name]) for name in model}

    given = {"bits": 2, "fraction_train": 0.5, "options": {"memory": memory}}
    strategy, _, found = train(25, 8, towards, **given)
    left = sum(np.sum((found[k] - goal[k]) ** 2) for k in goal)
    assert left < 0.05 * sum(np.sum((MODEL[k] - goal[k]) ** 2) for k in goal)
    assert all(len(report.heard) == 4 for report in strategy.rounds)


def test_nodes_without_a_number_round_by_numbers_of_their_own():
    app = ClientApp()

    @app.train(mods=[air_mod])
    def shrink(message, context):
        model = {name: 0.9 * array for name, array in apps.arrays(message.content["arrays"]).items()}
        content = {"arrays": apps.record(model), "metrics": MetricRecord({"num-examples": 3})}
        return Message(RecordDict(content), reply_to=message)

    strategy = AirAvg("scheduled", 0.3, bits=1, **QUIET)
    strategy.start(LocalGrid(app, 4, {"partition-id": "no number"}), apps.record(MODEL), 2)
    assert [len(report.heard) for report in strategy.rounds] == [4, 4]


def test_a_memory_of_scheduled_is_there_where_it_is_asked_for():
    assert train(rounds=1)[0].server.scheme.keeps == "none"
    _, grid, _ = train(rounds=1, options={"memory": "auto"})
    assert all(context.state for context in grid.contexts.values())
