"""Ways from the devices' updates to the server's estimate, one file each, both halves in it."""

from airfeel.schemes.base import Heard, Plan, Scheme, Sent, Setting

__all__ = ["Heard", "Plan", "Scheme", "Sent", "Setting"]
