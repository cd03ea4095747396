"""Parts by name: one registry for each seam, open to other packages and to ``package.module:Name``.

A part is a class (best a frozen dataclass, whose fields are its options) or a function (whose arguments with
a default are); a partial of one of these has the options that it does not bind. Built-in parts register
themselves where they are defined; another package names its own in an entry point of the registry's group;
and any importable class or function can be named as ``package.module:Name``.

>>> registry = Registry("scheme", "schemes", "schemes")
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
from typing import Any, TypeVar

from airfeel import _checks, _files, _foreign
from airfeel.registry.options import REQUIRED, Option, fixed, option, options_of, summary_of

__all__ = [
    "CHANNELS",
    "DATASETS",
    "MODELS",
    "OPTIMIZERS",
    "PARTITIONS",
    "POLICIES",
    "REQUIRED",
    "SCHEMES",
    "SEAMS",
    "TRAININGS",
    "Option",
    "Part",
    "Registry",
    "fixed",
    "option",
]

Target = TypeVar("Target", bound=Callable[..., Any])

_SOURCE = 2**26  # bytes of a module's source at most


@dataclasses.dataclass(frozen=True)
class Part:
    """What a name stands for.

    ``name`` is how configurations call it; ``key``, ``needs`` and ``advice`` are those of its registry.
    """

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
        fields = {option.name: option.field for option in self.options}
        make = partial(self.target, **{fields.get(name, name): value for name, value in options.items()})
        with _foreign.explained(_checks.reject(self.key, self.name, "cannot be made")):
            if not self.needs and (not isinstance(self.kind, type) or _makes_models(self.kind, make)):
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

    def source_digest(self) -> str:
        """Return a hash of the source file that defines the part, empty where there is none.

        What is neither a class nor a function, such as a partial, is defined by the module that names it.
        """
        place = self.target
        if not (isinstance(place, type) or inspect.isroutine(place)):
            place = sys.modules.get(self.name.partition(":")[0])
        try:
            path = inspect.getsourcefile(place)
            content = b"" if path is None else _files.read_bytes(path, _SOURCE)
        except (TypeError, OSError):
            content = b""
        return hashlib.sha256(content).hexdigest() if content else ""


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
    needs
        The methods that a part's class must have, with their arguments; none where parts are functions.
    tables
        Of the configuration, with the parts' options: the first, unless an option says another.
    given
        Options that a run gives to every part, so that no configuration does.
    advice
        What to do where a method is missing.
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

    def register(self, name: str, summary: str = "", *, place: int = 99) -> Callable[[Target], Target]:
        """Return a decorator that adds a built-in part; lists show it at its ``place``, later ones behind.

        Its summary is the first sentence of its docstring, unless given.
        """

        def add(target: Target) -> Target:
            self._parts[name] = Part(name, target, summary or summary_of(target), **self._facts)
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
            self._parts[name] = self._found(name, entry.module, entry.attr)
            return self._parts[name]
        if isinstance(name, str) and ":" in name:
            module, _, attribute = name.partition(":")
            return self._found(name, module, attribute)
        raise _checks.reject(self.key, name, self._rule(name))

    def keys(self, part: Part) -> dict[str, Option]:
        """Return the options of a part by the dotted keys of a configuration."""
        options = (option for option in part.options if option.name not in self._given)
        return {f"{option.section or self.tables[0]}.{option.name}": option for option in options}

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

    def require(self, thing: Any) -> Part:
        """Refuse a class or an object that cannot be such a part, else return it as one."""
        return self._part(thing, thing)

    def _found(self, name: str, module: str, attribute: str) -> Part:
        part = self._part(name, _imported(self.key, name, module, attribute))
        with _foreign.explained(_checks.reject(self.key, name, "has options that cannot be told")):
            _ = part.options
        return part

    def _part(self, name: Any, target: Any) -> Part:
        part = Part(name, target, summary_of(target), **self._facts)
        part.require(target)
        return part

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


def _makes_models(kind: type, make: Callable[[], Any]) -> bool:
    torch = sys.modules.get("torch")
    return _foreign.wants_something(make) or (torch is not None and issubclass(kind, torch.nn.Module))


def _module_of(target: Any) -> str:
    return str(getattr(target, "__module__", ""))


SCHEMES = Registry(
    "scheme",
    "schemes",
    "schemes",
    "tsa_ga",
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
