"""Images with labels: the named data sets, folders of idx files, and a user's own arrays."""

import gzip
import io
import math
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airfeel import _checks, _files
from airfeel.learning.fetch import ensure, is_present
from airfeel.learning.sources import CATALOGUE, DatasetFiles
from airfeel.learning.tasks import DataShape
from airfeel.registry import DATASETS

_STEMS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Training and test images with their labels; the arrays are read-only.

    Images are uint8 of shape (count, height, width), labels are int64 in 0 .. ``classes`` - 1.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    name: str
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return tuple(self.train_images.shape[1:])

    @classmethod
    def from_arrays(
        cls,
        train_images: ArrayLike,
        train_labels: ArrayLike,
        test_images: ArrayLike,
        test_labels: ArrayLike,
        *,
        name: str = "arrays",
        classes: int | None = None,
    ) -> "Dataset":
        """Check a user's own arrays and make a data set of them.

        Parameters
        ----------
        train_images, test_images
            uint8 arrays of shape (count, height, width), both with the same height and width.
        train_labels, test_labels
            One whole number per image, from 0 to ``classes`` - 1.
        name
            How records and messages call the data set.
        classes
            Number of classes; the largest label plus one when not given.

        >>> import numpy as np
        >>> images, labels = np.zeros((4, 28, 28), np.uint8), np.array([0, 1, 2, 1])
        >>> Dataset.from_arrays(images, labels, images[:2], labels[:2]).classes
        3
        """
        train = _images("train_images", train_images), _labels("train_labels", train_labels)
        test = _images("test_images", test_images), _labels("test_labels", test_labels)
        if train[0].shape[1:] != test[0].shape[1:]:
            shape = train[0].shape[1:]
            raise _checks.reject("test_images.shape", test[0].shape, f"must hold images of shape {shape}")
        for part, (images, labels) in {"train": train, "test": test}.items():
            if len(images) != len(labels):
                rule = f"must be the number of {part}_images, {len(images)}"
                raise _checks.reject(f"len({part}_labels)", len(labels), rule)
        largest = int(max(train[1].max(), test[1].max()))
        classes = largest + 1 if classes is None else _checks.integer("classes", classes, at_least=1)
        if largest >= classes:
            raise _checks.reject("classes", classes, f"must be greater than the largest label, {largest}")
        return cls(*train, *test, name=name, classes=classes)


def load_dataset(source: str | Path | Dataset) -> Dataset:
    """Return a data set by name (fetched once, then cached) or from a folder of idx files.

    Parameters
    ----------
    source
        ``"mnist"``, ``"fashion-mnist"`` or another registered name; the path of a folder with the four files
        ``{train,t10k}-{images-idx3,labels-idx1}-ubyte``, each plain or with ``.gz``; or
        ``package.module:load``, a function that returns a :class:`Dataset`. A name goes before a folder of
        that name: write ``./mnist`` for the folder. A :class:`Dataset` is returned as it is.
    """
    if isinstance(source, Dataset):
        return source
    if str(source) in (*DATASETS.names(), *CATALOGUE):
        return _loaded(str(source))
    folder = Path(source).expanduser()
    if folder.is_dir():
        return _from_folder(folder, folder.name)
    if ":" in str(source):
        return _loaded(str(source))
    names = ", ".join(repr(name) for name in DATASETS.names())
    rule = f"must be one of {names}, or a folder of idx files, or package.module:load"
    raise _checks.reject("dataset", str(source), rule)


def is_here(source: str) -> bool:
    """Whether a data set can be read without fetching or computing anything."""
    known = source in DATASETS.names() or ":" in source
    return is_present(source) if source in CATALOGUE else not known


def shape_of(source: str) -> DataShape:
    """Return the shape of the samples and the number of classes, without fetching where they are known."""
    DATASETS.names()  # imports the catalogue
    return CATALOGUE[source] if source in CATALOGUE else load_dataset(source)


def fetchable(files: DatasetFiles, place: int) -> None:
    """Register a data set whose idx files can be fetched, at its place in lists."""
    CATALOGUE[files.name] = files
    DATASETS.register(files.name, files.description, place=place)(partial(_loaded, files.name))


def _loaded(name: str) -> Dataset:
    """Call the function that a name stands for."""
    if name in CATALOGUE:
        return _from_folder(ensure(name), name)
    try:
        found = DATASETS.get(name).target()
    except TypeError as error:  # a function that wants arguments
        raise _checks.reject("dataset", name, f"must be a function without arguments ({error})") from error
    if not isinstance(found, Dataset):
        raise _checks.reject("dataset", name, f"must return a Dataset, not {type(found).__name__}")
    return found


def _from_folder(folder: Path, name: str) -> Dataset:
    return Dataset.from_arrays(*(read_idx(_find(folder, stem)) for stem in _STEMS), name=name)


def _find(folder: Path, stem: str) -> Path:
    dotted = stem.replace("-idx", ".idx")
    for name in (stem, f"{stem}.gz", dotted, f"{dotted}.gz"):
        if (folder / name).is_file():
            return folder / name
    raise _checks.reject("dataset", str(folder), f"has no file {stem} or {stem}.gz")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one idx file of unsigned bytes, plain or gzip.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension as a
    big-endian 32-bit number, then the bytes of the array.
    """
    try:
        with _files.opened(path) as file:
            return _read_idx(path, gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _checks.reject("dataset", str(path), f"is damaged: {error}") from None
    except _files.Unreadable as error:
        raise _checks.reject("dataset", str(path), str(error.strerror)) from None


def _read_idx(path: Path, stream: io.BufferedIOBase) -> NDArray[np.uint8]:
    """Read no more than the header promises, and one byte to see that nothing follows."""
    head = stream.read(4)
    ndim = head[3] if len(head) == 4 else 0
    sizes = stream.read(4 * ndim)
    if head[:3] != b"\0\0\x08" or not 1 <= ndim <= 4 or len(sizes) < 4 * ndim:
        raise _checks.reject("dataset", str(path), "is not an idx file of unsigned bytes")
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    promised = math.prod(shape)
    if promised > _files.memory():
        rule = f"promises {promised} bytes: must be at most this machine's memory, {_files.memory()}"
        raise _checks.reject("dataset", str(path), rule)
    body = _files.read_some(stream, promised + 1)
    if len(body) != promised:
        more = " or more" if len(body) > promised else ""
        rule = f"must hold {promised} bytes after its header, not {len(body)}{more}"
        raise _checks.reject("dataset", str(path), rule)
    return np.frombuffer(body, np.uint8).reshape(shape)


def _images(argument: str, value: ArrayLike) -> NDArray[np.uint8]:
    images = np.asarray(value)
    if images.dtype != np.uint8:
        raise _checks.reject(f"{argument}.dtype", str(images.dtype), "must be uint8, pixels from 0 to 255")
    if images.ndim != 3 or images.size == 0:
        raise _checks.reject(
            f"{argument}.shape", images.shape, "must be (count, height, width), none of them 0"
        )
    return _frozen(images)


def _labels(argument: str, value: ArrayLike) -> NDArray[np.int64]:
    labels = np.asarray(value)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.size == 0:
        found = f"{labels.dtype} of shape {labels.shape}"
        raise _checks.reject(argument, found, "must be a vector of whole numbers, one per image")
    if labels.min() < 0:
        raise _checks.reject(f"min({argument})", int(labels.min()), "must be >= 0")
    return _frozen(labels.astype(np.int64))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
