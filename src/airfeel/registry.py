"""Parts by name: one registry for each seam, open to other packages and to ``package.module:Name``.

A part is a class (best a frozen dataclass, whose fields are its options) or a function (whose arguments with
a default are); a partial of one of these has the options that it does not bind. Built-in parts register
themselves where they are defined; another package names its own in an entry point of the registry's group;
and any importable class or function can be named as ``package.module:Name``.

>>> registry = Registry("scheme", "schemes", "schemes")
>>> registry.get("collections:Counter").name
'collections:Counter'
"""

import ast
import dataclasses
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_origin

from airfeel import _checks, _foreign

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
    first = first_sentence(inspect.getdoc(target) or "")
    return "" if first.startswith(f"{getattr(target, '__name__', '')}(") else first


def first_sentence(text: str) -> str:
    """Return the first paragraph of a docstring in one line, without its full stop."""
    return text.partition("\n\n")[0].replace("\n", " ").strip().removesuffix(".")


def options_of(target: Any) -> Iterator[Option]:
    """Yield the options of a class or function, in its own order; of a partial those that are not bound."""
    if isinstance(target, partial):
        free = _parameters(target).keys() - target.keywords.keys()
        yield from (option for option in options_of(target.func) if option.name in free)
        return
    target = place = _foreign.unwrapped(target)
    if not has_fields(target) and not inspect.isroutine(target):
        place = getattr(target, "__init__" if isinstance(target, type) else "__call__")
    hints = _foreign.hints(place)
    if has_fields(target):
        # Keyword-only ones come last, as in a call.
        for field in sorted(dataclasses.fields(target), key=lambda field: field.kw_only is True):
            factory: Any = field.default_factory
            default = field.default if factory is REQUIRED else factory()
            text = field.metadata.get("help", "") or _help(hints[field.name])
            if field.init:
                key, section = field.metadata.get("key") or field.name, field.metadata.get("section", "")
                yield Option(key, hints[field.name], default, text, section, field.name)
        return
    for name, one in _parameters(target).items():
        default = REQUIRED if one.default is one.empty else one.default
        optional = one.kind is one.POSITIONAL_OR_KEYWORD and default is not REQUIRED
        if optional or one.kind is one.KEYWORD_ONLY:
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


def _help(annotation: Any) -> str:
    """Return the description that ``Annotated[..., Field(description=...)]`` carries."""
    if get_origin(annotation) is not Annotated:
        return ""
    found = (getattr(item, "description", None) for item in annotation.__metadata__)
    return next((text for text in found if text), "")


Target = TypeVar("Target", bound=Callable[..., Any])

LAST = 99  # place of a part that asks for none


