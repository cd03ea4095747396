"""Arguments of Air, checked and brought into form."""

from collections.abc import Mapping, Sequence
from typing import Any

from airfeel import _checks
from airfeel.flower import wire
from airfeel.radio.link import Channel
from airfeel.radio.power import EqualPower, PowerPolicy
from airfeel.registry import CHANNELS
from airfeel.uplink.arrive import Radio
from airfeel.uplink.packing import value_bits
from airfeel.uplink.scheme import Scheme

CHANGED = "changed"  # in place of the bits of a downlink
CLIENTS_COME_AND_GO = {"scheduled": {"memory": "none"}}  # options of schemes that are others here


def scheme_of(
    scheme: str | Scheme[Any] | None,
    compression: float | None,
    options: Mapping[str, Any] | None,
    default: str,
    beside: Mapping[str, Any],
) -> Scheme[Any]:
    """Return the scheme; with ``compression`` nothing may be given ``beside`` it."""
    if compression is not None:
        _checks.real("compression", compression, at_least=1)
        given = {"scheme": scheme, "options": options, **beside}
        first = next((name for name, value in given.items() if value is not None), None)
        if first is not None:
            rule = f"chooses the scheme and how much it sends, without a radio; leave out {first}"
            raise _checks.reject("compression", compression, rule)
        scheme = "split"
    return wire.build(default if scheme is None else scheme, options or {}, CLIENTS_COME_AND_GO)


def bits_of(bits: int | None, scheme: Scheme[Any], air: Radio | None) -> int:
    """Return the bits of a value in a message; refuse them where signals are no numbers of a message."""
    found = value_bits("bits", 32 if bits is None else bits)
    if bits is not None and air is not None:
        raise _checks.reject("bits", bits, "is for a digital uplink: a radio adds signals up as they are")
    if bits is not None and type(scheme).pack is not Scheme.pack:
        name = type(scheme).__name__
        raise _checks.reject("bits", bits, f"is not for {name}, which writes its messages in bits by itself")
    return found


def downlink_of(downlink: int | str, few: bool) -> int | str:
    """Return the bits of a parameter on the way down, or the word for what changed, if that is ``few``."""
    if not isinstance(downlink, str):
        return value_bits("downlink", downlink)
    if downlink != CHANGED:
        raise _checks.reject("downlink", downlink, f"must be {CHANGED!r}, or 1, 2, 4, 8, 16 or 32 bits")
    if not few:
        rule = (
            "needs a scheme in which all clients send the same coefficients, such as 'scheduled', and plain"
        )
        raise _checks.reject("downlink", downlink, f"{rule} gradient descent at the server: else all changes")
    return downlink


def radio(channel: str | Channel | None, power: float | PowerPolicy) -> Radio | None:
    """Return the air between clients and server: a channel and a power policy; None for a digital uplink."""
    policy = EqualPower(power) if isinstance(power, int | float) else power
    alike = hasattr(policy, "alpha") and not hasattr(policy, "choose")
    if not alike:  # clients are told whether they were heard, not in what part
        raise _checks.reject("power", power, "must be a number or a policy that treats all devices alike")
    if channel is None:
        return None
    found: Any = CHANNELS.get(channel).build({}) if isinstance(channel, str) else channel
    if not hasattr(found, "link"):
        raise _checks.reject("channel", channel, "must be None, the name of a channel, or have a method link")
    return Radio(found, policy)


def patterns(exact: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of names of arrays that travel whole."""
    if isinstance(exact, str) or not all(isinstance(pattern, str) for pattern in exact):
        raise _checks.reject("exact", exact, 'must be a list of patterns, such as ["*running_*"]')
    return tuple(exact)
