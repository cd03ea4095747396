"""``airfeel reproduce``: figures of the paper, and some beyond it."""

from typing import Annotated

from cyclopts import Parameter

from airfeel.commands import HERE, Computing, Flag, check_counts


def reproduce(
    names: Annotated[list[str], Parameter(negative=())],
    /,
    *,
    quick: Flag = False,
    rounds: int | None = None,
    seeds: int | None = None,
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
    from airfeel.commands._many import carry_out_all
    from airfeel.lab.plan import QUICK_ROUNDS, QUICK_SEEDS, select

    check_counts(rounds=rounds, seeds=seeds, workers=computing.workers)
    if quick:
        rounds, seeds = rounds or QUICK_ROUNDS, seeds or QUICK_SEEDS
    carry_out_all([experiment.shortened(rounds, seeds) for experiment in select(names)], computing)
