"""``airfeel config``, ``data`` and ``list``: what can be set, to which words, and on which data."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airfeel.commands import Settings, load, log, show

if TYPE_CHECKING:
    from airfeel.config import Config

_SHOWN = 50  # devices in the table


def config(config: str = "", /, *, settings: Settings = None) -> None:
    """Print the complete, validated configuration as TOML, and on stderr the classes of every device.

    Example: airfeel config --set partition.kind=classes --set partition.classes=2 > mine.toml

    Parameters
    ----------
    config
        A TOML file; without one the defaults.
    settings
        key=value, such as uplink.ratio=0.04; may be given several times and wins over the file.
    """
    loaded = load(config, settings)
    table = _table(loaded)  # a mistake in the data is one under --quiet too
    show(loaded.template().removesuffix("\n"))
    log.info(f"\n{table}")


def _table(config: "Config") -> str:
    """Return who holds which classes, or how to find out."""
    from airfeel.learning.datasets import is_here
    from airfeel.learning.partitions import class_table, overlap
    from airfeel.simulation.assembly import find_data, make_partition

    if not is_here(config.dataset):
        return f"classes of the devices: shown once the data is here (airfeel data {config.dataset})"
    data = find_data(config)
    partition = make_partition(config, data)
    what = "samples of each class on" if data.one_class_each else "samples on"
    lines = [data.describe(), f"{what} every device", class_table(data.train_labels, partition[:_SHOWN])]
    if len(partition) > _SHOWN:
        lines.append(f"and {len(partition) - _SHOWN} more devices")
    return "\n".join([*lines, overlap(partition)])


def data(name: str = "", /) -> None:
    """Fetch a data set into the cache folder, say what is in one, or show which ones are there.

    With the name of a data set that can be fetched: its folder, once it is there; what it holds goes to
    stderr. With a folder, an npz file or package.module:load: what it holds. Without a name: every data set
    that can be fetched, whether it is present, and its folder.

    The cache folder is AIRFEEL_DATA, else XDG_CACHE_HOME/airfeel, else ~/.cache/airfeel. Content is verified
    by sha256 each time.

    Example: airfeel data mnist

    Parameters
    ----------
    name
        mnist, fashion-mnist, cifar-10, kjv, or data of your own.
    """
    from airfeel.learning.datasets import fetchable, load_dataset
    from airfeel.registry import DATASETS

    if not name:
        for files in filter(None, map(fetchable, DATASETS.names())):
            show(f"{files.name:<14} {'absent' if files.missing() else 'present':<8} {files.folder}")
        return
    found = load_dataset(name).describe()
    if fetched := fetchable(name):
        log.info(found)
        show(fetched.folder)
    else:
        show(found)


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
