"""Somebody else's code, such as a scheme, a model or a loss: what it lacks and what it raised, in words."""

import inspect
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, get_origin, get_type_hints

Needs = Mapping[str, Sequence[str] | None]  # methods with their arguments; None for what is no method

_OURS = __name__.partition(".")[0]
_INSTALLED = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(__file__).parent))


def unwrapped(target: Any) -> Any:
    """Return what a partial calls, and the class of ``Name[int]``; anything else as it is."""
    while isinstance(target, partial):
        target = target.func
    return get_origin(target) or target


def wants_something(make: Any) -> bool:
    """Whether a class or function must be given an argument; of a model's that is the shape of the data."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(make).parameters.values()
    return any(p.kind in kinds and p.default is p.empty for p in parameters)


def hints(place: Any) -> dict[str, Any]:
    """Return the types of a class's fields or a function's arguments; Any where only a type checker knows."""
    try:
        return get_type_hints(place, include_extras=True)
    except Exception:  # a name that is imported for type checkers alone, or a text that is no type
        found: dict[str, Any] = {}
        for base in reversed(getattr(place, "__mro__", (place,))):
            for name, annotation in getattr(base, "__annotations__", {}).items():
                alone, module = SimpleNamespace(__annotations__={name: annotation}), base.__module__
                try:
                    found |= get_type_hints(alone, vars(sys.modules[module]), include_extras=True)
                except Exception:
                    found[name] = Any
        return found


def unfit(target: Any, needs: Needs) -> str:
    """Say what a class or an object lacks of what is needed; empty where it has everything.

    What a protocol or an abstract class only declares is not there. How many arguments a method takes is seen
    where it is bound.
    """
    thing = unwrapped(target)
    missing = [name for name in needs if not _has(thing, name, needs[name] is not None)]
    if missing:
        own = " of its own" if all(hasattr(thing, name) for name in missing) else ""
        return f"must have {', '.join(needs)}, but has no {', '.join(missing)}{own}"
    for name, arguments in needs.items():
        if arguments is not None and not isinstance(thing, type):
            try:
                signature = inspect.signature(getattr(thing, name))
            except (TypeError, ValueError):  # of a compiled function
                continue
            try:
                signature.bind(*arguments)
            except TypeError:
                found = ", ".join(signature.parameters)
                return f"must have {name}({', '.join(arguments)}), but has {name}({found})"
    return ""


def _has(thing: Any, name: str, method: bool) -> bool:
    bases = (thing if isinstance(thing, type) else type(thing)).__mro__
    owner = next((base for base in bases if name in vars(base)), None)
    found = getattr(thing, name, None)
    declared = getattr(owner, "_is_protocol", False) or getattr(found, "__isabstractmethod__", False)
    return hasattr(thing, name) and not declared and (callable(found) or not method)


@contextmanager
def explained(refusal: ValueError) -> Iterator[None]:
    """Turn what somebody's code raises into a refusal with the reason; what airfeel raised stays as it is."""
    try:
        yield
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, Exception) and is_ours(error):
            raise
        raise ValueError(f"{refusal} ({told(error)})") from error


def is_foreign(error: BaseException) -> bool:
    """Whether somebody's own file had a part in an error."""
    return any(_is_file(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def is_ours(error: Exception) -> bool:
    """Whether airfeel itself raised an error: its message is a sentence already."""
    if type(error).__module__.partition(".")[0] == _OURS:
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(f"{_OURS}.")
    return inside and isinstance(error, ValueError | ImportError | OSError)


def told(error: BaseException) -> str:
    """Return kind and first line of an error, and the line of the user's own file that it comes from.

    >>> try:
    ...     int("wide")
    ... except ValueError as error:
    ...     told(error)
    "ValueError: invalid literal for int() with base 10: 'wide'"
    """
    words = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_file(frame.filename)]
    return words + (f", {Path(own[-1].filename).name} line {own[-1].lineno}" if own else "")


def _is_file(name: str) -> bool:
    """Whether a frame's code is in a file, and neither in an installed package nor in ours."""
    return not name.startswith(("<", *_INSTALLED))
