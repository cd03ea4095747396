"""Data of any shape, from anywhere: what is found, what is kept, and one sentence for what cannot be."""

import io
import os
import pickle
import re
import sys
import types
import zipfile

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.learning.datasets import Dataset, fetchable, load_dataset, shape_of
from airfeel.learning.readers import NAMES
from airfeel.simulation.assembly import make_partition
from guards import limited

RNG = np.random.default_rng(3)
CLASSES = RNG.integers(0, 4, 90)
CLASSES[:4] = range(4)  # all of them are there
KINDS = {
    "grey images": RNG.integers(0, 256, (90, 6, 5), dtype=np.uint8),
    "channels last": RNG.integers(0, 256, (90, 6, 5, 3), dtype=np.uint8),
    "channels first": RNG.integers(0, 256, (90, 3, 6, 5), dtype=np.uint8),
    "vectors": RNG.standard_normal((90, 7), dtype=np.float32),
    "sequences": RNG.integers(0, 1000, (90, 12)),
    "clips": RNG.standard_normal((90, 2, 3, 4, 5)),
}
TARGETS = {"numbers": RNG.standard_normal(90), "vectors": RNG.standard_normal((90, 2), dtype=np.float32)}
TOKENS = np.stack([CLASSES, CLASSES[::-1]], axis=1)  # two labels per sample
CASES = {kind: (inputs, CLASSES) for kind, inputs in KINDS.items()}
CASES |= {f"targets, {name}": (KINDS["vectors"], targets) for name, targets in TARGETS.items()}
CASES["tokens"] = KINDS["sequences"], TOKENS


def quartet(inputs, labels=CLASSES):
    return inputs[:60], labels[:60], inputs[60:], labels[60:]


def check(data, inputs, labels=CLASSES):
    """Assert that a data set holds exactly these samples and says so."""
    for name, array in zip(NAMES, quartet(inputs, labels), strict=True):
        np.testing.assert_array_equal(getattr(data, name), array)
    floating = labels.dtype.kind == "f"
    assert (data.shape, data.dtype, data.classes) == (inputs.shape[1:], inputs.dtype, None if floating else 4)
    assert data.train_labels.dtype == (labels.dtype if floating else np.int64)
    told = data.describe()
    assert f"60 training and 30 test samples of shape {inputs.shape[1:]}, {inputs.dtype}; " in told
    several = ", labels of shape (2,)" if labels.ndim > 1 else ""
    assert told.endswith("(regression)" if floating else f"; 4 classes{several}")
    assert data.one_class_each == (not floating and not several)
    assert not data.train_inputs.flags.writeable and not data.test_labels.flags.writeable


def as_packed_npz(folder, arrays):
    names = ("x_train", "y_train", "x_test", "y_test")
    np.savez_compressed(folder / "mine.npz", **dict(zip(names, arrays, strict=True)), more=np.zeros(3))
    return folder / "mine.npz"


def as_function(folder, arrays):
    module = types.ModuleType("airfeel_test_data")
    module.load = lambda: Dataset.from_arrays(*arrays)
    sys.modules[module.__name__] = module
    return "airfeel_test_data:load"


def as_pair(folder, arrays):
    inputs, labels, test, test_labels = arrays
    return list(zip(inputs, labels, strict=True)), list(zip(test, test_labels, strict=True))


WAYS = {
    "arrays": lambda folder, arrays: arrays,
    "lists of arrays": lambda folder, arrays: list(arrays),
    "npz": small.write_npz,
    "packed npz": as_packed_npz,
    "folder": small.write_npy,
    "function": as_function,
    "pair": as_pair,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_samples_and_labels_of_any_shape_come_from_anywhere(tmp_path, way, case):
    check(load_dataset(WAYS[way](tmp_path, quartet(*CASES[case]))), *CASES[case])


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_torch_data_sets_are_read_to_the_end(kind):
    import torch
    from torch.utils.data import Subset, TensorDataset

    whole = TensorDataset(torch.from_numpy(KINDS[kind]), torch.from_numpy(CLASSES))
    train, test = Subset(whole, range(60)), Subset(whole, range(60, 90))
    check(Dataset.from_torch(train, test), KINDS[kind])
    check(load_dataset((train, test)), KINDS[kind])


def test_a_folder_of_npy_files_stays_on_the_disk(tmp_path):
    """One gigabyte of zeros in a file with holes."""
    shape = (2**17, 2**13)
    np.lib.format.open_memmap(tmp_path / "train_inputs.npy", "w+", np.uint8, shape)[70_000, 5] = 9
    np.save(tmp_path / "train_labels.npy", np.arange(2**17) % 7)
    np.save(tmp_path / "test_inputs.npy", np.zeros((3, 2**13), np.uint8))
    np.save(tmp_path / "test_labels.npy", np.arange(3))
    data = load_dataset(tmp_path)
    assert data.shape == (2**13,) and data.classes == 7
    assert data.train_inputs[[70_000, 0]].sum() == 9
    base = data.train_inputs
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap) and base.mode == "r"


