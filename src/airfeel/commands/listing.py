"""``airfeel list``: the words that commands and configurations use."""

from collections.abc import Mapping

from airfeel.commands import show
from airfeel.lab.plan import BEYOND, PAPER, shipped
from airfeel.registry import DATASETS, SEAMS, Registry


def listing() -> None:
    """Show schemes, figures, data sets and all other parts by the names that configurations use.

    Example: airfeel list
    """
    schemes, *others = (
        (f"{registry.title} ({registry.key} = ...)", _summaries(registry)) for registry in SEAMS.values()
    )
    _show(*schemes)
    _show("figures of the paper (airfeel reproduce ...)", {name: shipped(name).title for name in PAPER})
    _show("beyond the paper (airfeel reproduce ...)", {name: shipped(name).title for name in BEYOND})
    _show("data sets (dataset = ..., or files of your own)", _summaries(DATASETS))
    for parts in others:
        _show(*parts)
    show("Your own, wherever a name stands: package.module:Name. Options of each: airfeel config.")


def _summaries(registry: Registry) -> dict[str, str]:
    return {part.name: part.summary for part in registry.parts()}


def _show(heading: str, entries: Mapping[str, str]) -> None:
    show(heading, *(f"  {name:<20} {summary}" for name, summary in entries.items()))
