"""Samples with labels: the named data sets, files, functions, and a user's own arrays."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airfeel import _checks, _foreign
from airfeel.learning.fetch import DatasetFiles, ensure_files
from airfeel.learning.readers import checked_inputs, checked_labels, gathered, read_folder, read_npz
from airfeel.learning.tasks import DataShape
from airfeel.registry import DATASETS


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Training and test samples with their labels; the arrays are read-only.

    Inputs have the shape (count, ...): images with channels first or last, vectors, sequences of tokens.
    Labels are int64 in 0 .. ``classes`` - 1, or the floating targets of a regression, with ``classes`` None;
    of shape (count,), or (count, ...) where a sample has several.
    The devices draw from the first ``pool`` training samples unless ``partition.pool`` says otherwise; None
    stands for all of them.
    """

    train_inputs: NDArray[Any]
    train_labels: NDArray[Any]
    test_inputs: NDArray[Any]
    test_labels: NDArray[Any]
    name: str
    classes: int | None
    pool: int | None = None

    @classmethod
    def from_arrays(
        cls,
        train_inputs: ArrayLike,
        train_labels: ArrayLike,
        test_inputs: ArrayLike,
        test_labels: ArrayLike,
        *,
        name: str = "arrays",
        classes: int | None = None,
        pool: int | None = None,
    ) -> "Dataset":
        """Check a user's own arrays and make a data set of them, which records and messages call ``name``.

        Inputs are whole or floating numbers; memory maps stay on the disk. When ``classes`` is not given it
        is the largest label plus one, and the smallest must be 0.

        >>> import numpy as np
        >>> images, labels = np.zeros((4, 32, 32, 3), np.uint8), np.array([0, 1, 2, 1])
        >>> print(Dataset.from_arrays(images, labels, images[:2], labels[:2], name="mine").describe())
        mine: 4 training and 2 test samples of shape (32, 32, 3), uint8; 3 classes
        """
        train = checked_inputs("train_inputs", train_inputs), checked_labels("train_labels", train_labels)
        test = checked_inputs("test_inputs", test_inputs), checked_labels("test_labels", test_labels)
        for part, (inputs, labels) in {"train": train, "test": test}.items():
            if len(inputs) != len(labels):
                rule = f"must be the number of {part}_inputs, {len(inputs)}"
                raise _checks.reject(f"len({part}_labels)", len(labels), rule)
        for word, first, second in zip(("inputs", "labels"), train, test, strict=True):
            if (first.dtype, first.shape[1:]) != (second.dtype, second.shape[1:]):
                found = f"{second.dtype} of shape {second.shape}"
                rule = f"must hold {first.dtype} of shape {first.shape[1:]} each, as train_{word} do"
                raise _checks.reject(f"test_{word}", found, rule)
        if pool is not None:
            _checks.integer("pool", pool, at_least=1)
        return cls(*train, *test, name, _classes(classes, train[1], test[1]), pool)

    @classmethod
    def from_torch(
        cls, train: Any, test: Any, *, name: str = "torch", classes: int | None = None
    ) -> "Dataset":
        """Read two map-style data sets, such as ``torch.utils.data.Dataset``, to the end.

        They have a length and items by index; an item is a pair of sample and label, each a tensor, an array
        or a number. All samples must have one shape and type: pad sequences, and resize images.
        """
        arrays = (*gathered("train", train), *gathered("test", test))
        return cls.from_arrays(*arrays, name=name, classes=classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample, as it is stored."""
        return tuple(self.train_inputs.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the inputs' numbers."""
        return self.train_inputs.dtype

    @property
    def label_shape(self) -> tuple[int, ...]:
        """The shape of one sample's label: () for one class or one target."""
        return tuple(self.train_labels.shape[1:])

    @property
    def one_class_each(self) -> bool:
        """Whether every sample has exactly one class, so that devices can differ in their classes."""
        return self.classes is not None and not self.label_shape

    def describe(self) -> str:
        """Return a sentence about what was found: counts, shape and type, classes or targets."""
        each = self.label_shape
        labels = f"targets of shape {each}, {self.train_labels.dtype} (regression)"
        if self.classes is not None:
            labels = f"{self.classes} classes" + (f", labels of shape {each}" if each else "")
        return (
            f"{self.name}: {len(self.train_labels):,} training and {len(self.test_labels):,} test samples "
            f"of shape {self.shape}, {self.dtype}; {labels}"
        )

    def pool_size(self, wanted: int | None = None) -> int:
        """Return from how many training samples the devices draw, given ``partition.pool``."""
        count = len(self.train_labels)
        if wanted is not None:
            if wanted > count:
                rule = f"must be at most {count}, the number of training samples"
                raise _checks.reject("partition.pool", wanted, rule)
            return wanted
        return count if self.pool is None else min(self.pool, count)


def load_dataset(source: Any) -> Dataset:
    """Return a data set by name (fetched once, then cached), from files, from a function or from arrays.

    ``source`` is one of these, tried in this order:

    * a :class:`Dataset`, returned as it is;
    * four arrays (train inputs, train labels, test inputs, test labels), or a pair of map-style data sets
      (train, test) such as ``torch.utils.data.Dataset``;
    * a registered name such as ``"mnist"`` (write ``./mnist`` for a folder of that name);
    * a folder with ``{train,test}_{inputs,labels}.npy``, which are mapped into memory, or with the four idx
      files ``{train,t10k}-{images-idx3,labels-idx1}-ubyte``, each plain or with ``.gz``;
    * an ``.npz`` file with arrays of these names (or ``x_train``, ``y_train``, ``x_test``, ``y_test``);
    * ``package.module:load``, a function without arguments that returns any of the first two.
    """
    if not isinstance(source, str | Path):
        return _assembled(source, "arrays")
    name, path = str(source), Path(source).expanduser()
    if name in DATASETS.names():
        return _loaded(name)
    if path.is_dir():
        return Dataset.from_arrays(*read_folder(path), name=path.name)
    if path.suffix == ".npz":
        return Dataset.from_arrays(*read_npz(path), name=path.stem)
    if ":" in name:
        return _loaded(name)
    names = ", ".join(map(repr, DATASETS.names()))
    rule = f"must be one of {names}, or a folder of idx or npy files, or an npz file, or package.module:load"
    raise _checks.reject("dataset", name, rule + _checks.suggestion(name, DATASETS.names()))


def check_dataset(source: str) -> None:
    """Refuse a data set that does not exist, without fetching or computing one that does."""
    path = Path(source).expanduser()
    if ":" in source and not path.is_dir() and path.suffix != ".npz":
        DATASETS.get(source)  # finds the function, and does not call it
    elif source not in DATASETS.names():
        load_dataset(source)


def fetchable(source: str) -> DatasetFiles | None:
    """Return the files of a data set that can be fetched, None of any other."""
    found = DATASETS.get(source).target if DATASETS.is_built_in(source) else None
    return found if isinstance(found, DatasetFiles) else None


def fetch_dataset(source: str) -> None:
    """Bring a data set that can be fetched into the cache, and say how far it is; leave others alone."""
    if files := fetchable(source):
        ensure_files(files, files.folder)


def is_here(source: str) -> bool:
    """Whether a data set can be read without fetching or computing anything."""
    if files := fetchable(source):
        return not files.missing()
    return ":" not in source and source not in DATASETS.names()


def shape_of(source: str) -> DataShape:
    """Return the shape of the samples and the number of classes, without fetching where they are known."""
    return fetchable(source) or load_dataset(source)


def _loaded(name: str) -> Dataset:
    """Call the function that a name stands for."""
    if files := fetchable(name):
        return Dataset.from_arrays(*files(), name=name, classes=files.classes, pool=files.pool)
    rule = "must be a function without arguments that returns data"
    with _foreign.explained(_checks.reject("dataset", name, rule)):
        found = DATASETS.get(name).target()
    return _assembled(found, name)


def _assembled(found: Any, name: str) -> Dataset:
    """Make a data set of what a user gave, or a user's function returned."""
    if isinstance(found, Dataset):
        return found
    parts = found if isinstance(found, tuple | list) else ()
    if len(parts) == 4:
        return Dataset.from_arrays(*parts, name=name)
    if len(parts) == 2:
        return Dataset.from_torch(*parts, name=name)
    rule = "must be a Dataset, four arrays (train inputs and labels, test inputs and labels) or (train, test)"
    told = f"{len(parts)} parts" if parts else type(found).__name__
    raise _checks.reject("dataset", told if name == "arrays" else name, f"{rule}, not {told}")


def _classes(given: int | None, train: NDArray[Any], test: NDArray[Any]) -> int | None:
    """Return the number of classes, None for targets of a regression."""
    if train.dtype.kind == "f":
        if given is not None:
            raise _checks.reject("classes", given, "must be left out with floating labels, which have none")
        return None
    smallest, largest = int(min(train.min(), test.min())), int(max(train.max(), test.max()))
    if given is None and smallest > 0:  # more likely counted from 1 than without a sample of the first
        rule = f"must be 0, as classes count from 0: subtract {smallest} from all labels, or say how many "
        rule += f"classes there are with Dataset.from_arrays(..., classes={largest + 1})"
        raise _checks.reject("the smallest label", smallest, rule)
    classes = largest + 1 if given is None else _checks.integer("classes", given, at_least=1)
    if largest >= classes:
        raise _checks.reject("classes", classes, f"must be greater than the largest label, {largest}")
    return classes
