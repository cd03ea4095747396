"""What is not training: the receiver alone, Theorem 3 on a real run, a run's gradients, link planning.

The first two are studies of the theory, carried out in a folder like that of a training run. They take
seconds: one that was interrupted starts again, and none has checkpoints.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import airfeel
from airfeel.lab.rundir import Described, open_run, run_path
from airfeel.lab.store import finished, read_rows

Row = Mapping[str, Any]


class Stopped(Exception):
    """The study was asked to stop."""


def execute(
    kind: str,
    config: Described,
    out: Path,
    force: bool,
    rows: Iterable[tuple[Row, float]],
    summarise: Callable[[list[dict[str, Any]]], Row],
) -> bool:
    """Do a study unless it is finished; return whether it is complete.

    ``rows`` computes a line of ``rounds.jsonl`` and how many seconds it took, round after round, and raises
    :class:`Stopped` to leave the study incomplete. ``summarise`` makes a few numbers of all rows.
    """
    path = run_path(config, out)
    if not force and finished(path) is not None:
        return True
    with open_run(config, out, force) as folder:
        if not force and finished(path) is not None:  # by another process, meanwhile
            return True
        folder.reopen(forget=True)
        try:
            for row, seconds in rows:
                line = json.dumps(row, separators=(",", ":"), allow_nan=False)
                folder.append(line, row["round"], round(seconds, 6))
        except Stopped:
            return False
        facts: dict[str, Any] = {"airfeel": airfeel.__version__, "kind": kind}
        facts |= {"scheme": config.scheme, "rounds": config.rounds}
        folder.finish(facts | dict(summarise(read_rows(path))))
    return True
