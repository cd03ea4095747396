"""Saved states: whoever saved one goes on bit for bit, and what is no state is refused in one sentence."""

import contextlib
import dataclasses
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import airfeel as af
from airfeel import storage
from airfeel.beliefs.chains import ChainParams
from airfeel.receivers.tsaga import TSAGAState
from fuzzing import spoil
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
HERE = [__name__]


@dataclasses.dataclass(frozen=True, slots=True)
class Inner:
    """A part of a state of somebody's own scheme."""

    values: object
    derived: int = dataclasses.field(init=False, default=7)


@dataclasses.dataclass(frozen=True)
class Outer:
    """Such a state, with a class of its own inside."""

    inner: Inner
    rest: object = None

    @dataclasses.dataclass(frozen=True)
    class Nested:
        """Found by its qualified name."""

        size: int


@dataclasses.dataclass
class Changeable:
    """No state: it could be changed in place."""

    size: int


def later(receiver, rounds):
    state = receiver.init(MODEL.size)
    for reception in HEARD[:rounds]:
        _, state = receiver.receive(state, reception)
    return state


@pytest.mark.parametrize("receiver", RECEIVERS, ids=str)
@pytest.mark.parametrize("stop", [0, 1, 4, 12])
def test_goes_on_bit_for_bit(tmp_path, receiver, stop):
    state = later(receiver, stop)
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


NUMBERS = st.floats() | st.integers(-(10**30), 10**30) | st.booleans()
DTYPES = st.sampled_from(["f2", "f4", ">f8", "c16", "i1", "u8", "?", "U3", "S2", "M8[s]"])
LEAVES = (
    NUMBERS
    | st.none()
    | st.text()
    | hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    | hnp.arrays("f4", 1).map(lambda array: array[0])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=3)
        | inner.map(Inner)
        | st.builds(Outer, inner.map(Inner), inner)
    ),
    max_leaves=8,
)


