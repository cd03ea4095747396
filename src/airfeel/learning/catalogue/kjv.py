"""The King James Version of the Bible as a text to be learned character by character, book after book."""

import re
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfeel import _files
from airfeel.learning.fetch import DatasetFiles, File
from airfeel.learning.readers import SplitArrays
from airfeel.registry import DATASETS

LENGTH = 32  # characters of a sample
TEST_EVERY = 40  # one sample of so many is for testing
_TOKENS: np.dtype[np.int16] = np.dtype(np.int16)
_ASIDE = re.compile(r"<note.*?</note>|<title.*?</title>|<[^>]*>|[¶\\]", re.DOTALL)
_SPACE = re.compile(r"\s+")


def read_books(folder: Path) -> SplitArrays:
    """Return pieces of the text as numbers of characters, each with the same one character later."""
    books = [_SPACE.sub(" ", _ASIDE.sub("", text)).strip() for text in _texts(folder)]
    codes = {character: code for code, character in enumerate(sorted(set("".join(books))))}
    pieces = np.concatenate([_pieces(book, codes) for book in books if len(book) > LENGTH])
    test = np.arange(len(pieces)) % TEST_EVERY == TEST_EVERY - 1
    return [
        array for part in (pieces[~test], pieces[test]) for array in (part[:, :-1], part[:, 1:].astype(int))
    ]


def _texts(folder: Path) -> list[str]:
    """Return the books with their marks: an index tells begin and length of each compressed one."""
    found = []
    for part in ("ot", "nt"):
        index = np.frombuffer(_files.read_bytes(folder / f"{part}.bzs"), "<u4").reshape(-1, 3)
        content = _files.read_bytes(folder / f"{part}.bzz")
        found += [
            zlib.decompress(content[start : start + size]).decode() for start, size, _ in index.tolist()
        ]
    return found


def _pieces(book: str, codes: dict[str, int]) -> NDArray[np.int16]:
    """Return a book in pieces of 33 characters that share one with the next."""
    numbers = np.array([codes[character] for character in book], _TOKENS)
    return np.lib.stride_tricks.sliding_window_view(numbers, LENGTH + 1)[::LENGTH]


DATASETS.register(
    "kjv",
    "characters of the King James Bible, 32 at a time, book after book (eBible.org; public domain)",
    place=30,
)(
    DatasetFiles(
        "kjv",
        (
            File("ot.bzs", 480, "0d518856e8c6ceae0ca58bef944ba9a2809b5d4489cf81900853ad4af227510b"),
            File("ot.bzz", 1_985_469, "69f7e4e9b42ecef2e212ea957a388fccbeed1e3e333a38cf52e1b4064c6ce373"),
            File("nt.bzs", 336, "e7f9bc653743217cdcdf95890a708f997a03af056161d84bb540efef79e4e638"),
            File("nt.bzz", 730_659, "135b6e70af49372f3a82c5d9cc3c00278f38dbb2c12af74ea8d4b54c18d0cd56"),
        ),
        (
            "file:///usr/share/sword/modules/texts/ztext/engKJV2006eb/",  # where Debian's package puts them
            "apt:sword-text-kjv",
        ),
        shape=(LENGTH,),
        classes=67,
        dtype=_TOKENS,
        label_shape=(LENGTH,),
        read=read_books,
    )
)
