"""``airfeel inspect``: does the Markov model fit the gradients of a run?"""

import json as encoding
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airfeel._timing import Timer
from airfeel.commands import Flag, log, show

if TYPE_CHECKING:
    from airfeel.lab.studies.recorded import Recorded


def inspect(
    run: Path,
    /,
    *,
    ratio: float | None = None,
    snr_db: float | None = None,
    sparsity: float | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Show whether the receiver's model fits the aggregates of a run, and what memory gains there.

    The run must have kept its aggregates: airfeel run --set run.record_aggregates=true. Gradients of your own
    are an .npy file (rounds, N). Figures need the extra "report"; the numbers do not.

    Example: airfeel inspect results/runs/tsa_ga-0123456789ab

    Example: airfeel inspect grads.npy --ratio 0.1 --snr-db 20 --sparsity 0.2

    Parameters
    ----------
    run
        The folder of a run, or an .npy file of gradients.
    ratio
        s/N at which gradients of a file are sent, 0.1 by default.
    snr_db
        Receive SNR per symbol for gradients of a file, 20 by default.
    sparsity
        Share of the entries that a device keeps of a file's gradients, with error feedback; by default all.
    out
        Folder for figures and inspection.json; by default "inspection" inside the run's folder, or beside the
        file.
    json
        Print one JSON object in place of the table.
    """
    from airfeel._files import remove_abandoned, write_atomically
    from airfeel.lab.studies.inspection import compare_receivers, draw_inspection, numbers, table, verdict
    from airfeel.lab.studies.recorded import statistics

    folder = _place(run) if out is None else out
    log.info(f"reading {run}")
    recorded = _recorded(run, {"ratio": ratio, "snr_db": snr_db, "sparsity": sparsity})
    found, rounds = statistics(recorded.aggregates), len(recorded.aggregates)
    log.info(f"recovering {rounds} recorded aggregates with and without memory")
    timer = Timer(rounds)
    recovery = compare_receivers(
        recorded, found.chain, lambda round: timer.tell(round, log.info, f"round {round} of {rounds}")
    )
    facts = numbers(recorded, found, recovery)
    facts["verdict"] = verdict(facts)
    folder.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder)
    text = encoding.dumps(facts, indent=2)
    write_atomically(folder / "inspection.json", f"{text}\n".encode())
    with suppress(BrokenPipeError):  # a reader that leaves early may still want the figures
        show(text if json else f"{table(facts)}\n\n{textwrap.fill(facts['verdict'], 100)}")
    log.info("drawing figures")
    try:
        drawings = draw_inspection(recorded, found, recovery)
    except ImportError as error:
        log.warning(f"no figures: {error}")
        return
    for drawing in drawings:
        for path in drawing.save(folder / drawing.figure.name):
            log.info(f"wrote {path}")


def _place(run: Path) -> Path:
    """Return where the inspection of a run, or of a file, is written."""
    from airfeel._files import below

    place = run.absolute()
    if place.parent.name == "runs":  # below a results folder, which is all that a user has chosen
        below(place.parents[1], "runs", place.name)
    return below(run.with_suffix("") if run.is_file() else run, "inspection")


def _recorded(run: Path, given: dict[str, float | None]) -> "Recorded":
    """Read a run, or a file of gradients with the link that it is to be sent over."""
    from airfeel.lab.studies.recorded import read_gradients, read_recorded

    known = {key: value for key, value in given.items() if value is not None}
    if run.suffix == ".npy":
        return read_gradients(run, **({"ratio": 0.1, "snr_db": 20.0} | known))
    for key in known:
        name = key.replace("_", "-")
        raise ValueError(f"--{name}: must be given only with an .npy file, as a run has its own")
    return read_recorded(run)
