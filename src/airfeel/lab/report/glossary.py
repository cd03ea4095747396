"""Words that strangers meet on the page, in plain sentences; only those that the page uses are shown."""

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from airfeel._files import parse_toml, read_shipped


class Word(NamedTuple):
    """A word, what it is found by in a text, and what it means."""

    name: str
    pattern: str
    meaning: str


@cache
def words() -> tuple[Word, ...]:
    """Return the whole glossary, in an order to read it in."""
    found = parse_toml(read_shipped("airfeel.lab.report", "glossary.toml"))
    return tuple(Word(**entry) for entry in found["words"])


def used(texts: Iterable[str]) -> list[Word]:
    """Return the words that appear in any of the texts."""
    whole = "\n".join(texts)
    return [word for word in words() if re.search(word.pattern, whole)]
