"""The sentence for an optional package that is not installed."""

import re
import shlex
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from typing import Any


class LazyModule:
    """A module of an extra, imported when it is first used: what names it can be listed without it."""

    def __init__(self, name: str, extra: str, what: str) -> None:
        self._name, self._extra, self._what = name, extra, what

    def __getattr__(self, attribute: str) -> Any:
        try:
            return getattr(import_module(self._name), attribute)
        except ImportError as error:
            raise missing(self._extra, self._what) from error


def missing(extra: str, what: str) -> ImportError:
    """Return the error to raise: what cannot be done, and the command that helps, also in a clone.

    Parameters
    ----------
    extra
        The extra of ``pyproject.toml`` whose packages are needed.
    what
        The start of the sentence, such as ``"figures need"``.
    """
    wanted = _packages(extra)
    names = " and ".join(re.split(r"[<>=!~\[ ]", package)[0] for package in wanted) or f"the extra {extra!r}"
    command = shlex.join([sys.executable, "-m", "pip", "install", *(wanted or [f".[{extra}]"])])
    return ImportError(f"{what} {names}: {command}")


def _packages(extra: str) -> list[str]:
    """Return what an extra asks for, as pip takes it; nothing where airfeel itself is not installed."""
    try:
        declared = requires("airfeel") or []
    except PackageNotFoundError:
        return []
    parts = (line.partition(";") for line in declared)
    return [name.strip() for name, _, marker in parts if re.search(rf"extra == ['\"]{extra}['\"]", marker)]
