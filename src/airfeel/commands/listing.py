"""``airfeel list``: the words that commands and configurations use."""

from collections.abc import Mapping

from airfeel.commands import show
from airfeel.experiments.campaigns.experiment_files import BEYOND, PAPER, shipped
from airfeel.registry import CHANNELS, DATASETS, MODELS, SCHEMES, Registry


def listing() -> None:
    """Show schemes, figures, data sets, channels and models by the names that configurations use.

    Example: airfeel list
    """
    _show("schemes (scheme = ...)", _summaries(SCHEMES))
    _show("figures of the paper (airfeel reproduce ...)", {name: shipped(name).title for name in PAPER})
    _show("beyond the paper (airfeel reproduce ...)", {name: shipped(name).title for name in BEYOND})
    _show("data sets (dataset = ..., or files of your own)", _summaries(DATASETS))
    _show("channels (channel.kind = ...)", _summaries(CHANNELS))
    _show("models (model.kind = ...)", _summaries(MODELS))
    show("Your own, wherever a name stands: package.module:Name. Options of each: airfeel config.")


def _summaries(registry: Registry) -> dict[str, str]:
    return {part.name: part.summary for part in registry.parts()}


def _show(heading: str, entries: Mapping[str, str]) -> None:
    show(heading, *(f"  {name:<20} {summary}" for name, summary in entries.items()))
