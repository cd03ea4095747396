"""``airfeel run``: one training run, crash-safe and resumable."""

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from airfeel.commands import Flag, Settings, load, show

if TYPE_CHECKING:
    from airfeel.config import Config
    from airfeel.lab.runner import Outcome

_log = logging.getLogger("airfeel")

_SAID = ("accuracy", "mean_nmse_db", "cumulative_nmse_db", "rounds_diverged", "rounds_at_limit")


def run(
    config: str = "",
    /,
    *,
    settings: Settings = None,
    out: Path = Path("results"),
    force: Flag = False,
) -> None:
    """Train one model over the air, by default with TSA-GA on MNIST, and print the run's folder.

    Killed or interrupted, the same command continues where it was. A finished run is not repeated.

    Example: airfeel run --set scheme=a_dsgd --set rounds=50

    Parameters
    ----------
    config
        A TOML file; airfeel config prints one with every key.
    settings
        key=value, such as uplink.ratio=0.04; may be given several times and wins over the file.
    out
        Folder for runs and tables.
    force
        Compute a finished run again.
    """
    from airfeel.lab import progress
    from airfeel.lab.plan import ResultsFolder
    from airfeel.lab.results import write_results
    from airfeel.lab.rundir import run_path
    from airfeel.lab.runner import execute, stop_asked

    loaded = load(config, settings)
    _log.info(f"{loaded.scheme} on {loaded.dataset}, {loaded.rounds} rounds: {run_path(loaded, out)}")
    shown = progress.choose(_log.isEnabledFor(logging.INFO))
    with stop_asked(at_once=True) as stop:
        outcome = execute(loaded, out, force=force, progress=shown, stop=stop)
    if outcome.summary is None:
        again = ["airfeel", "run", *([config] if config else [])]
        again += [word for setting in settings or [] for word in ("--set", setting)] + ["--out", str(out)]
        raise KeyboardInterrupt(
            f"stopped after round {outcome.round} of {loaded.rounds}; to continue: {shlex.join(again)}"
        )
    table = write_results(ResultsFolder(out))
    _report(loaded, outcome, table)
    show(outcome.folder)


def _report(config: "Config", outcome: "Outcome", table: Path) -> None:
    """Say in one line how the run ended."""
    summary = outcome.summary or {}
    # A damaged one may have lost some.
    accuracy, nmse, total, diverged, limited = map(summary.get, _SAID)
    words = [f"{config.scheme}: {config.rounds} rounds"]
    if accuracy is not None:
        words.append(f"accuracy {accuracy:.4f}")
    if nmse is not None:
        words.append(f"mean NMSE {nmse:.1f} dB")
    if total is not None:
        words.append(f"cumulative NMSE {total:.1f} dB")
    if diverged is not None and limited is not None:
        words.append(f"rounds that diverged {diverged}, at the iteration limit {limited}")
    if not outcome.computed:
        words.append("finished before, not repeated (--force computes it again)")
    _log.info(", ".join(words))
    for note in outcome.notes:
        _log.warning(note)
    _log.info(
        f"table of all runs: {table}; as a page: {shlex.join(['airfeel', 'report', str(table.parent)])}"
    )
