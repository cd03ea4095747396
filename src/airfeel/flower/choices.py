"""What a user of the strategy chooses, by name or as objects: scheme, air, and arrays that stay exact."""

from collections.abc import Mapping, Sequence
from typing import Any

from airfeel import _checks
from airfeel.flower import naming
from airfeel.radio.link import Channel
from airfeel.radio.power import EqualPower, PowerPolicy
from airfeel.registry import CHANNELS, SCHEMES
from airfeel.uplink.arrive import Air
from airfeel.uplink.scheme import Scheme


def scheme_of(scheme: str | Scheme[Any], options: Mapping[str, Any] | None) -> Scheme[Any]:
    """Return a scheme given by name and options, or as an object."""
    if isinstance(scheme, str):
        scheme = naming.build(scheme, options or {})
        options = None
    if options:
        raise _checks.reject("options", dict(options), "must not be given beside a scheme that is an object")
    given: Scheme[Any] = SCHEMES.given(scheme)
    return given


def air_of(channel: str | Channel | None, power: float | PowerPolicy) -> Air | None:
    """Return the air between clients and server: a channel and a power policy; None for a digital uplink."""
    policy = EqualPower(power) if isinstance(power, int | float) else power
    if hasattr(policy, "choose"):  # clients are told whether they were heard, not in what part
        raise _checks.reject("power", power, "must be a number or a policy that treats all devices alike")
    if channel is None:
        return None
    found: Any = CHANNELS.get(channel).build({}) if isinstance(channel, str) else channel
    if not hasattr(found, "link"):
        raise _checks.reject("channel", channel, "must be None, the name of a channel, or have a method link")
    return Air(found, policy)


def patterns_of(exact: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of names of arrays that travel whole."""
    if isinstance(exact, str) or not all(isinstance(pattern, str) for pattern in exact):
        raise _checks.reject("exact", exact, 'must be a list of patterns, such as ["*running_*"]')
    return tuple(exact)
