"""A training that goes on from its checkpoint equals one that was never interrupted."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

import flower_apps as apps
from airfeel import _files
from airfeel.flower import AirAvg, AirMod
from airfeel.flower.local import LocalGrid
from airfeel.learning.optimizers.descent import Adam
from airfeel.radio.channels import FadingMAC
from airfeel.radio.power import LongTermPower
from rounds import Tracking

MODEL = apps.model(running_mean=np.ones(5, np.float32), steps=np.array(7))


class Killed(BaseException):
    """What ends a process."""


class Mortal(LocalGrid):
    """A grid on which the server dies after the clients have answered a round."""

    dies = 0

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        replies = super().send_and_receive(messages)
        if messages and messages[0].content["config"]["server-round"] == self.dies:
            raise Killed
        return replies


def strategy(path=None, **more):
    given = {"scheme": "tsa_ga", "ratio": 0.5, "channel": FadingMAC(noise_var=0.1), "power": LongTermPower()}
    given |= {"optimizer": Adam(), "rate": 0.05, "checkpoint": path, "fraction_evaluate": 0.0}
    return AirAvg(**(given | more))


def same(first, second):
    return all(np.array_equal(first[name].numpy(), second[name].numpy()) for name in first)


@pytest.fixture(scope="module")
def uninterrupted():
    grid = Mortal(apps.app(apps.drift), 4)
    return strategy().start(grid, apps.record(MODEL), 6).arrays


@pytest.mark.parametrize("dies", [0, 4])
@pytest.mark.parametrize("clients", ["live on", "restart with a file"])
def test_a_resumed_training_is_the_same_to_the_last_bit(uninterrupted, tmp_path, dies, clients):
    """The server ends after round 3, or dies when round 4 was answered; clients live on or have files."""
    path = tmp_path / "training.npz"
    grid = Mortal(apps.app(apps.drift), 4)
    for node, context in grid.contexts.items():
        if clients == "restart with a file":
            context.node_config["airfeel-memory"] = str(tmp_path / f"memory-{node}.npz")
    grid.dies = dies
    if dies:
        with pytest.raises(Killed):
            strategy(path).start(grid, apps.record(MODEL), 6)
    else:
        strategy(path).start(grid, apps.record(MODEL), 3)
    grid.dies = 0
    if clients == "restart with a file":
        for node in grid.contexts:
            grid.restart(node)
    seen = []
    again = strategy(path)
    result = again.start(
        grid, apps.record(MODEL), 6, evaluate_fn=lambda round, arrays: seen.append(round) or None
    )
    assert same(result.arrays, uninterrupted)
    assert seen == [3, 4, 5, 6]
    assert sorted(result.train_metrics_clientapp) == [4, 5, 6]
    assert [report.round for report in again.rounds] == [4, 5, 6]
    assert not any(report.restarted for report in again.rounds)


def test_another_training_does_not_find_the_memory_of_this_one(tmp_path):
    """A file outlives its training: the next one starts empty."""
    found = []
    for _ in range(2):
        grid = Mortal(apps.app(apps.drift), 4, node_config={"airfeel-memory": str(tmp_path / "memory.npz")})
        del grid.contexts[1002], grid.contexts[1003], grid.contexts[1004]
        one = strategy(scheme="common_k", min_train_nodes=1, min_available_nodes=1)
        found.append(one.start(grid, apps.record(MODEL), 3).arrays)
    assert same(*found)


def test_a_damaged_memory_file_is_named_and_the_client_goes_on(tmp_path, caplog):
    path = tmp_path / "memory.npz"
    path.write_bytes(b"nothing that could be read")
    grid = Mortal(apps.app(apps.drift), 4)
    grid.contexts[1002].node_config["airfeel-memory"] = str(path)
    strategy().start(grid, apps.record(MODEL), 1)
    assert "the memory of this client starts empty" in caplog.text and "memory.npz" in caplog.text


def test_a_training_that_is_complete_returns_its_model(uninterrupted, tmp_path):
    path = tmp_path / "training.npz"
    for _ in range(2):
        result = strategy(path).start(Mortal(apps.app(apps.drift), 4), apps.record(MODEL), 6)
        assert same(result.arrays, uninterrupted)


def test_a_checkpoint_holds_arrays_and_no_programme(tmp_path):
    path = tmp_path / "training.npz"
    strategy(path).start(Mortal(apps.app(apps.drift), 4), apps.record(MODEL), 1)
    with np.load(path, allow_pickle=False) as content:
        assert all(not content[name].dtype.hasobject for name in content.files)


@pytest.mark.parametrize("change", [{"ratio": 0.4}, {"seed": 3}, {"scheme": "common_k"}, {"channel": None}])
def test_settings_of_another_training_are_refused(tmp_path, change):
    path = tmp_path / "training.npz"
    grid = Mortal(apps.app(apps.drift), 4)
    strategy(path).start(grid, apps.record(MODEL), 1)
    with pytest.raises(ValueError, match="training.npz: is of another training .* name another file"):
        strategy(path, **change).start(grid, apps.record(MODEL), 2)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "training.npz"
    grid = Mortal(apps.app(apps.drift), 4)
    strategy(path).start(grid, apps.record(MODEL), 1)
    whole = path.read_bytes()
    for content in (b"", b"no file of ours", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises((ValueError, _files.Unreadable), match="training.npz"):
            strategy(path).start(grid, apps.record(MODEL), 2)


@pytest.mark.parametrize(
    "scheme", [{"scheme": Tracking()}, {"scheme": None, "ratio": None, "compression": 100}]
)
def test_a_scheme_of_ones_own_and_one_of_bits_resume_too(tmp_path, scheme):
    path, ended = tmp_path / "training.npz", []
    for parts in ((2, 4), (4,)):
        grid = LocalGrid(apps.app(apps.drift, mod=AirMod(schemes=[Tracking])), 4)
        for rounds in parts:
            last = strategy(path, channel=None, **scheme)
            last.start(grid, apps.record(MODEL), rounds)
        path.unlink()
        ended.append(last._state.theta)
    np.testing.assert_array_equal(*ended)
    assert ended[0].any()
