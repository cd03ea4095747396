"""A round whose updates are computed when they are needed, as the training loop does."""

from airfeel.uplink.round import Round


def handed_over(scheme, air, state, produce, weights, **options):
    """Carry a round with the updates that ``produce(devices)`` returns for a few devices at a time."""
    uplink = Round(scheme, air, state, weights, **options)
    for devices in uplink.blocks:
        uplink.encode(devices, produce(devices))
    for devices in uplink.arrive():
        uplink.settle(devices, produce(devices))
    return uplink.decode()
