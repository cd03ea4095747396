"""``airfeel run``, ``demo``, ``reproduce`` and ``sweep``: one run or many, crash-safe and resumable."""

import logging
import os
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from airfeel.commands import (
    HERE,
    Computing,
    Flag,
    Settings,
    Whole,
    carry_out_all,
    check_counts,
    load,
    log,
    show,
)

if TYPE_CHECKING:
    from airfeel.config import Config
    from airfeel.lab.plan import ResultsFolder
    from airfeel.lab.runner import Outcome
    from airfeel.lab.store import FinishedRun


_SAID = ("accuracy", "symbols", "rounds_diverged", "rounds_at_limit")  # of a summary
_DEMO = ("demo", "demo-half")
# What to try after the demo: what follows the name of the command, and why.
_NEXT = {
    "run --set uplink.ratio=0.01": "a hundred times fewer symbols, one run",
    "list": "all schemes, channels, models, data sets, experiments",
    "config > mine.toml": "every setting there is, as a file to edit",
}


def run(
    config: str = "",
    /,
    *,
    settings: Settings = None,
    out: Path = Path("results"),
    force: Flag = False,
) -> None:
    """Train one model over the air, by default with our own scheme on MNIST, and print the run's folder.

    The last line says what came out, also against error-free training (scheme=dense) with the same settings
    where such a run is in the same folder, what it cost and what to do next.

    Killed or interrupted, the same command continues where it was. A finished run is not repeated.

    Example: airfeel run --set uplink.ratio=0.04 --set rounds=100

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
    log.info(f"{loaded.scheme} on {loaded.dataset}, {loaded.rounds} rounds: {run_path(loaded, out)}")
    shown = progress.choose(log.isEnabledFor(logging.INFO))
    with stop_asked(at_once=True) as stop:
        outcome = execute(loaded, out, force=force, progress=shown, stop=stop)
    if outcome.summary is None:
        again = ["airfeel", "run", *([config] if config else [])]
        again += [word for setting in settings or [] for word in ("--set", setting)] + ["--out", str(out)]
        raise KeyboardInterrupt(
            f"stopped after round {outcome.round} of {loaded.rounds}; to continue: {shlex.join(again)}"
        )
    results = ResultsFolder(out)
    write_results(results)
    for note in outcome.notes:
        log.warning(note)
    show(outcome.folder)
    log.info(_ending(loaded, outcome, results))


def _ending(config: "Config", outcome: "Outcome", results: "ResultsFolder") -> str:
    """Return in one line what came out, what it cost, where it is and what to do next."""
    summary = outcome.summary or {}
    # A damaged one may have lost some.
    accuracy, symbols, diverged, limited = map(summary.get, _SAID)
    words = [f"{config.scheme}: {config.rounds} rounds"]
    run = results.run(outcome.folder.name)
    if accuracy is not None:
        words[0] += f", accuracy {accuracy:.4f}"
        ideal = None if run is None else _without_radio(run, results)
        if ideal is not None:
            lost = 100 * (ideal - accuracy)
            words.append(f"{abs(lost):.2f} points {'above' if lost < 0 else 'below'} error-free training")
    if symbols:
        words.append(f"{symbols:,} symbols")
    if run is not None and run.seconds:
        words.append(f"{sum(run.seconds.values()):.3g} s")
    for count, what in ((diverged, "diverged"), (limited, "ended at the iteration limit")):
        if count:
            words.append(f"{count} of the rounds {what}")
    if not outcome.computed:
        words.append("finished before, not repeated (--force computes it again)")
    page = shlex.join(["airfeel", "report", str(results.path)])
    return f"{', '.join(words)}; in {outcome.folder}; for a page with figures: {page}"


def _without_radio(run: "FinishedRun", results: "ResultsFolder") -> float | None:
    """Return the accuracy of whole, or else sparse, updates without radio that differ in nothing else."""
    from airfeel.lab.store import WITHOUT_RADIO

    for scheme in WITHOUT_RADIO:
        for label in results.labels():
            ideal = results.run(label) if label.startswith(f"{scheme}-") else None
            if ideal is None or ideal is run or ideal.settings["scheme"] != scheme:
                continue
            if run.is_like(ideal) and ideal.summary.get("accuracy") is not None:
                return float(ideal.summary["accuracy"])
    return None


def demo(
    *,
    rounds: Whole = None,
    seeds: Whole = None,
    workers: Whole = None,
    out: Path = Path("results/demo"),
) -> None:
    """Train on real data over a noisy channel, print what came out and write a page: about two minutes.

    25 devices train softmax regression on MNIST with 25 times fewer symbols than weights: without radio, with
    our own scheme, and with three rivals; then the same with half of the devices and two digits each. Needs
    the extra "report". Killed or interrupted, the same command computes only what is missing.

    Example: airfeel demo

    Parameters
    ----------
    rounds
        Rounds of every run; unset: 100.
    seeds
        Number of seeds; unset: 3.
    workers
        Number of processes; unset: one for each core.
    out
        Folder for runs, tables and the page.
    """
    from airfeel.lab.api import compute
    from airfeel.lab.charts import vega_lite_version
    from airfeel.lab.plan import shipped
    from airfeel.lab.report import write_report
    from airfeel.lab.table import Results
    from airfeel.lab.words import headline, opening, short_table, text_table
    from airfeel.learning.datasets import load_dataset

    check_counts(rounds=rounds, seeds=seeds, workers=workers)
    vega_lite_version()  # without the extra this is refused now, and not after the training
    experiments = [shipped(name).shortened(rounds, seeds) for name in _DEMO]
    load_dataset("mnist")  # once, before several processes ask for it
    results, begun = compute(experiments, out, workers=workers)
    read = Results(results)
    found = [read.of(one) for one in begun]
    written = write_report(out, told=log.info)
    show(f"\n{_broken(opening(found[0]))}")
    show(*(f"\n{_broken(headline(one))}\n\n{text_table(short_table(one))}" for one in found))
    show(f"\nPage with figures: {written.page}\n\nTo try next:")
    width = max(map(len, _NEXT))
    # By its path where no shell would find it, as after make demo.
    path = shlex.quote(os.path.relpath(Path(sys.executable).with_name("airfeel")))
    program = "airfeel" if shutil.which("airfeel") else path
    show(*(f"  {program} {words:<{width}}  # {why}" for words, why in _NEXT.items()))


def _broken(text: str) -> str:
    """Return lines of at most 100 characters, in which a number keeps its per cent sign."""
    return textwrap.fill(text.replace(" %", "\xa0%"), 100, break_on_hyphens=False).replace("\xa0", " ")


def reproduce(
    names: Annotated[list[str], Parameter(negative=())],
    /,
    *,
    quick: Flag = False,
    rounds: Whole = None,
    seeds: Whole = None,
    computing: Computing = HERE,
) -> None:
    """Compute figures of the paper, and some beyond it, and print the table with the results.

    Killed or interrupted, the same command computes only what is missing; runs that several figures share
    are computed once. Then make a page with: airfeel report.

    Example: airfeel reproduce fig5a --quick

    Parameters
    ----------
    names
        Which ones; airfeel list shows them. all stands for every figure of the paper,
        rivals for the comparisons of all schemes.
    quick
        A first look: 50 rounds and 3 seeds.
    rounds
        Rounds of every run.
    seeds
        Number of seeds.
    """
    from airfeel.lab.plan import QUICK_ROUNDS, QUICK_SEEDS, select

    check_counts(rounds=rounds, seeds=seeds, workers=computing.workers)
    if quick:
        rounds, seeds = rounds or QUICK_ROUNDS, seeds or QUICK_SEEDS
    carry_out_all([experiment.shortened(rounds, seeds) for experiment in select(names)], computing)


def sweep(file: Path, /, *, computing: Computing = HERE) -> None:
    """Compute every combination of configuration keys and seeds in an experiment file.

    Killed or interrupted, the same command computes only what is missing. A failing run does not stop the
    others; it is reported, and the exit code is 1.

    Example: airfeel sweep power.toml

    Parameters
    ----------
    file
        A TOML file with base, grid and seeds; the guide explains it.
    """
    from airfeel.lab.plan import read_experiment

    check_counts(workers=computing.workers)
    carry_out_all([read_experiment(file)], computing)
