"""The subcommands of ``airfeel``: the public functions of the modules here, which :mod:`airfeel.cli` finds.

A subcommand is a plain function: data goes to stdout with :func:`show`, log and progress to stderr through
the logger ``airfeel`` (whose level INFO is off under ``--quiet``), a user's mistake is a ``ValueError``. What
it computes with is imported when it is called: help, list and completion do not wait for the laboratory.
"""

from dataclasses import dataclass
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


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Computing:
    """How and where many runs are computed.

    Parameters
    ----------
    engine
        Address of a Dask scheduler, such as tcp://host:8786; unset: processes on this machine.
    workers
        Number of processes; unset: one for each core.
    out
        Folder for runs and tables; workers on other machines must see it too.
    force
        Compute finished runs again.
    dry_run
        Check everything, say how many runs there are and about how long they take, and compute nothing.
    """

    engine: str | None = None
    workers: int | None = None
    out: Path = Path("results")
    force: Flag = False
    dry_run: Flag = False


HERE = Computing()


def check_counts(**counts: int | None) -> None:
    """Refuse a number of anything that is below one."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"--{name} {count}: must be a whole number >= 1")
