"""The command ``airfeel``: parse, call one subcommand, turn a user's mistake into one sentence.

Data goes to stdout, log and progress to stderr. Exit code 0 on success, 1 when some runs of many failed, 2
on a mistake or when something needed is not there, 130 when interrupted.
"""

import difflib
import inspect
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError

from airfeel import __version__, _foreign, commands
from airfeel._checks import visible
from airfeel.commands._completion import Shell, install

_log = logging.getLogger("airfeel")
_ALIKE = 0.75  # of two words, one of which is taken for a misspelling of the other

app = App(
    name="airfeel",
    help="Federated learning with uploads 10 to 100 times smaller, over a simulated radio. Try: airfeel demo",
    version=__version__,
    default_parameter=Parameter(show_default=lambda value: str(value) if value else None),
)
_found: dict[str, Callable[..., Any]] = {}
for _module in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
    if "._" not in _module.name:
        for _name, _function in inspect.getmembers(import_module(_module.name), inspect.isfunction):
            if _function.__module__ == _module.name and not _name.startswith("_"):
                _found[_name] = _function
for _name in sorted(_found):
    app.command(_found[_name], name=_name)


@app.command(name="--install-completion")
def _install_completion(*, shell: Shell | None = None, output: Path | None = None) -> None:
    """Teach your shell what the Tab key means here, then exit.

    Parameters
    ----------
    shell
        Which one; unset: the one this is called from.
    output
        Write the script only, into this file, to be sourced by hand.
    """
    path = install(app, shell, output)
    _log.info("in a new shell the Tab key completes commands, options, figures, data sets and --set keys")
    commands.show(path)


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Prepare what all subcommands share, then call the one asked for.

    Parameters
    ----------
    tokens
        The subcommand and its arguments.
    quiet
        Only results and errors: no log, no progress.
    """
    _log.setLevel(logging.WARNING if quiet else logging.INFO)
    _call(app, tokens)


def _call(application: App, tokens: Sequence[str]) -> Any:
    command, bound, *_ = application.parse_args(list(tokens), exit_on_error=False, print_error=False)
    return command(*bound.args, **bound.kwargs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``airfeel`` with ``arguments`` (those of the process when not given) and return its exit code."""
    handler = logging.StreamHandler()  # bound to what is stderr now
    handler.setFormatter(_Visible())
    _log.handlers = [handler]
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _call(app.meta, words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        return 0
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # rich's answer to the same
            raise
        return 0
    except KeyboardInterrupt as interrupt:
        _say(interrupt if interrupt.args else "interrupted")
        return 130
    except MemoryError as error:
        _say(f"not enough memory: {error or 'nothing is left'}")
        return 2
    except Exception as error:
        code = _exit_code(error)
        foreign = code != 1 and _foreign.is_foreign(error)  # somebody's own part has failed amid its work
        if code != 1 and (os.environ.get("AIRFEEL_DEBUG") or not (foreign or code)):
            raise
        told = f"{_foreign.told(error)} (AIRFEEL_DEBUG=1 shows the way there)" if foreign else _brief(error)
        _say((_advice(error, words) if isinstance(error, UnknownOptionError) else None) or told)
        return code or 2
    return 0


def _exit_code(error: Exception) -> Any:
    """Return 2 for a user's mistake or something that is not there, 1 for failed runs, else 0."""
    if isinstance(error, CycloptsError | ValueError | OSError | ImportError):
        return 2
    return getattr(error, "exit_code", 0)


def _brief(error: Exception) -> object:
    """Return what to say of an error: of one of the system's the file and the reason, without its number."""
    if isinstance(error, OSError) and type(error).__str__ is OSError.__str__ and error.filename:
        return f"{error.filename}: {error.strerror}"
    return error


def _advice(error: UnknownOptionError, words: Sequence[str]) -> str | None:
    """Return a sentence for a configuration key that was given as if it were an option, or None.

    ``words`` is the command line that was refused; the value stands behind the option.
    """
    options = {name for argument in error.argument_collection for name in argument.names}
    if "--set" not in options:
        return None
    given, _, value = (error.token.keyword or error.token.value).partition("=")
    found = _meant(given, options)
    following = dict(pairwise(words)).get(given) or "--"
    value = value or ("VALUE" if following.startswith("--") else following)
    forms = " or ".join(f"--set {key}={value}" for key in found)
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


def _say(what: object) -> None:
    """Print the last words to stderr; where nobody reads them, the exit code still tells."""
    with suppress(OSError):
        print(visible(f"airfeel: {what}", keep="\n"), file=sys.stderr)


class _Visible(logging.Formatter):
    """Makes of a record text that cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), keep="\n")
