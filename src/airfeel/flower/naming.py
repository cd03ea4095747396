"""A scheme by its name and options, as the server announces it and as a client builds its own half of it."""

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from airfeel import _checks, _files
from airfeel.registry import SCHEMES, Part
from airfeel.registry.options import has_fields
from airfeel.uplink.scheme import Scheme


def scheme_of(scheme: str | Scheme[Any], options: Mapping[str, Any] | None) -> Scheme[Any]:
    """Return a scheme given by name and options, or as an object."""
    if isinstance(scheme, str):
        scheme = build(scheme, options or {})
        options = None
    if options:
        raise _checks.reject("options", dict(options), "must not be given beside a scheme that is an object")
    given: Scheme[Any] = SCHEMES.given(scheme)
    if given.leads:
        rule = "needs a message of one client before the others send, and a round here has none"
        raise _checks.reject("scheme", type(given).__name__, rule)
    return given


def build(name: str, options: Mapping[str, Any]) -> Scheme[Any]:
    """Return the scheme that a server asks for by name: built-in, by entry point, or package.module:Name."""
    part = SCHEMES.get(name)
    known = {option.name: option for option in part.options}
    for key, value in options.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            rule = f"{name} has the options {', '.join(known) or 'none'}{hint}"
            raise _checks.reject(f"options[{key!r}]", value, rule)
        _require(key, value, known[key].annotation)
    scheme: Scheme[Any] = part.build({**part.complete({**part.defaults(), **options}), **options})
    return scheme


def describe(scheme: Scheme[Any]) -> tuple[str, str]:
    """Return the name of a scheme, and its options in JSON: what a client needs to build it."""
    part = Part(SCHEMES.name_of(type(scheme)), type(scheme))
    if part.options and not has_fields(type(scheme)):
        raise _checks.reject("scheme", scheme, "must be a dataclass, whose fields a message can name")
    options = {option.field: getattr(scheme, option.field) for option in part.options}
    for key, value in options.items():
        if not isinstance(value, str | bool | int | float | None):
            rule = "must be a number, a text, true, false or None, to be told to the clients"
            raise _checks.reject(f"{type(scheme).__qualname__}.{key}", value, rule)
    return part.name, json.dumps(options, sort_keys=True)


def find(name: str, options: str, own: Sequence[type]) -> Scheme[Any]:
    """Return the scheme that a message names, from those which this process has registered itself.

    Nothing is imported because a message names it: the scheme is built in, or the client's own code has
    registered it or handed its class to the mod.
    """
    given = {SCHEMES.name_of(kind): kind for kind in own}
    target = given[name] if name in given else SCHEMES.registered(name).target
    scheme: Scheme[Any] = SCHEMES.given(target(**_files.parse_json(options)))
    return scheme


def _require(key: str, value: Any, annotation: Any) -> None:
    try:
        TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
    except ValidationError as error:
        fault = error.errors()[0]["msg"]
        raise _checks.reject(f"options[{key!r}]", value, fault[:1].lower() + fault[1:]) from None
