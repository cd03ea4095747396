"""What runs come to in the end: accuracies, gaps to training without radio, errors of recovery."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.store import count_endings
from airfeel.lab.table import UNITS, BySeed, Line, RunSelection, interval

MOST_COLUMNS = 5
GAP = "Distance in points to training without radio, seed by seed; less is better."
LAST = {
    "accuracy": "accuracy",
    "loss": "loss",
    "nmse_db": "NMSE (dB)",
    "cumulative_nmse_db": "cumulative NMSE (dB)",
}
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


@EXHIBITS.register("finals", place=30)
def finals(shown: RunSelection) -> Iterator[TextTable]:
    """Final accuracies and gaps of an experiment, and the combinations that it leaves out."""
    if shown.experiment is None:
        yield TextTable("Last round", last_table(shown), CUMULATIVE, "first")
        return
    yield TextTable("Mean gap to error-free", mean_gap_table(shown), GAP, "first")
    note = "Percent, mean over the last tenth of the rounds, ± 95 %."
    yield TextTable("Final accuracy", _grid(shown.ends("final"), "accuracy (%)"), note)
    yield TextTable("Gap to error-free", _grid(shown.gaps(), "gap (points)"), GAP)
    rows = [[one.curve, "; ".join(one.variants) or "all", one.why] for one in shown.experiment.left_out]
    yield TextTable("Left out", [["curve", "variants", "why"], *rows])


def mean_gap_table(shown: RunSelection) -> list[list[str]]:
    """Return per curve the mean gap over the variants all curves share; empty where there are not several."""
    found = shown.gaps()
    curves = list(dict.fromkeys(curve for curve, _ in found))
    variants = [v for v in dict.fromkeys(v for _, v in found) if all((c, v) in found for c in curves)]
    if len(variants) < 2:
        return []
    rows = [["curve", f"mean gap over {len(variants)} variants (points)", "smallest", "largest"]]
    for curve in curves:
        by_variant = [found[curve, variant] for variant in variants]
        seeds = [seed for seed in by_variant[0] if all(seed in gap for gap in by_variant)]
        if seeds:
            means = [interval(gap.values()).value for gap in by_variant]
            over_seeds = [interval([gap[seed] for gap in by_variant]).value for seed in seeds]
            rows.append([curve, cell(over_seeds), f"{min(means):.2f}", f"{max(means):.2f}"])
    return rows


def last_table(shown: RunSelection) -> list[list[str]]:
    """Return the last round of every group of single runs.

    Rounds that diverged or ended at the iteration limit are counted over all rounds and seeds.
    """
    units = [key for key in UNITS if key in shown.rounds and shown.rounds[key].notna().any()]
    heading = ["scheme", "seeds", "rounds", *LAST.values(), "diverged", "at the limit", "symbols"]
    rows = [[*heading, *(UNITS[key] for key in units)]]
    for line, runs in shown.lines.items():
        end = next(iter(runs.values())).rows[-1]
        forms = {key: ".1f" if key.endswith("_db") else ".4f" for key in LAST} | dict.fromkeys(units, ".3g")
        words = {
            key: _end([run.rows.values(key) for run in runs.values()], form) for key, form in forms.items()
        }
        uses = "-" if end.get("symbols") is None else f"{end['symbols']:,}"
        cells = [line[0], str(len(runs)), str(end["round"]), *(words[key] for key in LAST)]
        rows.append([*cells, *ending_cells(shown, line)[:2], uses, *(words[key] for key in units)])
    return rows


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
        [_mean_cell(list(of[line].values()), form) for of, form in ends] + ending_cells(shown, line)
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
    counts = count_endings(one for run in shown.lines[line].values() for one in run.rows.values("status"))
    return [str(count) if counts[-1] else NONE for count in counts]


def _mean_cell(values: list[float], form: str) -> str:
    if not values:
        return NONE
    return interval(values).words(form) if form else f"{sum(values) / len(values):.0f}"


def cell(values: Collection[float]) -> str:
    """Return the mean and half the width of its 95 % interval, which a single value does not have."""
    return interval(values).words("z.2f")


def _grid(values: Mapping[Line, BySeed], unit: str) -> list[list[str]]:
    """Return one row per curve; many variants become rows and the curves columns."""
    if not any(values.values()):
        return []
    curves, variants = (list(dict.fromkeys(line[place] for line in values)) for place in (0, 1))
    rows = [["curve", *(variant or unit for variant in variants)]]
    for curve in curves:
        found = [values.get((curve, variant)) for variant in variants]
        rows.append([curve, *(cell(value.values()) if value else "-" for value in found)])
    if len(variants) > MOST_COLUMNS:
        rows[0][0] = "variant"
        return [list(column) for column in zip(*rows, strict=True)]
    return rows


def _end(runs: list[list[Any]], form: str) -> str:
    """Return the mean in the last round in which every run has a value."""
    for values in reversed(list(zip(*runs, strict=False))):
        if all(value is not None for value in values):
            return interval(values).words(form)
    return "-"
