"""How recovery went: errors of a round and of all rounds together, and rounds that did not settle."""

import math
from collections.abc import Callable, Iterable, Sequence

from airfeel.lab.collect import Collected, Line
from airfeel.lab.report.finals import finals
from airfeel.lab.report.means import interval
from airfeel.lab.report.measures import OfOne, cumulative_nmse_db, downlink, nmse_db
from airfeel.lab.store import Row, count_endings

Table = list[list[str]]
NONE = "-"
CUMULATIVE = (
    "The cumulative error compares the sums of what was sent and of what was recovered in all rounds so far, "
    "which is what the model has received: errors that cancel from round to round vanish in it, errors that "
    "repeat stay."
)
ENDINGS = ("diverged", "at the limit", "of rounds")
NOTE = (
    f"NMSE is the error of a single round, mean over the second half of the rounds. {CUMULATIVE} Counted are "
    "the rounds of all seeds in which the receiver's iteration diverged or ended at its limit; a scheme "
    "without a receiver has none. Downlink is how many numbers of 32 bits the server tells every device in a "
    "round beside the model."
)


def reception_table(collected: Collected) -> Table:
    """Return errors and counts, one row per curve and variant; empty where nothing was recovered."""
    return _table(collected, _RECEPTION)


def overview_table(collected: Collected) -> Table:
    """Return the same for a terminal, after the final accuracy."""
    return _table(collected, _ACCURACY | _RECEPTION)


def ending_cells(runs: Iterable[Sequence[Row]]) -> list[str]:
    """Return in how many rounds of some runs the iteration diverged or hit its limit, and of how many."""
    found = count_endings(row.get("status") for rows in runs for row in rows)
    counts = (found.diverged, found.limited, found.rounds)
    return [str(count) if found.rounds else NONE for count in counts]


def _measured(take: OfOne, form: str) -> Callable[[Line], str]:
    """Return what makes a cell of a measure: its mean over seeds with a 95 % interval."""

    def cell(line: Line) -> str:
        values = _values(take, line)
        return interval(0, values).words(form) if values else NONE

    return cell


def _values(take: OfOne, line: Line) -> list[float]:
    """Return a measure of every seed that has it."""
    return [value for seed in line.runs if math.isfinite(value := take(line, seed))]


def _accuracy(line: Line) -> str:
    values = list(finals(line).values())
    return interval(0, values).words(".2f") if values else NONE


def _downlink(line: Line) -> str:
    values = _values(downlink, line)
    return f"{sum(values) / len(values):.0f}" if values else NONE


_ACCURACY: dict[str, Callable[[Line], str]] = {"accuracy (%)": _accuracy}
_RECEPTION = {
    "NMSE (dB)": _measured(nmse_db, "z.1f"),
    "cumulative NMSE (dB)": _measured(cumulative_nmse_db, "z.1f"),
    "downlink": _downlink,
}


def _table(collected: Collected, columns: dict[str, Callable[[Line], str]]) -> Table:
    """Return the columns in which some line has an entry; empty where there is none."""
    lines = collected.lines
    cells = [[make(line) for make in columns.values()] + ending_cells(line.rows.values()) for line in lines]
    titles = [*columns, *ENDINGS]
    kept = [place for place in range(len(titles)) if any(row[place] != NONE for row in cells)]
    if not kept:
        return []
    several = len({line.variant for line in lines}) > 1
    heading = ["curve", *(["variant"] if several else []), *(titles[place] for place in kept)]
    names = [[line.curve, line.variant] if several else [line.curve] for line in lines]
    return [heading, *([*name, *(row[k] for k in kept)] for name, row in zip(names, cells, strict=True))]
