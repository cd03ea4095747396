"""The subcommands of ``airfeel``: the public functions of the modules here, which :mod:`airfeel.cli` finds.

A subcommand is a plain function: data goes to stdout with :func:`show`, log and progress to stderr through
the logger ``airfeel`` (whose level INFO is off under ``--quiet``), a user's mistake is a ``ValueError``. What
it computes with is imported when it is called: help, list and completion do not wait for the laboratory.
"""

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from airfeel._checks import visible

if TYPE_CHECKING:
    from airfeel.config import Config
    from airfeel.lab.plan import Begun, Experiment, ResultsFolder

log = logging.getLogger("airfeel")

Flag = Annotated[bool, Parameter(negative=())]
Settings = Annotated[list[str] | None, Parameter(name="--set", negative=())]


def _whole(kind: object, tokens: Sequence[Any]) -> int:
    """Read a whole number; the parser's own way would round 2.5."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value}: must be a whole number") from None


WHOLE = Parameter(converter=_whole)
Whole = Annotated[int | None, WHOLE]


def show(*lines: object) -> None:
    """Print to stdout at once, as text that cannot steer a terminal: names and labels may be anybody's."""
    print(visible("\n".join(map(str, lines)), keep="\n"), flush=True)


def load(config: str, settings: list[str] | dict[str, Any] | None) -> "Config":
    """Return the configuration from a file and ``--set`` options, or keys with their values."""
    from airfeel.config import load_config, parse_override

    if "=" in config and not Path(config).exists():
        raise ValueError(f"{config}: no such file; to set a key, use --set {config}")
    if not isinstance(settings, dict):
        settings = dict(parse_override(setting) for setting in settings or [])
    return load_config(config or None, settings)


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
    workers: Whole = None
    out: Path = Path("results")
    force: Flag = False
    dry_run: Flag = False


HERE = Computing()


def carry_out_all(experiments: "Sequence[Experiment]", how: Computing) -> None:
    """Carry out the experiments and say what came of them; or only what they would take."""
    from airfeel.lab.api import compute, planned
    from airfeel.lab.campaign import forecast
    from airfeel.lab.engines import check_engine

    if how.dry_run:
        check_engine(how.engine)
        show(forecast(planned(experiments, how.out)[1], how.out, how.workers))
        return
    compute(experiments, how.out, how.engine, how.workers, how.force, told=_tell)
    log.info(f"as a page: {shlex.join(['airfeel', 'report', str(how.out)])}")
    show(how.out / "results.csv")


def _tell(results: "ResultsFolder", begun: "Sequence[Begun]") -> None:
    """Say what came out, one line per curve and variant."""
    from airfeel.lab.exhibits.finals import reception_table
    from airfeel.lab.table import Results
    from airfeel.lab.words import text_table

    if not log.isEnabledFor(logging.INFO):  # nobody listens, and all runs would be read for it
        return
    table = Results(results)
    try:
        for one in begun:
            if rows := reception_table(table.of(one), accuracy=True):
                log.info(f"\n{visible(one.experiment.title)}\n{text_table(rows)}\n")
    except ImportError as error:
        log.info(f"what came out is in results.csv; {error}")


def check_counts(**counts: int | None) -> None:
    """Refuse a number of anything that is below one."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"--{name} {count}: must be a whole number >= 1")
