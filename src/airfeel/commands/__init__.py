"""The subcommands of ``airfeel``: a module has the function of its name, and :mod:`airfeel.cli` finds it.

A subcommand is a plain function: data goes to stdout with :func:`show`, log and progress to stderr through
the logger ``airfeel`` (whose level INFO is off under ``--quiet``), a user's mistake is a ``ValueError``. What
it computes with is imported when it is called: help, list and completion do not wait for the laboratory.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from airfeel._checks import visible

if TYPE_CHECKING:
    from airfeel.config import Config

Flag = Annotated[bool, Parameter(negative=())]
Settings = Annotated[list[str] | None, Parameter(name="--set", negative=())]


def show(*lines: object) -> None:
    """Print to stdout at once, as text that cannot steer a terminal: names and labels may be anybody's."""
    print(visible("\n".join(map(str, lines)), keep="\n"), flush=True)


def load(config: str, settings: list[str] | None) -> "Config":
    """Return the configuration from a file and ``--set`` options."""
    from airfeel.config import load_config, parse_override

    if "=" in config and not Path(config).exists():
        raise ValueError(f"{config}: no such file; to set a key, use --set {config}")
    return load_config(config or None, dict(parse_override(setting) for setting in settings or []))
