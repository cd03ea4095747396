"""airfeel: over-the-air federated edge learning."""

from airfeel.beliefs.chains import ChainParams
from airfeel.receivers.base import Estimate, Reception

__version__ = "0.1.0"

__all__ = ["ChainParams", "Estimate", "Reception"]