def test_a_users_own_array_stays_writable_and_a_memory_map_is_not_looked_through(tmp_path):
    images = KINDS["grey images"].copy()
    Dataset.from_arrays(*quartet(images))
    assert images.flags.writeable
    path = tmp_path / "floats"
    mapped = np.memmap(path, np.float64, "w+", shape=(90, 3))
    mapped[80] = np.nan
    assert Dataset.from_arrays(*quartet(mapped)).shape == (3,)
    with pytest.raises(ValueError, match=r"test_inputs\[20\] holds nan"):
        Dataset.from_arrays(*quartet(np.array(mapped)))


def test_numbers_of_another_byte_order_are_turned_round():
    data = Dataset.from_arrays(*quartet(KINDS["vectors"].astype(">f4"), CLASSES.astype(">u2")))
    check(data, KINDS["vectors"])


def changed(name, value):
    return dict(zip(NAMES, quartet(KINDS["grey images"]), strict=True)) | {name: value}


IMAGES = KINDS["grey images"]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("train_inputs", IMAGES.astype(str), "dtype = '<U3': must be of whole or floating numbers"),
        ("train_inputs", IMAGES.astype(object), "train_inputs.dtype = 'object'"),
        ("train_inputs", IMAGES > 9, "train_inputs.dtype = 'bool'"),
        ("train_inputs", IMAGES[:, 0, 0], r"train_inputs.shape = \(90,\): must be \(count, ...\)"),
        ("train_inputs", [[1, 2], [3]], "train_inputs = 'list': must be an array"),
        ("train_inputs", IMAGES[:59], r"len\(train_labels\) = 60: must be the number of train_inputs, 59"),
        ("test_inputs", IMAGES[60:, :5], r"test_inputs = .*must hold uint8 of shape \(6, 5\) each"),
        ("test_inputs", IMAGES[60:] / 255, r"test_inputs = 'float64 .*must hold uint8"),
        ("test_inputs", IMAGES[:0], "none of them 0"),
        ("train_labels", CLASSES[:60] - 1, r"min\(train_labels\) = -1: must be >= 0"),
        ("train_labels", CLASSES[:60] + 2**31, r"max\(train_labels\) = \d+: must be <= 2147483647"),
        ("train_labels", np.eye(4, dtype=int)[CLASSES[:60]], r"test_labels = .*int64 of shape \(4,\) each"),
        ("test_labels", CLASSES[60:] / 2, "test_labels = 'float64 .*must hold int64"),
        ("test_labels", CLASSES[60:].astype("M8[s]"), "test_labels.dtype"),
        ("train_labels", np.full(60, np.inf), r"train_labels\[0\] holds nan or infinity"),
        ("classes", 2, "classes = 2: must be greater than the largest label, 3"),
        ("classes", 0, "classes = 0: must be a whole number >= 1"),
        ("pool", 0, "pool = 0: must be a whole number >= 1"),
    ],
)
def test_bad_arrays_are_one_sentence(name, value, rule):
    with pytest.raises(ValueError, match=rule) as caught:
        Dataset.from_arrays(**changed(name, value))
    assert "\n" not in str(caught.value)


def test_classes_may_be_given_but_not_for_a_regression():
    assert Dataset.from_arrays(**changed("classes", 9)).classes == 9
    with pytest.raises(ValueError, match="classes = 3: must be left out with floating labels"):
        Dataset.from_arrays(*quartet(IMAGES, TARGETS["numbers"]), classes=3)


