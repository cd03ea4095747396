"""``airfeel sweep``: an experiment of one's own."""

from pathlib import Path

from airfeel.commands import HERE, Computing, check_counts


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
    from airfeel.commands._many import carry_out_all
    from airfeel.lab.plan import read_experiment

    check_counts(workers=computing.workers)
    carry_out_all([read_experiment(file)], computing)
