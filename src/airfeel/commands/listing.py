"""``airfeel list``: the words that commands and configurations use."""

from collections.abc import Mapping

from airfeel.config.schemes import SCHEMES
from airfeel.experiments.campaigns.plan import BEYOND, PAPER, shipped
from airfeel.learning.sources import CATALOGUE

CHANNELS = {
    "gaussian": "all signals add up, with white noise (6)",
    "fading": "complex gains per device and round, truncated inversion at the devices",
}


def listing() -> None:
    """Show schemes, figures, data sets and channels by the names that commands and configurations use.

    Example: airfeel list
    """
    _print("schemes (scheme = ...)", {name: scheme.summary for name, scheme in SCHEMES.items()})
    _print("figures of the paper (airfeel reproduce ...)", {name: shipped(name).title for name in PAPER})
    _print("beyond the paper (airfeel reproduce ...)", {name: shipped(name).title for name in BEYOND})
    _print(
        "data sets (dataset = ..., or a folder of idx files)",
        {d.name: d.description for d in CATALOGUE.values()},
    )
    _print("channels (channel.kind = ...)", CHANNELS)


def _print(heading: str, entries: Mapping[str, str]) -> None:
    print(heading)
    for name, summary in entries.items():
        print(f"  {name:<20} {summary}")
