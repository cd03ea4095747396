"""What somebody meant who gave a configuration key as if it were an option of a command."""

import difflib
from collections.abc import Sequence
from itertools import pairwise

from cyclopts import UnknownOptionError

_ALIKE = 0.75  # of two words, one of which is taken for a misspelling of the other


def advice(error: UnknownOptionError, words: Sequence[str]) -> str | None:
    """Return a sentence that names the right form, or None where no key is meant.

    ``words`` is the command line that was refused; the value stands behind the option.
    """
    options = {name for argument in error.argument_collection for name in argument.names}
    if "--set" not in options:
        return None
    given, _, value = (error.token.keyword or error.token.value).partition("=")
    found = _meant(given, options)
    forms = " or ".join(f"--set {key}={value or _value_after(given, words)}" for key in found)
    return f"{given}: no such option; use {forms}" if found else None


def _meant(option: str, options: set[str]) -> list[str]:
    """Return the keys of this name, whole or without section; else the nearest, if no option is nearer."""
    from airfeel.config.parts import keys

    word = _plain(option)
    names = [key.name for key in keys()]
    exact = [name for name in names if word in (_plain(name), _plain(name.rpartition(".")[2]))]
    if exact:
        return exact
    places = {_plain(form): name for name in names for form in (name, name.rpartition(".")[2])}
    others = {_plain(name) for name in options}
    close = difflib.get_close_matches(word, [*others, *places], n=1, cutoff=_ALIKE)
    return [places[found] for found in close if found not in others]


def _plain(word: str) -> str:
    return word.lstrip("-").replace("-", "_").replace(".", "_").lower()


def _value_after(option: str, words: Sequence[str]) -> str:
    """Return the word behind an option, or what stands for one."""
    following = dict(pairwise(words)).get(option, "")
    return following if following and not following.startswith("--") else "VALUE"
