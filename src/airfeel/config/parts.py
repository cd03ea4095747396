"""The parts that a configuration names, and the keys that these parts add to it.

A scheme's options stand in ``[uplink]`` and ``[receiver]``, a channel's in ``[channel]``, a model's in
``[model]``. Options of other registered schemes are accepted too, since curves of one figure often share
their keys; they are not read. Those of another channel or model are refused: the kind was forgotten.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, create_model
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from airfeel import _checks, _foreign
from airfeel.config import mistakes
from airfeel.config.sections import ChannelKeys, ModelKeys, ReceiverKeys, Section, UplinkKeys
from airfeel.registry import CHANNELS, MODELS, REQUIRED, SCHEMES, Option, Part, Registry


class Seam(NamedTuple):
    """Where a configuration names a part, and the tables with its options, the first by default."""

    key: str
    default: str
    registry: Registry
    tables: tuple[str, ...]


SEAMS = {
    "scheme": Seam("scheme", "tsa_ga", SCHEMES, ("uplink", "receiver")),
    "channel": Seam("channel.kind", "gaussian", CHANNELS, ("channel",)),
    "model": Seam("model.kind", "softmax", MODELS, ("model",)),
}


# The sections that parts add their options to, and the keys that all their parts share.
SECTIONS: dict[str, type[Section]] = {
    "model": ModelKeys,
    "uplink": UplinkKeys,
    "channel": ChannelKeys,
    "receiver": ReceiverKeys,
}
SHARED = frozenset(f"{table}.{name}" for table, base in SECTIONS.items() for name in base.model_fields)


# Of these keys a user gives one; a preset then does not give the other.
_EITHER = {"local_steps": ("local_epochs",), "local_epochs": ("local_steps",)}


@dataclass(frozen=True)
class Chosen:
    """The parts of one configuration."""

    scheme: Part
    channel: Part
    model: Part

    @cached_property
    def keys(self) -> dict[str, tuple[str, Option]]:
        """What these parts read: dotted key to seam and option."""
        found = {}
        for name, seam in SEAMS.items():
            for option in getattr(self, name).options:
                found[key_of(seam, option)] = (name, option)
        return found

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The dotted keys that name files: the options in a part's ``reads``."""
        reads = {name: getattr(getattr(self, name).kind, "reads", ()) for name in SEAMS}
        return tuple(key for key, (name, option) in self.keys.items() if option.name in reads[name])

    @cached_property
    def others(self) -> dict[str, tuple[str, Part, Option]]:
        """What only other registered parts read: dotted key to seam, part and option."""
        found: dict[str, tuple[str, Part, Option]] = {}
        read = self.keys
        for name, seam in SEAMS.items():
            for part in seam.registry.parts():
                for option in part.options:
                    key = key_of(seam, option)
                    if key not in read and key not in found and key not in SHARED:
                        found[key] = (name, part, option)
        return found

    def readers(self, key: str) -> list[str]:
        """Return the names of the registered parts that read a key."""
        name = self.others[key][0]
        seam = SEAMS[name]
        return [p.name for p in seam.registry.parts() for o in p.options if key_of(seam, o) == key]


def key_of(seam: Seam, option: Option) -> str:
    """Return the dotted key of an option."""
    return f"{option.section or seam.tables[0]}.{option.name}"


def source_digests(chosen: Chosen) -> dict[str, str]:
    """Return a digest of the source file of every part that is not our own, as ``source.scheme``."""
    parts = {name: getattr(chosen, name) for name in SEAMS}
    return {
        f"source.{name}": part.source_digest()
        for name, part in parts.items()
        if not str(getattr(part.target, "__module__", "")).startswith("airfeel.")
    }


def choose(tree: Mapping[str, Any]) -> tuple[Chosen, dict[str, tuple[Any, str]]]:
    """Return the parts a tree of keys names, and by key the names that are none, each with its rule.

    The default takes the place of a wrong one, so that all other mistakes can be told at once.
    """
    parts, wrong = {}, {}
    for name, seam in SEAMS.items():
        value: Any = _lookup(tree, seam.key, seam.default)
        try:
            parts[name] = seam.registry.get(value)
        except ValueError as error:
            wrong[seam.key] = (value, str(error).removeprefix(f"{seam.key} = {_checks.shown(value)}: "))
            parts[name] = seam.registry.get(seam.default)
    return Chosen(**parts), wrong


