"""The parts that a configuration names, and the keys that these parts add to it.

Each seam (:data:`airfeel.registry.SEAMS`) has a key that names its part and a table with the part's options.
Options of other registered schemes are accepted too, since curves of one figure often share their keys; they
are not read. Those of other parts of any other seam are refused: the part's name was forgotten.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from airfeel import _checks, _foreign
from airfeel.config import mistakes
from airfeel.config.sections import SHARED
from airfeel.registry import REQUIRED, SEAMS, Option, Part


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
        return Chosen(
            tuple(
                part
                if table in registry.tables or table in {option.section for option in part.options}
                else registry.get(registry.default)
                for registry, part in zip(SEAMS.values(), self.parts, strict=True)
            )
        )

    @cached_property
    def keys(self) -> dict[str, tuple[str, Option]]:
        """What these parts read: dotted key to seam and option."""
        every = ((seam, SEAMS[seam].keys(part)) for seam, part in self.items())
        return {key: (seam, option) for seam, options in every for key, option in options.items()}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The dotted keys that name files: the options in a part's ``reads``."""
        reads = {seam: getattr(part.kind, "reads", ()) for seam, part in self.items()}
        return tuple(key for key, (seam, option) in self.keys.items() if option.name in reads[seam])

    @cached_property
    def others(self) -> dict[str, tuple[str, Option]]:
        """What only other registered parts read: dotted key to seam and option."""
        found: dict[str, tuple[str, Option]] = {}
        for seam, registry in SEAMS.items():
            for part in registry.parts():
                for key, option in registry.keys(part).items():
                    if key not in self.keys and key not in SHARED:
                        found.setdefault(key, (seam, option))
        return found

    @cached_property
    def refused(self) -> frozenset[str]:
        """The keys of :attr:`others` that must not be given: all but those of schemes."""
        return frozenset(key for key, (seam, _) in self.others.items() if seam != "scheme")

    def readers(self, key: str) -> list[str]:
        """Return the names of the registered parts that read one of :attr:`others`."""
        registry = SEAMS[self.others[key][0]]
        return [part.name for part in registry.parts() if key in registry.keys(part)]


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
            wrong[registry.key] = (
                value,
                str(error).removeprefix(f"{registry.key} = {_checks.shown(value)}: "),
            )
            parts.append(registry.get(registry.default))
    return Chosen(tuple(parts)), wrong


def fields(chosen: Chosen, table: str) -> dict[str, Any]:
    """Return the options of the chosen parts in a table, and room for those that only others read."""
    found: dict[str, Any] = {}
    for key, (_, option) in chosen.others.items():
        if key.startswith(f"{table}."):
            found[option.name] = (option.annotation | None, Field(default=None, description=option.help))
    for key, (seam, option) in chosen.keys.items():
        if key.startswith(f"{table}."):
            found[option.name] = (option.annotation, _field(key, option, seam, chosen[seam]))
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


def contradictions(chosen: Chosen, flat: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield keys that only another part reads, and both of two where one is given: key, value and rule."""
    for key in chosen.others:
        if key in chosen.refused and flat.get(key) is not None:
            part = chosen[chosen.others[key][0]]
            wanted = " or ".join(repr(reader) for reader in chosen.readers(key))
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


def _field(key: str, option: Option, seam: str, part: Part) -> FieldInfo:
    if option.default is REQUIRED:
        missing = f"must be given with {part.key} = {part.name!r}"
        found: FieldInfo = Field(description=option.help, json_schema_extra={"missing": missing})
        return found
    try:
        to_jsonable_python(option.default)
    except ValueError as error:
        rule = f"the default of an option must be what a configuration can hold ({error})"
        raise _checks.reject(key, option.default, rule) from None
    found = Field(default=option.default, description=option.help)
    return found


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key that is not given."""
    table, _, leaf = key.rpartition(".")
    section = tree.setdefault(table, {}) if table else tree
    if isinstance(section, dict):
        section.setdefault(leaf, value)
