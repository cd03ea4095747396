"""airfeel: over-the-air federated edge learning."""

import re
from importlib import import_module
from importlib.util import find_spec
from pkgutil import get_data

__version__ = "0.3.0"

# Public names by the module they come from, which is imported when one is first asked for. Otherwise whoever
# needs one part would wait for all of them: a second, most of it SciPy's. Type checkers read the same file.
_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.MULTILINE)}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Import a public name, or a module of the package, when it is first used (PEP 562)."""
    if name in _HOMES:
        value: object = getattr(import_module(_HOMES[name]), name)
    elif not name.startswith("_") and find_spec(f"airfeel.{name}"):
        value = import_module(f"airfeel.{name}")
    else:
        raise AttributeError(f"module 'airfeel' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
