"""Many runs, each computed at most once: what ``reproduce``, ``sweep`` and ``demo`` do."""

import logging
import shlex
from collections.abc import Sequence

from airfeel._checks import visible
from airfeel.commands import Computing, show
from airfeel.lab.api import compute, planned
from airfeel.lab.campaign import forecast
from airfeel.lab.engines import check_engine
from airfeel.lab.exhibits.finals import reception_table
from airfeel.lab.plan import Begun, Experiment, ResultsFolder
from airfeel.lab.table import Results
from airfeel.lab.words import text_table

_log = logging.getLogger("airfeel")


def carry_out_all(experiments: Sequence[Experiment], how: Computing) -> None:
    """Carry out the experiments and say what came of them; or only what they would take."""
    if how.dry_run:
        check_engine(how.engine)
        show(forecast(planned(experiments, how.out)[1], how.out, how.workers))
        return
    compute(experiments, how.out, how.engine, how.workers, how.force, told=_tell)
    _log.info(f"as a page: {shlex.join(['airfeel', 'report', str(how.out)])}")
    show(how.out / "results.csv")


def _tell(results: ResultsFolder, begun: Sequence[Begun]) -> None:
    """Say what came out, one line per curve and variant."""
    if not _log.isEnabledFor(logging.INFO):  # nobody listens, and all runs would be read for it
        return
    table = Results(results)
    try:
        for one in begun:
            if rows := reception_table(table.of(one), accuracy=True):
                _log.info(f"\n{visible(one.experiment.title)}\n{text_table(rows)}\n")
    except ImportError as error:
        _log.info(f"what came out is in results.csv; {error}")
