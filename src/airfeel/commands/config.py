"""``airfeel config``: the resolved configuration, and who holds which classes."""

import logging
from typing import TYPE_CHECKING

from airfeel.commands import Settings, load, show

if TYPE_CHECKING:
    from airfeel.config import Config

_log = logging.getLogger("airfeel")
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
    table = _table(loaded) if _log.isEnabledFor(logging.INFO) else ""
    show(loaded.template().removesuffix("\n"))
    _log.info(f"\n{table}")


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
