"""``airfeel list``: the words that commands and configurations use."""

from collections.abc import Mapping

from airfeel.commands import show


def list() -> None:
    """Show schemes, figures, data sets and all other parts by the names that configurations use.

    Example: airfeel list
    """
    from airfeel.lab.figures import BEYOND, PAPER, title
    from airfeel.registry import DATASETS, SEAMS

    schemes, *others = (
        (f"{registry.title} ({registry.key} = ...)", registry.summaries()) for registry in SEAMS.values()
    )
    _show(*schemes)
    _show("figures of the paper (airfeel reproduce ...)", {name: title(name) for name in PAPER})
    _show("beyond the paper (airfeel reproduce ...)", {name: title(name) for name in BEYOND})
    _show("data sets (dataset = ..., or files of your own)", DATASETS.summaries())
    for parts in others:
        _show(*parts)
    show("Your own, wherever a name stands: package.module:Name. Options of each: airfeel config.")


def _show(heading: str, entries: Mapping[str, str]) -> None:
    show(heading, *(f"  {name:<20} {summary}" for name, summary in entries.items()))