def same(a, b):
    """Whether two values are of one type and have the same bytes throughout."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes() or a != a
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return a == b


@settings(deadline=None)
@given(VALUES)
def test_whatever_can_be_packed_comes_back_the_same(value):
    assert same(storage.from_bytes(storage.to_bytes(value), HERE), value)


def test_fortran_order_nested_classes_and_fields_that_are_not_arguments_come_back():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    inner = Inner(array)
    object.__setattr__(inner, "derived", 9)
    found = storage.from_bytes(storage.to_bytes(Outer(inner, Outer.Nested(3))), HERE)
    assert found.inner.values.flags.f_contiguous and found.inner.derived == 9
    assert found.rest == Outer.Nested(3)


def test_arrays_are_named_by_their_place_and_need_no_pickle(tmp_path):
    af.save_state(tmp_path / "state.npz", Outer(Inner(np.eye(2)), (np.ones(1), {"a/b": np.zeros(1)})))
    with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"header", "state.inner.values", "state.rest.0", "state.rest.1.0"}
        assert all(arrays[key].dtype != object for key in arrays)


def circle():
    inside = []
    inside.append(inside)
    return inside


def local():
    @dataclasses.dataclass(frozen=True)
    class Local:
        size: int

    return Local(3)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({1, 2}, "state.values is a set: must be an array, a number"),
        ({1: 2}, "state.values is a dict: must be"),
        (1j, "state.values is a complex: must be"),
        (Changeable(3), "state.values is a Changeable: must be"),
        (np.ma.masked_array([1.0]), "state.values is a MaskedArray: must be"),
        (np.array([None]), "state.values has dtype object: must hold numbers or text"),
        (circle(), "must not be nested so deeply, or contain itself"),
        (local(), "local.<locals>.Local: must be a frozen dataclass of a module"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_the_old_file_stays(tmp_path, value, sentence):
    path = tmp_path / "state.npz"
    af.save_state(path, Inner(3))
    with pytest.raises(ValueError, match=sentence):
        af.save_state(path, Inner(value))
    assert af.load_state(path, trusted=HERE).values == 3
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("state", [{"not": "a state"}, None, Changeable(3), ChainParams])
def test_what_is_no_dataclass_is_no_state(tmp_path, state):
    with pytest.raises(ValueError, match="must be a frozen dataclass"):
        af.save_state(tmp_path / "state.npz", state)
    assert list(tmp_path.iterdir()) == []


# --- files that are not what was written -------------------------------------------------------------------


def forged(tmp_path, state, **arrays):
    """Write a file whose header says ``state``."""
    header = {"format": storage.FORMAT, "state": state}
    path = tmp_path / "forged.npz"
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    return path


def refused(path, **options):
    """Return the sentence that a file is refused with, which names the file."""
    with pytest.raises(ValueError) as raised:
        af.load_state(path, **options)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)
    return str(raised.value)


CHAIN = {"activity": 0.1, "p01": 0.01, "beta": 0.02, "variance": 1.0}


def chain(**fields):
    return {"class": "airfeel.beliefs.chains:ChainParams", "fields": fields}


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"array": "a"}, "has no array 'a': the state is not complete"),
        ({"array": 3}, "is no state of airfeel"),
        ({}, "is no state of airfeel"),
        ([1, 2], "is no state of airfeel"),
        ({"class": 3, "fields": {}}, "is no state of airfeel"),
        (chain(), "does not have the fields of ChainParams (activity, beta, p01, variance)"),
        (chain(**CHAIN, self=1), "does not have the fields of ChainParams (self)"),
        (chain(**(CHAIN | {"p01": "x"})), "ChainParams refuses what the file holds (p01 = 'x': must be"),
        (
            {"class": "subprocess:Popen", "fields": {}},
            "names the class subprocess:Popen, which is not trusted",
        ),
        ({"class": "airfeel_evil:X", "fields": {}}, "which is not trusted"),
        ({"class": "airfeel.beliefs.chains:np", "fields": {}}, "must be a frozen dataclass of a module"),
        ({"class": "airfeel.config:load_config", "fields": {}}, "must be a frozen dataclass of a module"),
        ({"class": "airfeel.receivers.tsaga:ChainParams", "fields": CHAIN}, "must be a frozen dataclass"),
        ({"class": "airfeel.nothing:X", "fields": {}}, "must be a frozen dataclass of a module imported"),
    ],
)
def test_a_forged_structure_is_one_sentence(tmp_path, state, sentence):
    assert sentence in refused(forged(tmp_path, state, b=np.zeros(2)))


@pytest.mark.parametrize(
    ("header", "sentence"),
    [('{"format": 3, "state": null}', "has format 3: this version of airfeel reads 2")]
    + [
        ('{"format": 2, "state": ' + '{"list": [' * depth + "]}" * depth + "}", "is no state of airfeel.*")
        for depth in (1_000, 3_000, 200_000)
    ],
    ids=["later", "1000", "3000", "200000"],
)
def test_a_header_of_a_later_version_or_without_an_end_is_refused(tmp_path, header, sentence):
    path = tmp_path / "state.npz"
    np.savez(path, header=np.frombuffer(header.encode(), dtype=np.uint8))
    assert re.fullmatch(f"{re.escape(str(path))}: {sentence}", refused(path))


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_a_state_or_one_sentence(tmp_path_factory, data):
    """The archive's own checksums do not cover everything: what is read is checked all the same."""
    path = tmp_path_factory.mktemp("damage") / "state.npz"
    af.save_state(path, later(RECEIVERS[0], 2))
    path.write_bytes(spoil(path.read_bytes(), data))
    with contextlib.suppress(ValueError):  # and nothing else is raised
        assert isinstance(af.load_state(path), TSAGAState)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", bytes(100)])
def test_what_is_no_archive_is_refused(tmp_path, content):
    path = tmp_path / "state.npz"
    path.write_bytes(content)
    assert "is no state of airfeel" in refused(path)
    with pytest.raises(FileNotFoundError):
        af.load_state(tmp_path / "nowhere.npz")


def test_a_class_is_trusted_by_module_or_package_and_by_nothing_less(tmp_path):
    path = tmp_path / "state.npz"
    af.save_state(path, Inner(3))
    for trusted in ([], [__name__[:-1]], [f"{__name__}.more"]):
        assert f"names the class {__name__}:Inner" in refused(path, trusted=trusted)
    assert af.load_state(path, trusted=[__name__]).values == 3


def test_nothing_is_imported_because_a_file_names_it(tmp_path):
    """Not even a module of airfeel, nor through a module that imports others when asked for a name."""
    (tmp_path / "evil.py").write_text("print('imported')")
    names = ["evil:X", "airfeel:TSAGA", "airfeel:learning.tasks.Samples", "airfeel.learning.tasks:Samples"]
    paths = []
    for place, name in enumerate(names):
        path = forged(tmp_path, {"class": name, "fields": {}})
        paths.append(str(path.rename(tmp_path / f"{place}.npz")))
    program = (
        "import sys\nimport airfeel.storage\nbefore = set(sys.modules)\n"
        f"for path in {paths!r}:\n"
        "    try:\n        airfeel.storage.load_state(path, trusted=['evil'])\n"
        "    except ValueError as error:\n        assert 'names the class' in str(error)\n"
        "print(sorted(m for m in set(sys.modules) - before if m.startswith(('evil', 'airfeel'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
