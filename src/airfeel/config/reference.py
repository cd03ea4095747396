"""Every key a configuration can have, by name: for the documentation, for completion and for suggestions."""

import dataclasses
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from airfeel.config import mistakes, toml
from airfeel.config.parts import choose
from airfeel.config.schema import Config, config_class
from airfeel.config.sections import SHARED
from airfeel.registry import DATASETS, REQUIRED, SEAMS, Option, Part


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key: its dotted name, its default as TOML (empty: unset), the rule of its values and its meaning.

    ``choices`` are the words it can be, where these are few; ``readers`` the parts that read it, none meaning
    that it belongs to every configuration, and ``part`` the key that names one of these.
    """

    name: str
    default: str
    rule: str
    help: str
    choices: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    part: str = ""

    @property
    def table(self) -> str:
        """The section it stands in; empty at the top."""
        return self.name.rpartition(".")[0]


def keys() -> list[Key]:
    """Return every key in the order of ``airfeel config``, those of parts behind the others of a section.

    >>> [key.name for key in keys()][:4]
    ['scheme', 'dataset', 'rounds', 'seed']
    """
    fields = mistakes.fields(Config)
    tables = [name for name, field in fields.items() if mistakes.is_section(field)]
    found = [_shared(name, field) for name, field in fields.items() if name not in tables]
    found += [_optional(name, uses) for name, uses in _uses().items()]
    return sorted(found, key=lambda key: tables.index(key.table) if key.table else -1)


def _shared(name: str, field: FieldInfo) -> Key:
    """Return a key of every configuration."""
    registries = {registry.key: registry for registry in (DATASETS, *SEAMS.values())}
    if name in registries:
        rule, choices = "a name", tuple(registries[name].names())
    else:
        rule, choices = _rule(field), _choices(field.annotation)
    return Key(name, _shown(field.default), rule, field.description or "", choices)


def _uses() -> dict[str, list[tuple[Part, Option]]]:
    """Return the options of all registered parts by dotted key."""
    found: dict[str, list[tuple[Part, Option]]] = {}
    for registry in SEAMS.values():
        for part in registry.parts():
            for key, option in registry.keys(part).items():
                if key not in SHARED:
                    found.setdefault(key, []).append((part, option))
    return found


def _optional(name: str, uses: list[tuple[Part, Option]]) -> Key:
    """Return a key that only some parts read, with the default of each where these differ."""
    first, option = uses[0]
    tree = mistakes.nest({first.key: first.name})
    rule = _rule(mistakes.fields(config_class(choose(tree)[0]))[name])
    defaults: dict[str, list[str]] = {}
    for part, other in uses:
        defaults.setdefault(_shown(_filled_in(part, other)), []).append(part.name)
    common, *others = sorted(defaults, key=lambda text: -len(defaults[text]))
    shown = [common] + [f"{text} ({', '.join(defaults[text])})" for text in others]
    readers = tuple(part.name for part, _ in uses)
    return Key(name, "; ".join(shown), rule, option.help, _choices(option.annotation), readers, first.key)


def _filled_in(part: Part, option: Option) -> Any:
    """Return what a configuration has where nothing is given."""
    return {**part.defaults(), **part.complete(part.defaults())}.get(option.name, REQUIRED)


def _shown(default: Any) -> str:
    return "" if default is None or default is REQUIRED else toml.value(default)


def _rule(field: FieldInfo) -> str:
    return mistakes.field_rule(field, None).removeprefix("must be ")


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the words of a type that has few."""
    return tuple(dict.fromkeys(_words(annotation)))


def _words(annotation: Any) -> Iterator[str]:
    if annotation is bool:
        yield from ("true", "false")
    elif get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    elif get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _words(member)
    elif hasattr(annotation, "__metadata__"):
        yield from _words(annotation.__origin__)