def test_labels_that_count_from_one_make_no_class_of_their_own():
    """A class without samples would cost every model an output, and accuracy would not tell."""
    sentence = (
        "the smallest label = 1: must be 0, as classes count from 0: subtract 1 from all labels, "
        "or say how many classes there are with Dataset.from_arrays(..., classes=5)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        load_dataset(quartet(IMAGES, CLASSES + 1))


def test_other_classes_may_be_missing():
    """One in the middle; and the first one, as long as a test sample or the user knows of it."""
    gap = np.where(CLASSES == 2, 1, CLASSES)
    late = np.where(np.arange(90) < 60, np.maximum(CLASSES, 1), 0)
    assert [load_dataset(quartet(IMAGES, labels)).classes for labels in (gap, late)] == [4, 4]
    assert Dataset.from_arrays(*quartet(IMAGES, CLASSES + 1), classes=5).classes == 5


class Lengthy:
    """A map-style data set that claims to be larger than any memory."""

    def __len__(self):
        return 2**50

    def __getitem__(self, index):
        return np.zeros(1000), 0


class Broken(Lengthy):
    """A map-style data set whose files are gone."""

    def __getitem__(self, index):
        raise OSError("no disk")


PAIR = as_pair(None, quartet(IMAGES))


@pytest.mark.parametrize(
    ("train", "rule"),
    [
        (iter(PAIR[0]), "train = 'list_iterator': must have a length and items by index"),
        ([], r"len\(train\) = 0"),
        ([(IMAGES[0], 1, 2)], r"train\[0\] = 'tuple': must be a pair"),
        ([IMAGES[0]], r"train\[0\] = 'ndarray': must be a pair"),
        ([(IMAGES[0], 0), (IMAGES[1, 1:], 0)], r"train\[1\] = 'uint8 of shape \(5, 5\)': must be uint8"),
        ([(IMAGES[0], 0), (IMAGES[1], 0.5)], r"train\[1\] = 'float64 of shape \(\)': must be int64"),
        ([("text", 0)], r"train\[0\].dtype = '<U4'"),
        (Broken(), r"train\[0\] = 'Broken': cannot be read .OSError: no disk, test_datasets.py line \d+"),
        (Lengthy(), r"len\(train\) = 1125899906842624: needs \d+ bytes: must be at most"),
    ],
)
def test_bad_map_style_data_is_one_sentence(train, rule):
    with limited(), pytest.raises(ValueError, match=rule):
        Dataset.from_torch(train, PAIR[1])


def test_a_function_that_fails_is_one_sentence_with_its_place(monkeypatch):
    module = types.ModuleType("airfeel_test_failing")
    module.wants, module.fails = lambda path: path, lambda: {}["train"]
    module.ours = lambda: Dataset.from_arrays(*quartet(IMAGES)[:3], np.zeros(1, int))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name, sentence in {
        "wants": "must be a function without arguments that returns data .TypeError: .*'path'",
        "fails": r"returns data .KeyError: 'train', test_datasets.py line \d+",
        "ours": r"^len.test_labels. = 1: must be",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            load_dataset(f"airfeel_test_failing:{name}")


@pytest.mark.parametrize(
    ("found", "rule"), [(None, "not NoneType"), (quartet(IMAGES)[:3], "not 3 parts"), (7, "not int")]
)
def test_what_is_no_data_is_one_sentence(found, rule, monkeypatch):
    module = types.ModuleType("airfeel_test_nothing")
    module.load = lambda: found
    monkeypatch.setitem(sys.modules, module.__name__, module)
    rule = f"must be a Dataset, four arrays .* or .train, test., {rule}"
    for source in ("airfeel_test_nothing:load", found):
        with pytest.raises(ValueError, match=rule):
            load_dataset(source)


def member(content):
    """An npz file with this in place of its first array."""
    whole = io.BytesIO()
    np.savez(whole, **dict(zip(NAMES, quartet(IMAGES), strict=True)))
    with zipfile.ZipFile(whole) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | {"train_inputs.npy": content}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


def header(shape, dtype="|u1"):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": dtype, "fortran_order": False, "shape": shape})
    return content.getvalue()


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trap",)


BAD = {
    "promise": (header((2**20, 2**20)) + bytes(99), "promises 1099511627776 bytes and has 99"),
    "bomb": (header((2**28,)) + bytes(2**22), "promises 268435456 bytes and has 4194304"),
    "negative": (header((-1, 5)) + bytes(5), "promises"),
    "objects": (header((60, 1), "|O") + bytes(480), "[Oo]bject"),
    "pickle": (pickle.dumps(Trap()), "magic string"),  # our own bytes, to see that nobody loads them
    "empty": (b"", "magic string|EOF"),
}


@pytest.mark.parametrize("damage", BAD)
def test_files_with_a_false_header_are_refused(tmp_path, monkeypatch, damage):
    content, rule = BAD[damage]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.npz").write_bytes(member(content))
    folder = small.write_npy(tmp_path, quartet(IMAGES))
    (folder / "train_inputs.npy").write_bytes(content)
    for path, name in ((tmp_path / "bad.npz", "bad.npz"), (folder, "train_inputs.npy")):
        with limited(2**28), pytest.raises(ValueError, match=f"dataset = .*{name}.*{rule}"):
            load_dataset(path)
    assert not (tmp_path / "trap").exists()


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ValueError, match="none.npz.*No such file"):
        load_dataset(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="has no file train-images-idx3-ubyte .* nor train_inputs.npy"):
        load_dataset(tmp_path)
    folder = small.write_npy(tmp_path, quartet(IMAGES))
    (folder / "test_labels.npy").unlink()
    with pytest.raises(ValueError, match="test_labels.npy.*No such file"):
        load_dataset(folder)
    np.savez(tmp_path / "other.npz", images=IMAGES)
    with pytest.raises(ValueError, match=r"other.npz.*must hold arrays named train_inputs, .*, not images"):
        load_dataset(tmp_path / "other.npz")


# ---------------------------------------------------------------- who holds what


def parts(settings, data):
    few = {"devices.count": 3, "devices.samples": 20}
    return make_partition(af.load_config(None, few | settings), data)


@pytest.mark.parametrize("settings", [{"partition.classes": 2}, {"partition.alpha": 1.0}])
@pytest.mark.parametrize("labels", [*TARGETS.values(), TOKENS])
def test_classes_are_shared_out_only_where_each_sample_has_one(settings, labels):
    data = Dataset.from_arrays(*quartet(IMAGES, labels))
    assert [len(part) for part in parts({}, data)] == [20] * 3
    kind = "classes" if "partition.classes" in settings else "dirichlet"
    what = "labels with several classes" if labels is TOKENS else "targets of regression"
    with pytest.raises(ValueError, match=f"partition.kind = '{kind}': must be 'iid' for {what}"):
        parts(settings | {"partition.kind": kind}, data)


@pytest.mark.parametrize(
    ("labels", "rule"),
    [(TARGETS["numbers"], "needs classes"), (TOKENS, r"needs one label for each sample, .* shape \(2,\)")],
)
def test_softmax_wants_one_class_for_each_sample(labels, rule):
    with pytest.raises(ValueError, match=f"^model.kind = 'softmax': {rule}"):
        list(af.train(rounds=1, dataset=quartet(IMAGES, labels), devices={"count": 3, "samples": 20}))


def large(**options):
    """60,000 samples, of which version 0.1 would have taken 50,000."""
    inputs = np.zeros((60_000, 1), np.uint8)
    return Dataset.from_arrays(inputs, np.zeros(60_000, int), inputs[:1], [0], **options)


def test_devices_draw_from_all_samples_unless_the_data_set_or_the_user_says_otherwise():
    everything = {"devices.count": 1, "devices.samples": 60_000}
    (part,) = parts(everything, large())
    assert len(part) == 60_000
    for data, settings in ((large(pool=50_000), {}), (large(), {"partition.pool": 50_000})):
        (part,) = parts(everything | {"devices.samples": 50_000} | settings, data)
        np.testing.assert_array_equal(part, np.arange(50_000))
        with pytest.raises(ValueError, match="devices.samples = 60000: must be at most 50000"):
            parts(everything | settings, data)
    (part,) = parts(everything | {"partition.pool": 60_000}, large(pool=50_000))
    assert len(part) == 60_000
    with pytest.raises(ValueError, match="partition.pool = 60001: must be at most 60000, the number of"):
        parts({"partition.pool": 60_001}, large())


def test_the_catalogue_keeps_the_pool_of_the_paper():
    """Section VII: the last 10,000 training samples of MNIST and its look-alike belong to nobody."""
    fetched = filter(None, map(fetchable, af.registry.DATASETS.names()))
    drawn_from = {files.name: files.pool for files in fetched if files.pool is not None}
    assert drawn_from == {"mnist": 50_000, "fashion-mnist": 50_000}
    mnist = load_dataset("mnist")
    assert (mnist.pool, mnist.pool_size()) == (50_000, 50_000)
    held = np.concatenate(parts({"devices.count": 40, "devices.samples": 20_000}, mnist))
    assert 49_000 < held.max() < 50_000
    assert (shape_of("mnist").shape, shape_of("mnist").dtype) == (mnist.shape, mnist.dtype)
