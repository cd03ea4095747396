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
    """Return the error to raise: what cannot be done ("figures need"), and the command that helps.

    Where airfeel itself is not installed, as in a clone, that names the extra in place of its packages.
    """
    try:
        declared = [line.partition(";") for line in requires("airfeel") or []]
    except PackageNotFoundError:
        declared = []
    mark = re.compile(rf"extra == ['\"]{extra}['\"]")
    wanted = [name.strip() for name, _, marker in declared if mark.search(marker)]
    names = " and ".join(re.split(r"[<>=!~\[ ]", package)[0] for package in wanted) or f"the extra {extra!r}"
    command = shlex.join([sys.executable, "-m", "pip", "install", *(wanted or [f".[{extra}]"])])
    return ImportError(f"{what} {names}: {command}")
