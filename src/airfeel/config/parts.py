"""The parts that a configuration names, the keys that these add to it, and all keys that there can be.

Each seam (:data:`airfeel.registry.SEAMS`) has a key that names its part and a table with the part's options.
Options of other registered schemes are accepted too, since curves of one figure often share their keys; they
are not read. Those of other parts of any other seam are refused: the part's name was forgotten.
"""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from airfeel import _checks, _foreign
from airfeel.config import identity, mistakes
from airfeel.config.sections import SHARED, TABLES, Keys
from airfeel.registry import DATASETS, REQUIRED, SEAMS, Option, Part


@dataclass(frozen=True)
class Chosen:
    """The parts of one configuration, in the order of the seams."""

    parts: tuple[Part, ...]

    def __getitem__(self, seam: str) -> Part:
        return self.parts[list(SEAMS).index(seam)]

    def items(self) -> Iterator[tuple[str, Part]]:
        """Yield every seam with its part."""
        return zip(SEAMS, self.parts, strict=True)

    def about(self, table: str) -> "Chosen":
        """Return the same with the default in the place of each part that has no options in a table."""
        found = []
        for registry, part in zip(SEAMS.values(), self.parts, strict=True):
            here = table in registry.tables or table in {option.section for option in part.options}
            found.append(part if here else registry.get(registry.default))
        return Chosen(tuple(found))

    @cached_property
    def keys(self) -> dict[str, tuple[str, Option]]:
        """What these parts read: dotted key to seam and option."""
        every = ((seam, SEAMS[seam].keys(part)) for seam, part in self.items())
        return {key: (seam, option) for seam, options in every for key, option in options.items()}

    def listed(self, attribute: str) -> tuple[str, ...]:
        """Return the keys that name files: of the options in a part's ``reads``, or in its ``writes``."""
        names = {seam: getattr(part.kind, attribute, ()) for seam, part in self.items()}
        return tuple(key for key, (seam, option) in self.keys.items() if option.name in names[seam])

    @cached_property
    def others(self) -> "dict[str, Uses]":
        """What only other registered parts read."""
        return {key: uses for key, uses in _all_uses().items() if key not in self.keys}

    @cached_property
    def refused(self) -> frozenset[str]:
        """The keys of :attr:`others` that must not be given: all but those of schemes."""
        return frozenset(key for key, uses in self.others.items() if uses.seam != "scheme")


@dataclass(frozen=True, slots=True)
class Uses:
    """The registered parts of one seam that read a key, each with its option."""

    seam: str
    by: list[tuple[Part, Option]]

    @property
    def option(self) -> Option:
        """The option of the first."""
        return self.by[0][1]

    @property
    def names(self) -> tuple[str, ...]:
        """What the parts are called."""
        return tuple(part.name for part, _ in self.by)


def _all_uses() -> dict[str, Uses]:
    """Return all options of registered parts by dotted key, but for keys of every configuration."""
    found: dict[str, Uses] = {}
    for seam, registry in SEAMS.items():
        for part in registry.parts():
            for key, option in registry.keys(part).items():
                if key not in SHARED and found.setdefault(key, Uses(seam, [])).seam == seam:
                    found[key].by.append((part, option))
    return found


def choose(tree: Mapping[str, Any]) -> tuple[Chosen, dict[str, tuple[Any, str]]]:
    """Return the parts a tree of keys names, and by key the names that are none, each with its rule.

    The default takes the place of a wrong one, so that all other mistakes can be told at once.
    """
    parts, wrong = [], {}
    for registry in SEAMS.values():
        value: Any = mistakes.lookup(tree, registry.key, registry.default)
        try:
            parts.append(registry.get(value))
        except ValueError as error:
            rule = str(error).removeprefix(f"{registry.key} = {_checks.shown(value)}: ")
            wrong[registry.key] = value, rule
            parts.append(registry.get(registry.default))
    return Chosen(tuple(parts)), wrong


def fields(chosen: Chosen, table: str) -> dict[str, Any]:
    """Return the options of the chosen parts in a table, and room for those that only others read."""
    found: dict[str, Any] = {}
    for key, uses in chosen.others.items():
        if key.startswith(f"{table}."):
            option = uses.option
            found[option.name] = (option.annotation | None, Field(default=None, description=option.help))
    for key, (seam, option) in chosen.keys.items():
        if not key.startswith(f"{table}."):
            continue
        field = Field(default=option.default, description=option.help)
        if option.default is REQUIRED:
            missing = f"must be given with {chosen[seam].key} = {chosen[seam].name!r}"
            field = Field(description=option.help, json_schema_extra={"missing": missing})
        else:
            try:
                to_jsonable_python(option.default)
            except ValueError as error:
                rule = f"the default of an option must be what a configuration can hold ({error})"
                raise _checks.reject(key, option.default, rule) from None
        found[option.name] = (option.annotation, field)
    return found


