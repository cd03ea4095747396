"""The table ``[radio]``: what it decides in a configuration, and what does not go with it."""

from collections.abc import Iterator
from typing import Any

from airfeel.config.mistakes import Contradiction
from airfeel.config.sections import RadioKeys, UplinkKeys
from airfeel.radio.units import NOISE_FIGURE_DB, OVERHEAD
from airfeel.registry import Part

TOLD = "must not be given with a table [radio], which tells it"


def units(tree: dict[str, Any]) -> None:
    """Leave P open and measure energies in units of the noise, where a tree of keys has a radio."""
    radio = tree.get("radio")
    if not isinstance(radio, dict) or all(value is None for value in radio.values()):
        return
    tree["radio"] = {"noise_figure_db": NOISE_FIGURE_DB, "overhead": OVERHEAD} | {
        key: value for key, value in radio.items() if value is not None
    }
    uplink, channel = tree.setdefault("uplink", {}), tree.setdefault("channel", {})
    if isinstance(uplink, dict):
        if uplink.get("power") is not None:
            raise Contradiction("uplink.power", uplink["power"], TOLD)
        uplink["power"] = None
    if isinstance(channel, dict) and channel.get("noise_var", 1.0) != 1.0:
        raise Contradiction("channel.noise_var", channel["noise_var"], TOLD)


def unfit(radio: RadioKeys, uplink: UplinkKeys, channel: Part) -> Iterator[tuple[str, Any, str]]:
    """Yield what a table lacks, and what the channel tells already: key, value and rule."""
    if radio.noise_figure_db is None:  # nothing was given, or it would have been filled in
        if uplink.power is None:
            yield "uplink.power", None, "must be given where there is no table [radio]"
        return
    for key in ("bandwidth_hz", "tx_power_dbm"):
        if getattr(radio, key) is None:
            yield f"radio.{key}", None, "must be given with any other key of [radio]"
    if uplink.policy == "long_term":
        rule = "must not be 'long_term' with [radio], whose transmit power bounds every round"
        yield "uplink.policy", uplink.policy, rule
    own = hasattr(channel.kind, "reference_loss_db")
    if own and radio.path_loss_db is not None:
        rule = f"must not be given with channel.kind = {channel.name!r}, which has its own"
        yield "radio.path_loss_db", radio.path_loss_db, rule
    if not own and radio.path_loss_db is None:
        rule = f"must be given with [radio], as channel.kind = {channel.name!r} has no path loss of its own"
        yield "radio.path_loss_db", None, rule
