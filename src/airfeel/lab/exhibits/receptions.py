"""How recovery went: errors of a round and of all rounds together, and rounds that did not settle."""

from collections.abc import Iterator

from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.store import count_endings
from airfeel.lab.table import Line, RunSelection, interval

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
# Title, measure, and how its mean over seeds is written; of downlink the mean alone.
_COLUMNS = (
    ("NMSE (dB)", "nmse_db", "z.1f"),
    ("cumulative NMSE (dB)", "cumulative_nmse_db", "z.1f"),
    ("downlink", "downlink", ""),
)


@EXHIBITS.register("receptions", place=40)
def receptions(shown: RunSelection) -> Iterator[TextTable]:
    """How recovery went in training; studies of the theory have tables of their own."""
    if shown.experiment is not None and shown.is_training:
        yield TextTable("Recovery", reception_table(shown), NOTE)


def reception_table(shown: RunSelection, accuracy: bool = False) -> list[list[str]]:
    """Return errors and counts, one row per curve and variant; empty where nothing was recovered.

    For a terminal the final accuracy comes first.
    """
    columns = ((("accuracy (%)", "final", ".2f"),) if accuracy else ()) + _COLUMNS
    ends = [(shown.ends(measure), form) for _, measure, form in columns]
    cells = [
        [_cell(list(of[line].values()), form) for of, form in ends] + ending_cells(shown, line)
        for line in shown.lines
    ]
    titles = [*(title for title, _, _ in columns), *ENDINGS]
    kept = [place for place in range(len(titles)) if any(row[place] != NONE for row in cells)]
    if not kept:
        return []
    names = [list(line) if len(shown.variants) > 1 else [line[0]] for line in shown.lines]
    heading = [*["curve", "variant"][: len(names[0])], *(titles[place] for place in kept)]
    return [heading, *([*name, *(row[k] for k in kept)] for name, row in zip(names, cells, strict=True))]


def ending_cells(shown: RunSelection, line: Line) -> list[str]:
    """Return in how many rounds of a line the iteration diverged or hit its limit, and of how many."""
    counts = count_endings(row.get("status") for run in shown.lines[line].values() for row in run.rows)
    return [str(count) if counts[-1] else NONE for count in counts]


def _cell(values: list[float], form: str) -> str:
    if not values:
        return NONE
    return interval(values).words(form) if form else f"{sum(values) / len(values):.0f}"
