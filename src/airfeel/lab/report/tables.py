"""Tables of text: numbers to the right, words to the left."""

import re
from collections.abc import Sequence
from html import escape

from airfeel._checks import visible

Rows = Sequence[Sequence[str]]
_NUMBER = re.compile(r"[-−+±]?[\d.]|-?$")


def words(rows: Rows) -> list[bool]:
    """Return for every column whether it holds words; the first names the row and counts as such.

    >>> words([["curve", "accuracy", "verdict"], ["A-DSGD", "77.9 ± 0.2", "reproduced"], ["x", "-", ""]])
    [True, False, True]
    """
    columns = zip(*rows[1:], strict=True)
    found = [place == 0 or not all(map(_NUMBER.match, column)) for place, column in enumerate(columns)]
    return found or [True] * len(rows[0])


def text_table(rows: Rows) -> str:
    """Return rows of text in aligned columns, each row one line whatever its cells hold."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = words(rows)
    lines = (
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def html_table(rows: Rows) -> str:
    """Return the table for a page, in a box that scrolls where it is too wide."""
    kinds = [' class="words"' if is_left else "" for is_left in words(rows)]
    head = "".join(f"<th{kind}>{escape(cell)}</th>" for kind, cell in zip(kinds, rows[0], strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{escape(cell)}</td>" for k, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows[1:]
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
