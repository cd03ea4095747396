"""Tables of TOML: written as text (reading is in the standard library) and put over one another."""

import json
from collections.abc import Mapping
from typing import Any


def dumps(
    tree: Mapping[str, Any],
    notes: Mapping[str, str] | None = None,
    others: Mapping[str, tuple[Any, str]] | None = None,
) -> str:
    """Return ``tree`` (scalars, lists of scalars and one level of tables) as TOML.

    Parameters
    ----------
    tree
        Keys whose value is None are left out: TOML has no null.
    notes
        Comments by dotted key, printed behind the value.
    others
        Keys that could be there, by dotted name: value and comment. They are printed as comments.
    """
    notes, others = notes or {}, others or {}
    scalars = {key: value for key, value in tree.items() if not isinstance(value, Mapping)}
    lines = _lines(scalars, "", notes)
    for section, table in tree.items():
        if not isinstance(table, Mapping):
            continue
        absent = {key: item for key, item in others.items() if key.partition(".")[0] == section}
        body = _lines(table, f"{section}.", notes) + [
            _commented(k, *i) for k, i in absent.items() if table.get(k.partition(".")[2]) is None
        ]
        lines += ["", f"[{section}]", *body] if body else []
    return "\n".join(lines).removeprefix("\n") + "\n"


def _commented(key: str, item: Any, note: str) -> str:
    """Return a key that could be given as a comment."""
    shown = (
        "..."
        if item is None or not isinstance(item, str | bool | int | float | list | tuple)
        else value(item)
    )
    return f"{'# ' + key.partition('.')[2] + ' = ' + shown:<24} # {note}"


def _lines(table: Mapping[str, Any], prefix: str, notes: Mapping[str, str]) -> list[str]:
    """Return one line per key that has a value, comments in one column as far as the values are short."""
    given = {key: f"{key} = {value(item)}" for key, item in table.items() if item is not None}
    comments = {key: notes.get(prefix + key, "") for key in given}
    return [f"{text:<24} # {comments[key]}" if comments[key] else text for key, text in given.items()]


def value(item: Any) -> str:
    """Return one value as TOML; a float keeps every digit."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        # JSON strings are TOML strings but for DEL, which TOML wants escaped.
        return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(item, list | tuple):
        return "[" + ", ".join(value(entry) for entry in item) + "]"
    return repr(item)


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``first`` with the keys of ``second`` put over it, table by table.

    >>> merge({"uplink": {"ratio": 0.1, "power": 500}}, {"uplink": {"ratio": 0.04}})
    {'uplink': {'ratio': 0.04, 'power': 500}}
    """
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged
