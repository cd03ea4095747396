"""``airfeel plan``: questions before a system is built, answered by trial trainings."""

import shlex
from dataclasses import asdict
from typing import Annotated

from airfeel.commands import HERE, WHOLE, Computing, Settings, Whole, check_counts, load, log, show


def plan(
    config: str = "",
    /,
    *,
    settings: Settings = None,
    target_accuracy: float | None = None,
    within_rounds: Whole = None,
    within_seconds: float | None = None,
    within_joules: float | None = None,
    vary: str = "",
    schemes: str = "",
    seeds: Annotated[int, WHOLE] = 4,
    computing: Computing = HERE,
) -> None:
    """Answer a question by trial trainings: how long, how well, with what value of a key, with which scheme.

    The first line is the answer, with an interval in which one more training lies with 98 %. Trials are
    ordinary runs: killed or interrupted, the same command goes on, and airfeel report makes a page.

    Example: airfeel plan --target-accuracy 0.85 --set scheme=scheduled --set uplink.ratio=0.04

    Parameters
    ----------
    config
        A TOML file; airfeel config prints one with every key.
    settings
        key=value, such as radio.bandwidth_hz=1e6; may be given several times and wins over the file.
    target_accuracy
        How long until this accuracy, such as 0.85: rounds, and with a table [radio] seconds and joules.
    within_rounds
        What accuracy is reached in so many rounds; with a target, it must be reached in them.
    within_seconds
        The same in so many seconds of uplink and downlink together.
    within_joules
        The same with so many joules of the device that spends most.
    vary
        key=low:high, such as radio.tx_power_dbm=0:30: the smallest or largest value that reaches the target.
    schemes
        Which of these takes least, such as scheduled,tsa_ga_tuned,d_dsgd.
    seeds
        Trainings of each setting; a search tries values on half of them and confirms on the others.
    """
    from airfeel.config import parse_override
    from airfeel.lab.answers import plan as answer
    from airfeel.lab.words import text_table

    check_counts(workers=computing.workers)
    if "=" in config:
        load(config, settings)  # which says what was meant
    found = answer(
        config or None,
        target_accuracy=target_accuracy,
        within_rounds=within_rounds,
        within_seconds=within_seconds,
        within_joules=within_joules,
        vary=vary,
        schemes=schemes,
        seeds=seeds,
        **asdict(computing),
        **dict(parse_override(setting) for setting in settings or []),
    )
    show(found.text)
    if computing.dry_run:
        return
    heading = max((list(row) for row in found.table), key=len)
    rows = [[_cell(row.get(key)) for key in heading] for row in found.table]
    show("", text_table([heading, *rows]))
    page = ["airfeel", "report", str(computing.out)]
    page += [] if target_accuracy is None else ["--target-accuracy", f"{target_accuracy:g}"]
    log.info(f"as a page with figures: {shlex.join(page)}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
