"""Keys of a configuration as nested tables or by dotted name, and mistakes in them in one sentence each."""

import difflib
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from airfeel import _checks

_NOUNS = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}
_LIMITS = {
    "gt": "> {}",
    "ge": ">= {}",
    "lt": "< {}",
    "le": "<= {}",
    "min_length": "of at least {} character",
    "max_length": "of at most {} characters",
    "pattern": "of letters, digits, '.', '_' and '-'",
}


class Contradiction(ValueError):
    """Values that are right one by one but not together."""

    def __init__(self, key: str, value: Any, rule: str) -> None:
        """Keep the parts, so that the sentence can name the file as well."""
        super().__init__(f"{key} = {_checks.shown(value)}: {rule}")
        self.key, self.value, self.rule = key, value, rule


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested dictionary by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Undo :func:`flatten`."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, leaf = key.split(".")
        inner = tree
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[leaf] = value
    return tree


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


def lookup(tree: Any, key: str, default: Any = None, entries: Sequence[int] = ()) -> Any:
    """Return the value given for a dotted key, else the default; ``entries`` lead through lists."""
    places = iter(entries)
    for step in key.split("."):
        if isinstance(tree, Sequence) and not isinstance(tree, str):
            place = next(places, len(tree))
            tree = tree[place] if place < len(tree) else None
        if not isinstance(tree, Mapping) or step not in tree:
            return default
        tree = tree[step]
    return tree


def fields(model: type[BaseModel], prefix: str = "") -> dict[str, FieldInfo]:
    """Return every key of a configuration by its dotted name, sections included."""
    found: dict[str, FieldInfo] = {}
    for key, field in model.model_fields.items():
        found[prefix + key] = field
        kind, _ = _unwrap(field.annotation)
        if get_origin(kind) is tuple and get_args(kind):  # of tables, perhaps
            kind = get_args(kind)[0]
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= fields(kind, f"{prefix}{key}.")
    return found


def is_section(field: FieldInfo) -> bool:
    """Whether a field is a table of keys."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def sentences(
    error: ValidationError,
    model: type[BaseModel],
    tree: Mapping[str, Any],
    source: str,
    origins: Mapping[str, str],
) -> str:
    """Return one line for each mistake in ``tree``; ``origins`` are those of keys from elsewhere."""
    known = fields(model)
    lines: dict[str, str] = {}
    for entry in error.errors(include_url=False):
        cause = entry.get("ctx", {}).get("error")
        if isinstance(cause, Contradiction):
            key, value, rule = cause.key, cause.value, cause.rule
        else:
            place = entry["loc"]
            path = ".".join(str(step) for step in place if not isinstance(step, int))
            unknown = entry["type"] == "extra_forbidden"
            of_key = not path or (path in known and is_section(known[path]))
            if entry["type"] == "string_unicode" and of_key:
                path, unknown = ".".join(filter(None, [path, entry["input"]])), True
            while not unknown and path not in known:  # pydantic appends branches
                path = path.rpartition(".")[0]
            inside = lookup(tree, path) if unknown else None  # of an unknown section, its first key
            key = next(iter(flatten(inside, f"{path}.")), path) if isinstance(inside, Mapping) else path
            value = lookup(tree, key, entries=[step for step in place if isinstance(step, int)])
            rule = _unknown_rule(key, known) if unknown else field_rule(known[key], value)
            if entry["type"] == "missing":
                rule = _extra(known[key], "missing") or rule
        lines.setdefault(key, sentence(key, value, rule, source, origins))
    return "\n".join(lines.values())


def sentence(key: str, value: Any, rule: str, source: str, origins: Mapping[str, str]) -> str:
    """Return one mistake as a line: where it stands, key, value and rule."""
    for other, where in origins.items():  # of two keys one may contain the other
        if f"{key}.".startswith(f"{other}.") or other.startswith(f"{key}."):
            source = where
            break
    shown = f"{key} is missing" if value is None else f"{key} = {_checks.shown(value)}"
    return _checks.visible(f"{source}: {shown}: {rule}")


def _unknown_rule(key: str, known: Mapping[str, FieldInfo]) -> str:
    """Name the valid key most like ``key``: by its last word first, which is what people remember."""

    def likeness(candidate: str) -> float:
        leaf = difflib.SequenceMatcher(None, key.rpartition(".")[2], candidate.rpartition(".")[2]).ratio()
        return leaf + 0.5 * difflib.SequenceMatcher(None, key, candidate).ratio()

    leaves = [name for name in known if not any(other.startswith(name + ".") for other in known)]
    return f"unknown key, the nearest valid key is {max(leaves, key=likeness)!r}"


def field_rule(field: FieldInfo, value: Any) -> str:
    """State the rule of a field in words, from the same annotation that is enforced."""
    if rule := _extra(field, "rule"):
        return rule
    kind, metadata = _unwrap(field.annotation, field.metadata)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "must be a table of keys"
    if get_origin(kind) is Literal:
        words = get_args(kind)
        return f"must be one of {', '.join(map(repr, words))}" + _checks.suggestion(value, words)
    rules = [rule for item in metadata for rule in getattr(item, "metadata", (item,))]
    limits = [
        words.format(getattr(rule, name))
        for rule in rules
        for name, words in _LIMITS.items()
        if getattr(rule, name, None) is not None
    ]
    return f"must be {_NOUNS.get(kind, 'valid')} {' and '.join(limits)}".rstrip()


def _extra(field: FieldInfo, name: str) -> str:
    """Return a sentence that a field brings along."""
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, dict) else ""


def _unwrap(annotation: Any, metadata: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
    """Strip ``| None`` and ``Annotated`` from an annotation, collecting the metadata."""
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not type(None)]
        return _unwrap(inner[0], metadata)
    if hasattr(annotation, "__metadata__"):
        return _unwrap(annotation.__origin__, [*metadata, *annotation.__metadata__])
    return annotation, list(metadata)
