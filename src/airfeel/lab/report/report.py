"""From a folder of results to a page one can open, send and print. Needs the extra ``report``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airfeel._files import Unreadable, below, write_atomically
from airfeel._timing import Timer
from airfeel.lab.collect import Collected, collect
from airfeel.lab.figures import SHIPPED
from airfeel.lab.folder import Begun, ResultsFolder
from airfeel.lab.plan import shipped
from airfeel.lab.report import page
from airfeel.lab.report.claims import Verdict, judge, to_json
from airfeel.lab.report.costs import campaign, cost_table
from airfeel.lab.report.curves import UNITS
from airfeel.lab.report.environment import environment
from airfeel.lab.report.exhibits import AnyDrawing, Exhibit, show_experiment, show_loose
from airfeel.lab.report.groups import Group, group_runs, read_runs
from airfeel.lab.report.means import average
from airfeel.lab.report.reaching import check_target, of_experiment, of_groups, with_costs
from airfeel.lab.report.receptions import ENDINGS, ending_cells
from airfeel.lab.results import write_results
from airfeel.lab.runs_table import write_runs
from airfeel.lab.store import RunError, edited_between

COLUMNS = {
    "accuracy": "accuracy",
    "loss": "loss",
    "nmse_db": "NMSE (dB)",
    "cumulative_nmse_db": "cumulative NMSE (dB)",
}
"""of the table of single runs, by metric"""


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, and what the page shows."""

    page: Path
    data: Sequence[Path]
    images: Sequence[Path]
    exhibits: Sequence[Exhibit]
    verdicts: Sequence[Verdict]
    left_out: Sequence[str]


def write_report(
    folder: Path,
    title: str = "airfeel results",
    target_accuracy: float | None = None,
    told: Callable[[str], None] = lambda words: None,
) -> Report:
    """Write page, tables, verdicts on claims, and figures as PNG and SVG into a results folder.

    They are ``report.html``, ``results.csv``, ``claims.json`` and ``figures/``.

    Parameters
    ----------
    folder
        Holds ``runs/<name>-<hash>/`` as written by every command that trains, and ``experiments/<name>.toml``
        for the experiments that were begun. Runs that differ only in their seed become one curve: their mean,
        with a 95 % confidence band.
    title
        The page's heading.
    target_accuracy
        Tell for every curve what it takes to reach it.
    told
        Hears now and then how far it is.
    """
    target = check_target(target_accuracy)
    results = ResultsFolder(folder)
    if results.labels():
        told(f"reading the runs in {folder}")
    begun, unknown = results.experiments()
    runs, left_out = read_runs(results, {member.label for one in begun for member in one.members})
    left_out += unknown
    found = [run for label in results.labels() if (run := results.run(label)) is not None]
    left_out += edited_between(run.settings for run in found)
    collected = [collect(one, results) for one in sorted(begun, key=_place)]
    exhibits = show_all(collected, group_runs(runs), target)
    verdicts = judge({one.experiment.name: one for one in collected if in_full(one)})
    with _explained(folder):
        below(folder, "figures").mkdir(exist_ok=True)
        drawings = [drawing for exhibit in exhibits for drawing in exhibit.drawings]
        images = _drawn(drawings, folder / "figures", told)
        told("writing the page")
        data = [
            write_results(results, told=lambda note: None),
            write_runs(results),
        ]  # the page says what is amiss
        content = page.Content(
            title=title,
            exhibits=exhibits,
            verdicts=verdicts,
            costs=cost_table(collected) if collected else [],
            campaign=campaign(folder),
            environment=environment(),
            notes=left_out,
        )
        if verdicts:
            data.append(folder / "claims.json")
            write_atomically(data[-1], to_json(verdicts).encode())
        write_atomically(folder / "report.html", page.render(content).encode())
    return Report(folder / "report.html", data, images, exhibits, verdicts, left_out)


def _drawn(drawings: Sequence[AnyDrawing], folder: Path, told: Callable[[str], None]) -> list[Path]:
    """Write the figures; say how many there are, and now and then how many are done."""
    told("drawing the figures")
    images: list[Path] = []
    timer = Timer(len(drawings))
    for done, drawing in enumerate(drawings, 1):
        images += drawing.save(folder / drawing.figure.name)
        timer.tell(done, told, f"figure {done} of {len(drawings)} is drawn")
    return images


def show_all(
    collected: Sequence[Collected], groups: Sequence[Group], target: float | None = None
) -> list[Exhibit]:
    """Return the parts of the page, no two figures with the same name."""
    exhibits: list[Exhibit] = []
    if groups:
        exhibits.append(with_costs(show_loose(groups, summary_table(groups)), of_groups(groups), target))
    for one in collected:
        taken = {drawing.figure.name for exhibit in exhibits for drawing in exhibit.drawings}
        exhibits.append(with_costs(show_experiment(one, taken), of_experiment(one), target))
    return [*exhibits[1:], exhibits[0]] if groups else exhibits


def in_full(collected: Collected) -> bool:
    """Whether a shipped experiment is complete, as long as it is shipped and with as many seeds.

    The paper's claims, and the notes on them, are about these sizes: nothing less can decide them.
    """
    found = collected.experiment
    if collected.missing or found.name not in SHIPPED:
        return False
    whole = shipped(found.name)
    return found.rounds == whole.rounds and len(found.seeds) >= len(whole.seeds)


def summary_table(groups: Sequence[Group]) -> list[list[str]]:
    """Return the last round of every group as rows of text, the first row being the heading.

    Rounds that diverged or ended at the iteration limit are counted over all rounds and seeds.
    """
    rows = [["scheme", "seeds", "rounds", *COLUMNS.values(), *ENDINGS[:2], "symbols"]]
    rows[0] += [words for key, words in UNITS.items() if any(key in g.runs[0].rows[-1] for g in groups)]
    for group in groups:
        last = group.runs[0].rows[-1]
        cells = [_cell(group, metric, ".1f" if metric.endswith("_db") else ".4f") for metric in COLUMNS]
        cells += ending_cells(run.rows for run in group.runs)[:2]
        uses = last.get("symbols")
        shown = "-" if uses is None else f"{uses:,}"
        units = [_cell(group, key, ".3g") for key, words in UNITS.items() if words in rows[0]]
        rows.append([group.label, str(len(group.runs)), str(last["round"]), *cells, shown, *units])
    return rows


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn a full disk and its like into one sentence; no file is written by halves."""
    try:
        yield
    except Unreadable:
        raise
    except OSError as error:
        where, reason = error.filename or folder, error.strerror or error
        raise RunError(
            f"cannot write the report to {where}: {reason}; every file is whole or as it was before, "
            "and the same command writes them all again"
        ) from error


def _place(begun: Begun) -> tuple[int, str]:
    """Return the place of an experiment on the page: the paper's figures first, one's own sweeps last."""
    name = begun.experiment.name
    return SHIPPED.index(name) if name in SHIPPED else len(SHIPPED), name


def _cell(group: Group, metric: str, form: str) -> str:
    means = average([run.rows for run in group.runs], metric)
    return means[-1].words(form) if means else "-"
