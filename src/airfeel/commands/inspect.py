"""``airfeel inspect``: does the Markov model fit the gradients of a run?"""

import json as encoding
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from airfeel._pace import Pace
from airfeel.experiments.runs.files import remove_abandoned, write_atomically
from airfeel.experiments.studies.inspection import (
    AggregateStatistics,
    Recorded,
    Recovery,
    compare_receivers,
    read_recorded,
    statistics,
)
from airfeel.experiments.studies.verdict import numbers, table, verdict

_log = logging.getLogger("airfeel")


def inspect(
    run: Path, /, *, out: Path | None = None, json: Annotated[bool, Parameter(negative=())] = False
) -> None:
    """Show whether the receiver's model fits the aggregates of a run, and what memory gains there.

    The run must have kept its aggregates: airfeel run --set run.record_aggregates=true. Figures need the
    extra "report"; the numbers do not.

    Example: airfeel inspect results/runs/tsa_ga-0123456789ab

    Parameters
    ----------
    run
        The folder of a run.
    out
        Folder for figures and inspection.json; by default "inspection" inside the run's folder.
    json
        Print one JSON object in place of the table.
    """
    recorded = read_recorded(run)
    found = statistics(recorded.aggregates)
    _log.info(f"recovering {len(recorded.aggregates)} recorded aggregates with and without memory")
    recovery = compare_receivers(recorded, found.chain, told=_told(len(recorded.aggregates)))
    facts = numbers(recorded, found, recovery)
    facts["verdict"] = verdict(facts)
    folder = run / "inspection" if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder)
    text = encoding.dumps(facts, indent=2)
    write_atomically(folder / "inspection.json", f"{text}\n".encode())
    with suppress(BrokenPipeError):  # a reader that leaves early may still want the figures
        print(text if json else f"{table(facts)}\n\n{facts['verdict']}", flush=True)
    _draw(folder, recorded, found, recovery)


def _told(rounds: int) -> Callable[[int], None]:
    """Return who logs now and then how far it is."""
    pace = Pace(rounds)
    return lambda round: pace.tell(round, _log.info, f"round {round} of {rounds}")


def _draw(folder: Path, recorded: Recorded, found: AggregateStatistics, recovery: Recovery) -> None:
    """Write the figures, or say why there are none."""
    try:
        from airfeel.experiments.report.inspection_charts import draw_inspection
    except ImportError as error:
        _log.warning(f"no figures: {error}")
        return
    for drawing in draw_inspection(recorded, found, recovery):
        for path in drawing.save(folder / drawing.figure.name):
            _log.info(f"wrote {path}")
