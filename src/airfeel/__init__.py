"""airfeel: over-the-air federated edge learning."""

from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, load_config
from airfeel.operators import GaussianMatrix, PartialDCT, dot_test
from airfeel.receivers.amp import AMP
from airfeel.receivers.base import Estimate, Reception
from airfeel.receivers.storage import load_state, save_state
from airfeel.receivers.tsaga import TSAGA
from airfeel.receivers.turbo_cs import TurboCS
from airfeel.simulation import Record, train
from airfeel.theory.evolution import state_evolution

__version__ = "0.1.0"

__all__ = [
    "AMP",
    "TSAGA",
    "ChainParams",
    "Config",
    "Estimate",
    "GaussianMatrix",
    "PartialDCT",
    "Reception",
    "Record",
    "TurboCS",
    "dot_test",
    "load_config",
    "load_state",
    "save_state",
    "state_evolution",
    "train",
]
