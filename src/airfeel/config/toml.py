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
    tables = {key: value for key, value in tree.items() if isinstance(value, Mapping)}
    lines = _lines(scalars, "", notes, others)
    for section, table in tables.items():
        body = _lines(table, f"{section}.", notes, others)
        lines += ["", f"[{section}]", *body] if body else []
    return "\n".join(lines).removeprefix("\n") + "\n"


def _lines(
    table: Mapping[str, Any], prefix: str, notes: Mapping[str, str], others: Mapping[str, tuple[Any, str]]
) -> list[str]:
    """Return one line per key that has a value, then, as comments, those that could have one."""
    given = {key: item for key, item in table.items() if item is not None}
    lines = [_line(f"{key} = {value(item)}", notes.get(prefix + key, "")) for key, item in given.items()]
    for dotted, (item, note) in others.items():
        key = dotted.removeprefix(prefix)
        if dotted.startswith(prefix) and "." not in key and key not in given:
            lines.append(_line(f"# {key} = {'...' if item is None else value(item)}", note))
    return lines


def _line(text: str, note: str) -> str:
    """Return a line with its comment, in one column as far as the values are short."""
    return f"{text:<24} # {note}" if note else text


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
