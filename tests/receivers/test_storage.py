"""Saved states: a receiver goes on from a file bit for bit, and refuses what is no state."""

import os
import zipfile

import numpy as np
import pytest

import airfeel as af
from airfeel.receivers.storage import pack_state, unpack_state
from guards import limited
from modeldata import Model, stream_of

MODEL = Model(size=200, ratio=0.5, activity=0.2, p01=0.05, beta=0.05)
HEARD = stream_of(MODEL, seed=0, rounds=16)[0]
RECEIVERS = [
    af.TSAGA(activity=0.1),
    af.TSAGA(activity=0.1, learn=False),
    af.TSAGA(activity=0.1, amplitude_message="expansion", window=3),
    af.TSAGA(activity=0.1, support_chain=False),
    af.TSAGA(activity=0.1, precision="float32"),
    af.TurboCS(0.1),
]


@pytest.mark.parametrize("receiver", RECEIVERS, ids=str)
@pytest.mark.parametrize("stop", [0, 1, 4, 12])
def test_goes_on_bit_for_bit(tmp_path, receiver, stop):
    state = receiver.init(MODEL.size)
    for reception in HEARD[:stop]:
        _, state = receiver.receive(state, reception)
    af.save_state(tmp_path / "state.npz", state)
    resumed = af.load_state(tmp_path / "state.npz")
    assert type(resumed) is type(state)
    for reception in HEARD[stop:]:
        first, state = receiver.receive(state, reception)
        second, resumed = receiver.receive(resumed, reception)
        assert first.mean.tobytes() == second.mean.tobytes()
        assert first.variance.tobytes() == second.variance.tobytes()
        assert first.info == second.info
    assert list(tmp_path.iterdir()) == [tmp_path / "state.npz"]


def test_packing_is_bitwise():
    receiver, state = RECEIVERS[0], RECEIVERS[0].init(MODEL.size)
    for reception in HEARD[:12]:
        _, state = receiver.receive(state, reception)
    packed = pack_state(state)
    again = pack_state(unpack_state(packed))
    assert packed.keys() == again.keys()
    assert all(packed[key].tobytes() == again[key].tobytes() for key in packed)
    assert all(packed[key].dtype == again[key].dtype for key in packed)


def test_a_file_needs_no_pickle(tmp_path):
    _, state = RECEIVERS[0].receive(RECEIVERS[0].init(MODEL.size), HEARD[0])
    af.save_state(tmp_path / "state.npz", state)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
        assert all(arrays[key].dtype != object for key in arrays)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.npz"
    af.save_state(path, RECEIVERS[0].init(3))
    with pytest.raises(ValueError, match="must be a receiver's state"):
        af.save_state(path, {"not": "a state"})
    assert af.load_state(path).size == 3
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_state_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no receiver's state"):
        unpack_state({"a": np.zeros(3)})
    packed = pack_state(RECEIVERS[0].receive(RECEIVERS[0].init(MODEL.size), HEARD[0])[1])
    with pytest.raises(ValueError, match="is missing: the state is not complete"):
        unpack_state({key: value for key, value in packed.items() if key != "state.belief.prior.mean"})
    with pytest.raises(ValueError, match="kind = 'Other'"):
        unpack_state({**packed, "kind": np.array("Other")})


def test_an_endless_or_forged_file_is_refused(tmp_path):
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(tmp_path / "forged", "w") as archive:
        archive.writestr("kind.npy", b"\x93NUMPY\x01\x00\x76\x00" + text)  # 745 GiB
    (tmp_path / "text").write_text("no archive")
    for name in ("zero", "pipe", "forged", "text"):
        with limited(), pytest.raises(OSError, match=f"{name}: is (not a regular file|no whole archive)"):
            af.load_state(tmp_path / name)


def test_a_state_is_not_written_through_a_link(tmp_path):
    (tmp_path / "victim").write_text("precious")
    for name in ("state.npz", f"state.npz.{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to("victim")
    af.save_state(tmp_path / "state.npz", RECEIVERS[0].init(3))
    assert (tmp_path / "victim").read_text() == "precious"
    assert af.load_state(tmp_path / "state.npz").size == 3
