"""Parts by name: one registry for each seam, open to other packages and to ``package.module:Name``.

A part is a class (best a frozen dataclass, whose fields are its options) or a function (whose arguments with
a default are). Built-in parts register themselves where they are defined; another package names its own in an
entry point of the registry's group; and any importable object can be named as ``package.module:Name``.

>>> registry = Registry("scheme", "airfeel.schemes", ("airfeel.schemes",))
>>> registry.get("collections:Counter").name
'collections:Counter'
"""

import dataclasses
import difflib
import hashlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

from airfeel import _checks, _files

Target = TypeVar("Target", bound=Callable[..., Any])

REQUIRED: Any = dataclasses.MISSING  # the default of an option that has none
_SOURCE = 2**26  # bytes of a module's source at most


def option(default: Any = REQUIRED, help: str = "", *, section: str = "") -> Any:
    """Return a dataclass field with a line of help, and the table of the configuration it is read from."""
    return dataclasses.field(default=default, metadata={"help": help, "section": section})


def fixed(value: Any) -> Any:
    """Return a dataclass field that is no option: what the name of a part stands for."""
    return dataclasses.field(default=value, init=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """A key that a part reads: its type, its default and one line of help."""

    name: str
    annotation: Any
    default: Any
    help: str = ""
    section: str = ""


@dataclasses.dataclass(frozen=True)
class Part:
    """What a name stands for; ``name`` is how configurations call it."""

    name: str
    target: Any
    summary: str = ""

    @property
    def revision(self) -> int:
        """Raised by the part whenever unchanged options give other results; enters a run's hash from 2 on."""
        return int(getattr(self.target, "revision", 1))

    @property
    def tuned(self) -> Mapping[str, Any]:
        """The part's preset: values by dotted key, for a configuration that does not give others."""
        return getattr(self.target, "tuned", {})

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """What the part reads, in its own order."""
        return tuple(_options(self.target))

    def defaults(self) -> dict[str, Any]:
        """Return the options that have a default."""
        return {option.name: option.default for option in self.options if option.default is not REQUIRED}

    def build(self, options: Mapping[str, Any]) -> Any:
        """Return the part with these options: an instance of its class, or its function with them bound.

        The class of a ``torch.nn.Module`` is taken for a function: modules are built again and again.
        """
        instance = isinstance(self.target, type) and not _is_module_class(self.target)
        return self.target(**options) if instance else partial(self.target, **options)

    def complete(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults that follow from other options, where the part has a method ``complete``."""
        method = getattr(self.target, "complete", None)
        return {} if method is None else method(given)

    def source_digest(self) -> str:
        """Return a hash of the source file that defines the part, empty where there is none."""
        try:
            path = inspect.getsourcefile(self.target)
            content = b"" if path is None else _files.read_bytes(path, _SOURCE)
        except (TypeError, OSError):
            content = b""
        return hashlib.sha256(content).hexdigest() if content else ""


class Registry:
    """All parts of one seam.

    Parameters
    ----------
    seam
        What a part is called in sentences, which is also the configuration key that names one.
    group
        Of the entry points by which other packages add theirs.
    homes
        Packages or modules whose import registers the built-in parts.
    needs
        What a part must have.
    """

    def __init__(self, seam: str, group: str, homes: tuple[str, ...], needs: tuple[str, ...] = ()) -> None:
        self.seam, self.group, self._homes, self.needs = seam, group, homes, needs
        self._parts: dict[str, Part] = {}
        self._places: dict[str, tuple[int, str]] = {}
        self._discovered = False

    def register(self, name: str, summary: str = "", *, place: int = 99) -> Callable[[Target], Target]:
        """Return a decorator that adds a built-in part; lists show it at its ``place``, later ones behind.

        Its summary is the first sentence of its docstring, unless given.
        """

        def add(target: Target) -> Target:
            self._parts[name] = Part(name, target, summary or _summary(target))
            self._places[name] = (place, _module_of(target))
            return target

        return add

    def names(self) -> list[str]:
        """Return every registered name, the built-in ones first."""
        self._discover()
        return list(self._parts) + [name for name in self._entry_points if name not in self._parts]

    def parts(self) -> Iterator[Part]:
        """Yield every registered part; one of another package that cannot be imported is left out."""
        for name in self.names():
            try:
                yield self.get(name)
            except ValueError:
                continue

    def get(self, name: Any) -> Part:
        """Return a part by its name, or by ``package.module:Name``.

        Raises
        ------
        ValueError
            With the rule that the name breaks.
        """
        self._discover()
        if isinstance(name, str) and name in self._parts:
            return self._parts[name]
        if isinstance(name, str) and (entry := self._entry_points.get(name)) is not None:
            target = self._checked(name, _imported(self.seam, name, entry.module, entry.attr))
            self._parts[name] = Part(name, target, _summary(target))
            return self._parts[name]
        if isinstance(name, str) and ":" in name:
            module, _, attribute = name.partition(":")
            target = self._checked(name, _imported(self.seam, name, module, attribute))
            return Part(name, target, _summary(target))
        raise _checks.reject(self.seam, name, self._rule(name))

    def is_built_in(self, name: Any) -> bool:
        """Whether a name stands for a part that comes with airfeel: a file of a run can trust no other."""
        self._discover()
        return isinstance(name, str) and name in self._places

    def registered(self, name: str) -> Part:
        """Return a part that this process has registered, without importing what the name says.

        For names that come from elsewhere, such as a message.
        """
        self._discover()
        if name not in self._parts:
            rule = f"is not registered here; known are {', '.join(map(repr, self._parts))}"
            raise _checks.reject(self.seam, name, rule)
        return self._parts[name]

    def name_of(self, target: Any) -> str:
        """Return how a configuration names a class or function: as registered, else by where it is."""
        self._discover()
        for name, part in self._parts.items():
            if part.target is target:
                return name
        return f"{target.__module__}:{target.__qualname__}"

    def _checked(self, name: str, target: Any) -> Any:
        missing = [need for need in self.needs if not hasattr(target, need)]
        if missing:
            rule = f"must have {', '.join(self.needs)}, but has no {', '.join(missing)}"
            raise ValueError(f"{self.seam} = {name!r}: {rule}")
        return target

    def _rule(self, name: Any) -> str:
        names = self.names()
        close = difflib.get_close_matches(name, names, n=1) if isinstance(name, str) else []
        listed = ", ".join(repr(known) for known in names)
        return f"must be one of {listed}, or package.module:Name" + (
            f"; did you mean {close[0]!r}?" if close else ""
        )

    def _discover(self) -> None:
        """Import the built-in parts once, which registers them."""
        if self._discovered:
            return
        self._discovered = True
        for home in self._homes:
            package = import_module(home)
            for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
                import_module(f"{home}.{module.name}")
        self._parts = {name: self._parts[name] for name in sorted(self._parts, key=self._places.__getitem__)}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}


def _imported(seam: str, name: str, module: str, attribute: str) -> Any:
    """Import what a user named; modules in the working folder count, as with ``python -m``."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = import_module(module)
    except Exception as error:  # whatever goes wrong in somebody's module, the sentence says where
        raise ValueError(
            f"{seam} = {name!r}: cannot import {module!r} ({type(error).__name__}: {error})"
        ) from error
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise ValueError(f"{seam} = {name!r}: must name something in {module!r}, which has no {step!r}")
        found = getattr(found, step)
    if not callable(found):
        raise ValueError(f"{seam} = {name!r}: must name a class or a function, not {found!r}")
    return found


def _module_of(target: Any) -> str:
    return str(getattr(target, "__module__", ""))


def _summary(target: Any) -> str:
    """Return the first sentence of a docstring, as a list shows it."""
    if isinstance(target, type) and "__doc__" not in vars(target):
        return ""
    text = inspect.getdoc(target) or ""
    first = text.split("\n\n")[0].replace("\n", " ").strip()
    return "" if first.startswith(f"{getattr(target, '__name__', '')}(") else first.removesuffix(".")


def _options(target: Any) -> Iterator[Option]:
    hints = get_type_hints(_annotated(target), include_extras=True)
    if dataclasses.is_dataclass(target):
        # Keyword-only ones come last, as in a call.
        for field in sorted(dataclasses.fields(target), key=lambda field: field.kw_only is True):
            if field.init:
                default = field.default
                if field.default_factory is not dataclasses.MISSING:
                    default = field.default_factory()
                facts = field.metadata
                text = facts.get("help", "") or _help(hints[field.name])
                yield Option(field.name, hints[field.name], default, text, facts.get("section", ""))
        return
    for name, parameter in inspect.signature(target).parameters.items():
        optional = (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is not parameter.empty
        )
        if optional or parameter.kind is parameter.KEYWORD_ONLY:
            default = REQUIRED if parameter.default is parameter.empty else parameter.default
            yield Option(name, hints.get(name, Any), default, _help(hints.get(name)))


def _is_module_class(target: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(target, torch.nn.Module)


def _annotated(target: Any) -> Any:
    """Return where the type hints of the options stand."""
    plain_class = isinstance(target, type) and not dataclasses.is_dataclass(target)
    return target.__init__ if plain_class else target


def _help(annotation: Any) -> str:
    """Return the description that ``Annotated[..., Field(description=...)]`` carries."""
    if get_origin(annotation) is not Annotated:
        return ""
    found = (getattr(item, "description", None) for item in annotation.__metadata__)
    return next((text for text in found if text), "")


SCHEMES = Registry("scheme", "airfeel.schemes", ("airfeel.schemes",), ("init", "plan", "encode", "decode"))
CHANNELS = Registry("channel.kind", "airfeel.channels", ("airfeel.radio",), ("link",))
MODELS = Registry("model.kind", "airfeel.models", ("airfeel.learning.models",))
DATASETS = Registry("dataset", "airfeel.datasets", ("airfeel.learning.catalogue",))
