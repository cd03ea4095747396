"""``airfeel list``: the words that commands and configurations use."""

from collections.abc import Mapping

from airfeel.experiments.campaigns.experiment_files import BEYOND, PAPER, shipped
from airfeel.registry import CHANNELS, DATASETS, MODELS, SCHEMES, Registry


def listing() -> None:
    """Show schemes, figures, data sets, channels and models by the names that configurations use.

    Example: airfeel list
    """
    _print("schemes (scheme = ...)", _summaries(SCHEMES))
    _print("figures of the paper (airfeel reproduce ...)", {name: shipped(name).title for name in PAPER})
    _print("beyond the paper (airfeel reproduce ...)", {name: shipped(name).title for name in BEYOND})
    _print("data sets (dataset = ..., or files of your own)", _summaries(DATASETS))
    _print("channels (channel.kind = ...)", _summaries(CHANNELS))
    _print("models (model.kind = ...)", _summaries(MODELS))
    print("Your own, wherever a name stands: package.module:Name. Options of each: airfeel config.")


def _summaries(registry: Registry) -> dict[str, str]:
    return {part.name: part.summary for part in registry.parts()}


def _print(heading: str, entries: Mapping[str, str]) -> None:
    print(heading)
    for name, summary in entries.items():
        print(f"  {name:<20} {summary}")
