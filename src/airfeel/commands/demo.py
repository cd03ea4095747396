"""``airfeel demo``: see it work in two minutes."""

import logging
import os
import shlex
import shutil
import sys
from pathlib import Path

from airfeel.commands import check_counts, show

_log = logging.getLogger("airfeel")

# What follows the name of the command, and why.
_NEXT = {
    "run --set scheme=scheduled --set uplink.ratio=0.02": "fifty times fewer symbols, one run",
    "reproduce fig5a --quick": "a figure of the paper; list names all",
    "config > mine.toml": "every setting there is, as a file to edit",
}


def demo(
    *,
    rounds: int | None = None,
    seeds: int | None = None,
    workers: int | None = None,
    out: Path = Path("results/demo"),
) -> None:
    """Train on real data with and without memory, print what came out and write a page: about two minutes.

    25 devices train softmax regression on MNIST over a noisy channel, once without radio, with our own
    scheme, TSA-GA, two ablations of it, and two rivals. Needs the extra "report". Killed or interrupted, the
    same command computes only what is missing.

    Example: airfeel demo

    Parameters
    ----------
    rounds
        Rounds of every run; unset: 300.
    seeds
        Number of seeds; unset: 3.
    workers
        Number of processes; unset: one for each core.
    out
        Folder for runs, tables and the page.
    """
    from airfeel.commands._many import compute
    from airfeel.lab.plan import shipped
    from airfeel.lab.report import write_report
    from airfeel.lab.table import Results
    from airfeel.lab.words import headline, opening, short_table, text_table
    from airfeel.learning.datasets import load_dataset

    check_counts(rounds=rounds, seeds=seeds, workers=workers)
    experiment = shipped("demo").shortened(rounds, seeds)
    load_dataset("mnist")  # once, before several processes ask for it
    results, begun = compute([experiment], out, workers=workers)
    found = Results(results).of(begun[0])
    written = write_report(out, told=_log.info)
    show(f"\n{opening(found)}\n{headline(found)}\n\n{text_table(short_table(found))}\n")
    show(f"Page with figures: {written.page}\n\nTo try next:")
    width = max(map(len, _NEXT))
    show(*(f"  {_program()} {words:<{width}}  # {why}" for words, why in _NEXT.items()))


def _program() -> str:
    """Return how to call this command: by its path where no shell would find it, as after make demo."""
    if shutil.which("airfeel"):
        return "airfeel"
    return shlex.quote(os.path.relpath(Path(sys.executable).with_name("airfeel")))
