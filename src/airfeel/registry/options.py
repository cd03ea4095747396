"""What a part reads: the fields of its dataclass, or the arguments of its function that have a default."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, get_origin

from airfeel import _foreign

REQUIRED: Any = dataclasses.MISSING  # the default of an option that has none


def option(default: Any = REQUIRED, help: str = "", *, section: str = "", key: str = "") -> Any:
    """Return a dataclass field with a line of help, and the table of the configuration it is read from.

    ``key`` is its name there, where the field itself cannot be called so.
    """
    return dataclasses.field(default=default, metadata={"help": help, "section": section, "key": key})


def fixed(value: Any) -> Any:
    """Return a dataclass field that is no option: what the name of a part stands for."""
    return dataclasses.field(default=value, init=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """A key that a part reads: its type, its default and help; ``field`` is its name in Python."""

    name: str
    annotation: Any
    default: Any
    help: str = ""
    section: str = ""
    field: str = ""


def summary_of(target: Any) -> str:
    """Return the first sentence of a docstring, as a list shows it."""
    target = _foreign.unwrapped(target)
    if isinstance(target, type) and "__doc__" not in vars(target):
        return ""
    text = inspect.getdoc(target) or ""
    first = text.split("\n\n")[0].replace("\n", " ").strip()
    return "" if first.startswith(f"{getattr(target, '__name__', '')}(") else first.removesuffix(".")


def options_of(target: Any) -> Iterator[Option]:
    """Yield the options of a class or function, in its own order; of a partial those that are not bound."""
    if isinstance(target, partial):
        free = _parameters(target).keys() - target.keywords.keys()
        yield from (option for option in options_of(target.func) if option.name in free)
        return
    target = _foreign.unwrapped(target)
    hints = _foreign.hints(_annotated(target))
    if has_fields(target):
        # Keyword-only ones come last, as in a call.
        for field in sorted(dataclasses.fields(target), key=lambda field: field.kw_only is True):
            if field.init:
                default = field.default
                if field.default_factory is not dataclasses.MISSING:
                    default = field.default_factory()
                facts = field.metadata
                text = facts.get("help", "") or _help(hints[field.name])
                key, section = facts.get("key") or field.name, facts.get("section", "")
                yield Option(key, hints[field.name], default, text, section, field.name)
        return
    for name, parameter in _parameters(target).items():
        optional = (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is not parameter.empty
        )
        if optional or parameter.kind is parameter.KEYWORD_ONLY:
            default = REQUIRED if parameter.default is parameter.empty else parameter.default
            yield Option(name, hints.get(name, Any), default, _help(hints.get(name)), field=name)


def has_fields(target: Any) -> bool:
    """Whether options are the fields of a dataclass, and not the arguments of an ``__init__`` by hand."""
    makers = (base for base in getattr(target, "__mro__", ()) if "__init__" in vars(base))
    return "__dataclass_fields__" in vars(next(makers, object))


def _parameters(target: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(target).parameters
    except ValueError:  # of a builtin such as dict
        return {}


def _annotated(target: Any) -> Any:
    """Return where the type hints of the options stand."""
    if isinstance(target, type):
        return target if has_fields(target) else target.__init__  # type: ignore[misc]
    return target if inspect.isroutine(target) else type(target).__call__


def _help(annotation: Any) -> str:
    """Return the description that ``Annotated[..., Field(description=...)]`` carries."""
    if get_origin(annotation) is not Annotated:
        return ""
    found = (getattr(item, "description", None) for item in annotation.__metadata__)
    return next((text for text in found if text), "")
