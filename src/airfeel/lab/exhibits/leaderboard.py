"""A leaderboard: what every scheme loses, beside what it sends, carries and is told."""

from collections.abc import Iterator

from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.exhibits.finals import NONE, cell
from airfeel.lab.plan import FigureSpec
from airfeel.lab.store import FinishedRun
from airfeel.lab.table import Line, RunSelection
from airfeel.registry import SCHEMES

NUMBER = 32  # bits of a number where a scheme has no messages of its own
HEADING = ["scheme", "", "seeds", "accuracy (%)", "points lost", "symbols", "bits", "carried", "told"]
NOTE = (
    "Mean over the last tenth of the rounds with its interval of 95 %; points are lost against training "
    "without radio, seed by seed. Symbols are channel uses of a round, bits what one device sends in it: 32 "
    "for a symbol where devices superpose, else its message (of a scheme that shares the air, the symbols "
    "over all devices). Carried are bytes on a device from round to round; told are numbers of 32 bits that "
    "every device hears before a round, beside the model."
)


@EXHIBITS.register("leaderboard", place=5)
def leaderboard(shown: RunSelection, spec: FigureSpec) -> Iterator[TextTable]:
    """Every scheme by what it loses, the least first; under every circumstance for itself."""
    yield TextTable("Leaderboard", leaderboard_rows(shown), f"{NOTE} {spec.caption}".strip(), "first")


def leaderboard_rows(shown: RunSelection) -> list[list[str]]:
    """Return a heading and one row for each curve and variant that is there."""
    gaps, finals = shown.gaps(), shown.ends("final")

    def place(line: Line) -> tuple[int, float]:
        lost = gaps.get(line)
        first = -100.0 if line[0] == shown.ideal else 100.0
        return shown.variants.index(line[1]), sum(lost.values()) / len(lost) if lost else first

    rows = [HEADING]
    for line in sorted((line for line in shown.lines if finals[line]), key=place):
        runs = list(shown.lines[line].values())
        reached, lost = (cell(of.values()) if of else NONE for of in (finals[line], gaps.get(line)))
        rows.append([line[0], line[1], str(len(runs)), reached, lost, *_costs(runs[0])])
    return rows


def _costs(run: FinishedRun) -> list[str]:
    """Return the means over rounds of symbols, bits and numbers told, and what a device carries."""
    symbols, message, carried, told = (
        [value or 0 for value in run.rows.values(key)]
        for key in ("symbols", "message_bytes", "state_bytes", "downlink")
    )
    each, rounds = symbols[-1] / len(symbols), len(message)
    name = run.settings.get("scheme")
    part = SCHEMES.get(name).kind if SCHEMES.is_built_in(name) else None
    superposes = getattr(part, "superposes", True)
    bits = 8 * sum(message) / rounds or (NUMBER * each if superposes else None)
    cells = [each or None, bits, max(carried) or None, sum(told) / rounds]
    return [NONE if value is None else f"{value:,.0f}" for value in cells]
