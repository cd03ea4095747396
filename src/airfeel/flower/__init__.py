"""Flower: a compressed uplink, with or without a radio, by a line in the client and one in the server."""

try:
    import flwr as _flwr  # noqa: F401
except ImportError as _error:
    raise ImportError("airfeel.flower needs Flower: pip install 'airfeel[flower]'") from _error

from airfeel.flower.mod import AirMod, air_mod
from airfeel.flower.strategy import Air, AirAvg

__all__ = ["Air", "AirAvg", "AirMod", "air_mod"]
