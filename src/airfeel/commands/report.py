"""``airfeel report``: a page and figures from results."""

from pathlib import Path

from airfeel._checks import visible
from airfeel.commands import Flag, log, show


def report(
    folder: Path = Path("results"),
    /,
    *,
    target_accuracy: float | None = None,
    csv: Flag = False,
) -> None:
    """Write an HTML page, figures (PNG, SVG, PDF) and tables from the runs in a results folder.

    The page is one file that opens without a network. Runs that differ only in their seed become one curve
    with a 95 % confidence band. Needs the extra "report".

    Example: airfeel report results

    Parameters
    ----------
    folder
        What --out of the training command was.
    target_accuracy
        Tell for every curve how many rounds, symbols, seconds on air and joules it takes to reach this
        accuracy, such as 0.8.
    csv
        Only the tables: results.csv with a line for each round, runs.csv with a line for each run.
    """
    from airfeel.lab.plan import ResultsFolder
    from airfeel.lab.results import write_results, write_runs

    if csv:
        results = ResultsFolder(folder)
        if not results.labels():
            raise ValueError(f"{folder}: has no run under {folder / 'runs'}")
        show(write_results(results), write_runs(results))
        return
    from airfeel.lab.claims import claims_table, score
    from airfeel.lab.report import write_report
    from airfeel.lab.words import text_table

    written = write_report(folder, target_accuracy=target_accuracy, told=log.info)
    for note in written.left_out:
        log.warning(note)
    for chapter in written.chapters:
        show(visible(chapter.title), *([chapter.missing] if chapter.missing else []))
        for table in chapter.section("first", "tables"):
            show(f"\n{table.title}\n{text_table(table.rows)}")
        show()
    if written.verdicts:
        show(
            f"Claims of the paper\n{text_table(claims_table(written.verdicts))}\n{score(written.verdicts)}\n"
        )
    show(written.page, *written.data, *written.images)
