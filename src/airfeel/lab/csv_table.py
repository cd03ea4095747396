"""CSV for people and their spreadsheets: text in it is text, and numbers are numbers."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from airfeel._checks import visible

_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes a cell for that begins so


def csv_table(rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as CSV; what does not exist is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Return a cell that no spreadsheet computes: an apostrophe marks what begins as a formula does."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
