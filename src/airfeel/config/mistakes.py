"""Mistakes in a configuration, one sentence each: where, key, value, rule and the nearest valid key."""

import difflib
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from airfeel import _checks
from airfeel.ranges import MOST

_NOUNS = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}


class Contradiction(ValueError):
    """Values that are right one by one but not together."""

    def __init__(self, key: str, value: Any, rule: str) -> None:
        """Keep the parts, so that the sentence can name the file as well."""
        super().__init__(f"{key} = {_checks.shown(value)}: {rule}")
        self.key, self.value, self.rule = key, value, rule


def counts(value: Any) -> Any:
    """Accept a whole number >= 1 or a list of them; anything else is refused by the rule of its field."""
    entries = list(value) if isinstance(value, list | tuple) else [value]
    if not entries or not all(isinstance(entry, int) and 1 <= entry <= MOST for entry in entries):
        raise ValueError("not a count")
    return tuple(entries) if isinstance(value, list | tuple) else value


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


def fields(model: type[BaseModel], prefix: str = "") -> dict[str, FieldInfo]:
    """Return every key of a configuration by its dotted name, sections included."""
    found: dict[str, FieldInfo] = {}
    for key, field in model.model_fields.items():
        found[prefix + key] = field
        if is_section(field):
            found |= fields(field.annotation, f"{prefix}{key}.")  # type: ignore[arg-type]
        elif entries := _entries(field):
            found |= fields(entries, f"{prefix}{key}.")
    return found


def is_section(field: FieldInfo) -> bool:
    """Whether a field is a table of keys."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _entries(field: FieldInfo) -> type[BaseModel] | None:
    """Return what the entries of a list of tables are; None where a field is no such list."""
    kind, _ = _unwrap(field.annotation, [])
    of = get_args(kind)[0] if get_origin(kind) is tuple and get_args(kind) else None
    return of if isinstance(of, type) and issubclass(of, BaseModel) else None


def sentences(
    error: ValidationError,
    model: type[BaseModel],
    tree: Mapping[str, Any],
    source: str,
    origins: Mapping[str, str],
) -> str:
    """Return one line per mistake.

    Parameters
    ----------
    error
        What pydantic found.
    model
        The configuration class, for the rules and the valid keys.
    tree
        The values as they were given.
    source
        The file, or what stands for it.
    origins
        Where keys come from that are not the file's, such as ``--set``.
    """
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
            key = _first_leaf(path, tree) if unknown else _owner(path, known)
            value = lookup(tree, key, entries=[step for step in place if isinstance(step, int)])
            rule = unknown_rule(key, known) if unknown else field_rule(known[key], value)
            if entry["type"] == "missing":
                rule = _extra(known[key], "missing") or rule
        lines.setdefault(key, sentence(key, value, rule, source, origins))
    return "\n".join(lines.values())


def sentence(key: str, value: Any, rule: str, source: str, origins: Mapping[str, str]) -> str:
    """Return one mistake as a line: where it stands, key, value and rule."""
    origin = next((origin for other, origin in origins.items() if _related(key, other)), source)
    shown = f"{key} is missing" if value is None else f"{key} = {_checks.shown(value)}"
    return _checks.visible(f"{origin}: {shown}: {rule}")


def unknown_rule(key: str, known: Mapping[str, FieldInfo]) -> str:
    """Say that a key does not exist and which existing one is nearest."""
    return f"unknown key, the nearest valid key is {nearest(key, known)!r}"


def nearest(key: str, known: Mapping[str, FieldInfo]) -> str:
    """Return the valid key most like ``key``: by its last word first, which is what people remember."""

    def likeness(candidate: str) -> float:
        leaf = difflib.SequenceMatcher(None, key.rpartition(".")[2], candidate.rpartition(".")[2]).ratio()
        return leaf + 0.5 * difflib.SequenceMatcher(None, key, candidate).ratio()

    leaves = [name for name in known if not any(other.startswith(name + ".") for other in known)]
    return max(leaves, key=likeness)


def field_rule(field: FieldInfo, value: Any) -> str:
    """State the rule of a field in words, from the same annotation that is enforced."""
    if rule := _extra(field, "rule"):
        return rule
    kind, metadata = _unwrap(field.annotation, list(field.metadata))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "must be a table of keys"
    if get_origin(kind) is Literal:
        return _choice_rule(get_args(kind), value)
    rules = [_NOUNS.get(kind, "valid"), *_bounds(metadata)]
    return "must be " + " ".join([rules[0], " and ".join(rules[1:])]).strip()


def _extra(field: FieldInfo, name: str) -> str:
    """Return a sentence that a field brings along."""
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, dict) else ""


def _choice_rule(choices: tuple[str, ...], value: Any) -> str:
    """List the allowed words and suggest the nearest."""
    close = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    listed = ", ".join(repr(choice) for choice in choices)
    return f"must be one of {listed}" + (f"; did you mean {close[0]!r}?" if close else "")


def _bounds(metadata: list[Any]) -> list[str]:
    """Return the limits of a number or text in words."""
    words: list[str] = []
    for item in metadata:
        match item:
            case annotated_types.Gt(gt=bound):
                words.append(f"> {bound}")
            case annotated_types.Ge(ge=bound):
                words.append(f">= {bound}")
            case annotated_types.Lt(lt=bound):
                words.append(f"< {bound}")
            case annotated_types.Le(le=bound):
                words.append(f"<= {bound}")
            case annotated_types.MinLen(min_length=length):
                words.append(f"of at least {length} character")
            case annotated_types.MaxLen(max_length=length):
                words.append(f"of at most {length} characters")
            case FieldInfo():
                words += _bounds(item.metadata)
            case _ if getattr(item, "pattern", None):
                words.append("of letters, digits, '.', '_' and '-'")
    return words


def _unwrap(annotation: Any, metadata: list[Any]) -> tuple[Any, list[Any]]:
    """Strip ``| None`` and ``Annotated`` from an annotation, collecting the metadata."""
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not type(None)]
        return _unwrap(inner[0], metadata)
    if hasattr(annotation, "__metadata__"):
        return _unwrap(annotation.__origin__, metadata + list(annotation.__metadata__))
    return annotation, metadata


def _owner(path: str, known: Mapping[str, FieldInfo]) -> str:
    """Return the longest known key that ``path`` starts with (pydantic appends branches and indices)."""
    while path not in known:
        path = path.rpartition(".")[0]
    return path


def _first_leaf(path: str, tree: Mapping[str, Any]) -> str:
    """Return the first key inside an unknown section, or ``path`` itself where it is no section."""
    value = lookup(tree, path)
    return next(iter(flatten(value, f"{path}.")), path) if isinstance(value, Mapping) else path


def _related(key: str, other: str) -> bool:
    """Whether one of two dotted keys is, or contains, the other."""
    return key == other or key.startswith(other + ".") or other.startswith(key + ".")


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