def complete(tree: dict[str, Any], chosen: Chosen) -> None:
    """Add to a tree what follows from other keys: the model's preset, and what parts complete themselves."""
    _preset(tree, chosen)
    for seam, part in chosen.items():
        keys = {option.name: key for key, option in SEAMS[seam].keys(part).items()}
        given = {
            option.name: mistakes.lookup(tree, keys.get(option.name, ""), option.default)
            for option in part.options
        }
        try:
            more = part.complete(given)
        except (TypeError, ValueError, KeyError, OverflowError):  # a wrong value is told by its own rule
            continue
        except Exception as error:
            rule = f"has a method complete that fails ({_foreign.told(error)})"
            raise mistakes.Contradiction(part.key, part.name, rule) from error
        if not isinstance(more, Mapping) or not more.keys() <= keys.keys():
            rule = "has a method complete, which must return values by the names of options"
            raise mistakes.Contradiction(part.key, part.name, rule)
        for name, value in more.items():
            _put(tree, keys[name], value)


def _preset(tree: dict[str, Any], chosen: Chosen) -> None:
    """Add to a tree the values with which its model trains well, where other ones are not given."""
    model = chosen["model"]
    if not mistakes.lookup(tree, "model.preset", model.defaults().get("preset", True)):
        return
    if not isinstance(model.tuned, Mapping):
        rule = f"has an attribute tuned, which must be values by dotted key, not {_checks.shown(model.tuned)}"
        raise mistakes.Contradiction(model.key, model.name, rule)
    instead = {one: other for pair in _pairs(chosen) for one, other in (pair, pair[::-1])}
    for key, value in model.tuned.items():
        if key not in chosen.refused and mistakes.lookup(tree, instead.get(key, ""), None) is None:
            _put(tree, key, value)


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key that is not given."""
    table, _, leaf = key.rpartition(".")
    section = tree.setdefault(table, {}) if table else tree
    if isinstance(section, dict):
        section.setdefault(leaf, value)


def contradictions(chosen: Chosen, flat: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield keys that only another part reads, and both of two where one is given: key, value and rule."""
    for key, uses in chosen.others.items():
        if uses.seam != "scheme" and flat.get(key) is not None:
            part, wanted = chosen[uses.seam], " or ".join(map(repr, uses.names))
            yield key, flat[key], f"is only read with {part.key} = {wanted}, but that is {part.name!r}"
    for one, other in _pairs(chosen):
        if flat.get(other) is not None and flat.get(one) != chosen.keys[one][1].default:
            yield one, flat.get(one), f"must not be given with {other}"


def _pairs(chosen: Chosen) -> Iterator[tuple[str, str]]:
    """Yield the keys of which one is given, the other not: the options that a part names in ``either``."""
    for seam, part in chosen.items():
        keys = {option.name: key for key, option in SEAMS[seam].keys(part).items()}
        one, other = getattr(part.kind, "either", ("", ""))
        if one in keys and other in keys:
            yield keys[one], keys[other]


@dataclass(frozen=True, slots=True)
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
    named = {registry.key: registry for registry in (DATASETS, *SEAMS.values())}
    found = []
    for name, field in mistakes.fields(Keys).items():
        rule, choices = _rule(field), tuple(_words(field.annotation))
        if name in named:
            rule, choices = "a name", tuple(named[name].names())
        if name not in TABLES:
            found.append(Key(name, _shown(field.default), rule, field.description or "", choices))
    found += [_optional(name, uses) for name, uses in _all_uses().items()]
    return sorted(found, key=lambda key: ["", *TABLES].index(key.table))


def _optional(name: str, uses: Uses) -> Key:
    """Return a key that only some parts read, with the default of each where these differ."""
    defaults: dict[str, list[str]] = {}
    for part, option in uses.by:
        filled_in = {**part.defaults(), **part.complete(part.defaults())}
        defaults.setdefault(_shown(filled_in.get(option.name)), []).append(part.name)
    common, *others = sorted(defaults, key=lambda text: -len(defaults[text]))
    shown = "; ".join([common, *(f"{text} ({', '.join(defaults[text])})" for text in others)])
    option, words = uses.option, tuple(_words(uses.option.annotation))
    rule = _rule(FieldInfo.from_annotation(option.annotation))
    return Key(name, shown, rule, option.help, words, uses.names, SEAMS[uses.seam].key)


def _shown(default: Any) -> str:
    return "" if default is None else identity.value(default)


def _rule(field: FieldInfo) -> str:
    return mistakes.field_rule(field, None).removeprefix("must be ")


def _words(annotation: Any) -> list[str]:
    """Return the words of a type that has few."""
    if annotation is bool:
        return ["true", "false"]
    if get_origin(annotation) is Literal:
        return list(map(str, get_args(annotation)))
    if hasattr(annotation, "__metadata__"):
        return _words(annotation.__origin__)
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else ()
    return list(dict.fromkeys(word for member in members for word in _words(member)))