@lru_cache(maxsize=64)
def section_class(table: str, chosen: Chosen) -> type[Section]:
    """Return a section with the options of the chosen parts, and room for those that only others read."""
    base = SECTIONS[table]
    fields: dict[str, Any] = {}
    for key, (_, option) in chosen.keys.items():
        if key.startswith(f"{table}."):
            fields[option.name] = (option.annotation, _field(key, option))
    for key, (_, _, option) in chosen.others.items():
        if key.startswith(f"{table}."):
            fields[option.name] = (option.annotation | None, Field(default=None, description=option.help))

    class _Base(base):  # type: ignore[valid-type,misc]
        model_config = ConfigDict(arbitrary_types_allowed=True)  # an own part may have options of any type

    own = ", ".join(part.name for part in (chosen.scheme, chosen.channel, chosen.model) if ":" in part.name)
    refusal = ValueError(f"[{table}]: an option of {own or 'a part'} cannot be a key of a configuration")
    with _foreign.explained(refusal):
        return create_model(base.__name__, __base__=_Base, __doc__=base.__doc__, **fields)


def part_options(values: Mapping[str, Mapping[str, Any]], chosen: Chosen, seam: str) -> dict[str, Any]:
    """Return the options of one part from the values of all sections."""
    return {
        option.name: values[key.partition(".")[0]][option.name]
        for key, (owner, option) in chosen.keys.items()
        if owner == seam
    }


def completed(tree: dict[str, Any], chosen: Chosen) -> None:
    """Add to a tree the defaults that follow from other options of a part."""
    for name, seam in SEAMS.items():
        part: Part = getattr(chosen, name)
        places = {option.name: key_of(seam, option) for option in part.options}
        given = {option.name: _lookup(tree, places[option.name], option.default) for option in part.options}
        try:
            more = part.complete(given)
        except (TypeError, ValueError, KeyError, OverflowError):  # a wrong value is told by its own rule
            continue
        except Exception as error:
            rule = f"has a method complete that fails ({_foreign.told(error)})"
            raise mistakes.Contradiction(seam.key, part.name, rule) from error
        if not isinstance(more, Mapping) or not more.keys() <= places.keys():
            rule = "has a method complete, which must return values by the names of options"
            raise mistakes.Contradiction(seam.key, part.name, rule)
        for option_name, value in more.items():
            table, _, leaf = places[option_name].partition(".")
            section = tree.setdefault(table, {})
            if isinstance(section, dict):
                section.setdefault(leaf, value)


def preset(tree: dict[str, Any], model: Part) -> None:
    """Add to a tree the values with which its model trains well, where other ones are not given."""
    if not _lookup(tree, "model.preset", model.defaults().get("preset", True)):
        return
    if not isinstance(model.tuned, Mapping):
        rule = f"has an attribute tuned, which must be values by dotted key, not {_checks.shown(model.tuned)}"
        raise mistakes.Contradiction(SEAMS["model"].key, model.name, rule)
    for key, value in model.tuned.items():
        table, _, leaf = key.partition(".")
        section = tree.setdefault(table, {}) if leaf else tree
        if isinstance(section, dict) and not any(name in section for name in _EITHER.get(leaf, ())):
            section.setdefault(leaf or key, value)


def unread(chosen: Chosen, flat: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield the given keys that only another channel or model reads: key, value and rule."""
    for key, (name, _, _) in chosen.others.items():
        seam = SEAMS[name]
        if name != "scheme" and flat.get(key) is not None:
            wanted = " or ".join(repr(reader) for reader in chosen.readers(key))
            rule = f"is only read with {seam.key} = {wanted}, but that is {getattr(chosen, name).name!r}"
            yield key, flat[key], rule


def _field(key: str, option: Option) -> FieldInfo:
    found: FieldInfo = Field(description=option.help)
    if option.default is not REQUIRED:
        try:
            to_jsonable_python(option.default)
        except ValueError as error:
            rule = f"the default of an option must be what a configuration can hold ({error})"
            raise _checks.reject(key, option.default, rule) from None
        found = Field(default=option.default, description=option.help)
    return found


def _lookup(tree: Mapping[str, Any], key: str, default: Any) -> Any:
    for step in key.split("."):
        if not isinstance(tree, Mapping) or step not in tree:
            return default
        tree = tree[step]
    return tree