@dataclasses.dataclass(frozen=True)
class Part:
    """What a name of a configuration stands for; key, needs and advice are those of its registry."""

    name: str
    target: Any = dataclasses.field(hash=False)
    summary: str = ""
    key: str = "part"
    needs: _foreign.Needs = dataclasses.field(default_factory=dict, hash=False)
    advice: str = ""

    @property
    def kind(self) -> Any:
        """The class or function itself, whose attributes say more about the part, where that is a partial."""
        return _foreign.unwrapped(self.target)

    @property
    def revision(self) -> int:
        """Raised by the part whenever unchanged options give other results; enters a run's hash from 2 on."""
        return _checks.integer(f"{self.name}.revision", getattr(self.kind, "revision", 1), at_least=1)

    @property
    def tuned(self) -> Mapping[str, Any]:
        """The part's preset: values by dotted key, for a configuration that does not give others."""
        return getattr(self.kind, "tuned", {})

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """What the part reads, in its own order."""
        return tuple(options_of(self.target))

    def defaults(self) -> dict[str, Any]:
        """Return the options that have a default."""
        return {option.name: option.default for option in self.options if option.default is not REQUIRED}

    def build(self, options: Mapping[str, Any]) -> Any:
        """Return the part with these options: an instance of its class, or its function with them bound.

        A model's class that must be given the data, or is a ``torch.nn.Module``, which is built again and
        again, is taken for a function.
        """
        fields, torch = {option.name: option.field for option in self.options}, sys.modules.get("torch")
        make = partial(self.target, **{fields.get(name, name): value for name, value in options.items()})
        with _foreign.explained(_checks.reject(self.key, self.name, "cannot be made")):
            again = not isinstance(self.kind, type) or (torch and issubclass(self.kind, torch.nn.Module))
            if not self.needs and (again or _foreign.wants_something(make)):
                return make
            made = make()
        self.require(made)
        return made

    def require(self, thing: Any) -> None:
        """Refuse a class or an object that lacks what such a part needs."""
        if rule := _foreign.unfit(thing, self.needs):
            raise _checks.reject(self.key, self.name, "; ".join(filter(None, [rule, self.advice])))

    def complete(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults that follow from other options, where the part has a method ``complete``."""
        method = getattr(self.kind, "complete", None)
        return {} if method is None else method(given)

    @property
    def source(self) -> Any:
        """What a file of source code defines: of a partial, say, that is the module that names it."""
        known = isinstance(self.target, type) or inspect.isroutine(self.target)
        return self.target if known else sys.modules.get(self.name.partition(":")[0])


class Registry:
    """All parts of one seam.

    Parameters
    ----------
    key
        Of the configuration, which names a part; sentences call the part so too.
    title
        What all of them are called; other packages add theirs by entry points of the group ``airfeel.title``.
    home
        The package inside airfeel whose modules register the built-in parts.
    default
        The part of a configuration that names none.
    needs, advice
        The methods that a part's class must have, with their arguments, none where parts are functions; and
        what to do where one is missing.
    tables
        Of the configuration, with the parts' options: the first, unless an option says another.
    given
        Options that a run gives to every part, so that no configuration does.
    """

    def __init__(
        self,
        key: str,
        title: str,
        home: str,
        default: str = "",
        needs: _foreign.Needs | None = None,
        tables: tuple[str, ...] = (),
        given: tuple[str, ...] = (),
        advice: str = "",
    ) -> None:
        self.key, self.title, self.default = key, title, default
        self.group, self.home = f"airfeel.{title}", f"airfeel.{home}"
        self.tables, self._given = tables or (key.partition(".")[0],), given
        self._facts: dict[str, Any] = {"key": key, "needs": needs or {}, "advice": advice}
        self._parts: dict[str, Part] = {}
        self._places: dict[str, tuple[int, str]] = {}
        self._discovered = False

    def register(self, name: str, summary: str = "", *, place: int = LAST) -> Callable[[Target], Target]:
        """Return a decorator that adds a built-in part; lists show it at its ``place``, later ones behind.

        Its summary is the first sentence of its docstring, unless given.
        """

        def add(target: Target) -> Target:
            self._parts[name] = Part(name, target, summary or summary_of(target), **self._facts)
            self._places[name] = (place, str(getattr(target, "__module__", "")))
            return target

        return add

    def names(self) -> list[str]:
        """Return every registered name, the built-in ones first."""
        self._discover()
        return list(self._parts) + [name for name in self._entry_points if name not in self._parts]

    def summaries(self) -> dict[str, str]:
        """Return every registered name with its summary; built-in parts are read, as imports take long."""
        folder = Path(__file__).parent.joinpath(*self.home.split(".")[1:])
        found = [part for path in folder.glob("*.py") for part in _declared(path, self.title.upper())]
        summaries = {name: summary for _, _, name, summary in sorted(found)}
        for name in self._entry_points.keys() - summaries.keys():
            with suppress(ValueError):  # it cannot be imported
                summaries[name] = self.get(name).summary
        return summaries

    def parts(self) -> Iterator[Part]:
        """Yield every registered part; one of another package that cannot be imported is left out."""
        for name in self.names():
            try:
                yield self.get(name)
            except ValueError:
                continue

    def get(self, name: Any) -> Part:
        """Return a part by its name, or by ``package.module:Name``; refuse what is neither."""
        self._discover()
        if not isinstance(name, str):
            raise _checks.reject(self.key, name, self._rule())
        if name not in self._parts and (entry := self._entry_points.get(name)) is not None:
            self._parts[name] = self._found(name, entry.module, entry.attr)
        if name in self._parts:
            return self._parts[name]
        module, colon, attribute = name.partition(":")
        if not colon:
            raise _checks.reject(self.key, name, self._rule() + _checks.suggestion(name, self.names()))
        return self._found(name, module, attribute)

    def keys(self, part: Part) -> dict[str, Option]:
        """Return the options of a part by the dotted keys of a configuration."""
        options = (option for option in part.options if option.name not in self._given)
        return {f"{option.section or self.tables[0]}.{option.name}": option for option in options}

    def is_built_in(self, name: Any) -> bool:
        """Whether a name stands for a part that comes with airfeel: a file of a run can trust no other."""
        self._discover()
        return isinstance(name, str) and name in self._places

    def registered(self, name: str) -> Part:
        """Return a part that this process has registered: a name from elsewhere makes nobody import it."""
        self._discover()
        if name not in self._parts:
            rule = f"is not registered here; known are {', '.join(map(repr, self._parts))}"
            raise _checks.reject(self.key, name, rule)
        return self._parts[name]

    def name_of(self, target: Any) -> str:
        """Return how a configuration names a class or function: as registered, else by where it is."""
        self._discover()
        for name, part in self._parts.items():
            if part.target is target:
                return name
        return f"{target.__module__}:{target.__qualname__}"

    def given(self, thing: Any) -> Any:
        """Return a part that is handed over as an object; a class, or a partial of one, is called for it."""
        part = self.require(thing)
        return part.build({}) if isinstance(part.kind, type) else thing

    def require(self, thing: Any, name: str = "") -> Part:
        """Refuse a class or an object that cannot be such a part, else return it as one."""
        part = Part(name or thing, thing, summary_of(thing), **self._facts)
        part.require(thing)
        return part

    def _found(self, name: str, module: str, attribute: str) -> Part:
        part = self.require(_imported(self.key, name, module, attribute), name)
        with _foreign.explained(_checks.reject(self.key, name, "has options that cannot be told")):
            _ = part.options
        return part

    def _rule(self) -> str:
        return f"must be one of {', '.join(map(repr, self.names()))}, or package.module:Name"

    def _discover(self) -> None:
        """Import the built-in parts once, which registers them."""
        if self._discovered:
            return
        self._discovered = True
        for module in pkgutil.iter_modules(import_module(self.home).__path__):
            import_module(f"{self.home}.{module.name}")
        self._parts = {name: self._parts[name] for name in sorted(self._parts, key=self._places.__getitem__)}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}


def _imported(key: str, name: str, module: str, attribute: str) -> Any:
    """Import what a user named; modules in the working folder count, as with ``python -m``."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:  # whatever goes wrong in somebody's module
        raise _checks.reject(key, name, f"cannot import {module!r} ({_foreign.told(error)})") from error
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise _checks.reject(key, name, f"must name something in {module!r}, which has no {step!r}")
        found = getattr(found, step)
    if not callable(found):
        rule = f"must name a class or a function, not an object: {_checks.shown(found)}"
        raise _checks.reject(key, name, rule)
    return found


def _declared(path: Path, registry: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield place, module, name and summary of the parts that a module registers, without importing it."""
    for node in ast.walk(ast.parse(path.read_text())):
        calls = [node.func] if isinstance(node, ast.Call) else getattr(node, "decorator_list", [])
        for call in calls:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{registry}.register":
                name, *summary = map(ast.literal_eval, call.args)
                options = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
                words = summary[0] if summary else ast.get_docstring(cast("ast.ClassDef", node))
                yield options.get("place", LAST), path.stem, name, first_sentence(words or "")


SCHEMES = Registry(
    "scheme",
    "schemes",
    "schemes",
    "scheduled",
    {
        "init": ("shapes", "setting"),
        "memory": ("shapes",),
        "plan": ("state", "seed", "round"),
        "encode": ("plan", "memory", "update"),
        "settle": ("plan", "memory", "update", "sent", "delivered"),
        "decode": ("state", "plan", "heard"),
        "stateless": None,
    },
    tables=("uplink", "receiver"),
    advice="derive it from af.ErrorFeedback, which calls compress(plan, accumulated) where 0.2 called "
    "encode(plan, accumulated), or from af.Scheme",
)
_LINK = {"link": ("num_devices", "symbols", "seed", "round")}
CHANNELS = Registry("channel.kind", "channels", "radio", "gaussian", _LINK)
_POWER = {"alpha": ("demand", "ledger")}
POLICIES = Registry("uplink.policy", "policies", "radio", "equal", _POWER, given=("power",))
MODELS = Registry("model.kind", "models", "learning.models", "softmax")
_DRAW = {"draw": ("labels", "sizes", "seed", "pool")}
PARTITIONS = Registry("partition.kind", "partitions", "learning.partitions", "iid", _DRAW)
_UPDATE = {"init": ("size",), "update": ("state", "theta", "aggregate", "rate")}
OPTIMIZERS = Registry("server.optimizer", "optimizers", "learning.optimizers", "sgd", _UPDATE)
_TRAIN = {"accumulated_gradient": ("task", "theta", "samples", "rate", "seed", "round", "device")}
TRAININGS = Registry("devices.training", "trainings", "learning.training", "sgd", _TRAIN)
DATASETS = Registry("dataset", "datasets", "learning.catalogue", "mnist")

# The parts that a configuration builds, in the order of a round; a data set may also be a path.
SEAMS = {
    "scheme": SCHEMES,
    "channel": CHANNELS,
    "policy": POLICIES,
    "model": MODELS,
    "partition": PARTITIONS,
    "optimizer": OPTIMIZERS,
    "training": TRAININGS,
}
