"""airfeel: over-the-air federated edge learning."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airfeel.beliefs.chains import ChainParams as ChainParams
    from airfeel.config import Config as Config
    from airfeel.config import load_config as load_config
    from airfeel.lab.answers import plan as plan
    from airfeel.lab.api import run as run
    from airfeel.lab.results import read_results as read_results
    from airfeel.learning.datasets import Dataset as Dataset
    from airfeel.operators import GaussianMatrix as GaussianMatrix
    from airfeel.operators import PartialDCT as PartialDCT
    from airfeel.operators import dot_test as dot_test
    from airfeel.radio.link import Channel as Channel
    from airfeel.radio.link import Link as Link
    from airfeel.receivers.amp import AMP as AMP
    from airfeel.receivers.base import Estimate as Estimate
    from airfeel.receivers.base import Receiver as Receiver
    from airfeel.receivers.base import Reception as Reception
    from airfeel.receivers.tsaga import TSAGA as TSAGA
    from airfeel.receivers.turbo_cs import TurboCS as TurboCS
    from airfeel.registry import option as option
    from airfeel.schemes.compressed import Compressed as Compressed
    from airfeel.simulation.loop import train as train
    from airfeel.simulation.records import Record as Record
    from airfeel.storage import load_state as load_state
    from airfeel.storage import save_state as save_state
    from airfeel.streams import stream as stream
    from airfeel.theory.evolution import state_evolution as state_evolution
    from airfeel.uplink.scheme import ErrorFeedback as ErrorFeedback
    from airfeel.uplink.scheme import Heard as Heard
    from airfeel.uplink.scheme import Scheme as Scheme
    from airfeel.uplink.scheme import Sent as Sent
    from airfeel.uplink.scheme import Setting as Setting
    from airfeel.uplink.scheme import size_of as size_of

__version__ = "0.3.0"

# Public names by the module they come from, which is imported when one is first asked for. Otherwise whoever
# needs one part would wait for all of them: a second, most of it SciPy's.
_PUBLIC = {
    "beliefs.chains": "ChainParams",
    "config": "Config load_config",
    "lab.answers": "plan",
    "lab.api": "run",
    "lab.results": "read_results",
    "learning.datasets": "Dataset",
    "operators": "GaussianMatrix PartialDCT dot_test",
    "radio.link": "Channel Link",
    "receivers.amp": "AMP",
    "receivers.base": "Estimate Receiver Reception",
    "receivers.tsaga": "TSAGA",
    "receivers.turbo_cs": "TurboCS",
    "registry": "option",
    "schemes.compressed": "Compressed",
    "simulation.loop": "train",
    "simulation.records": "Record",
    "storage": "load_state save_state",
    "streams": "stream",
    "theory.evolution": "state_evolution",
    "uplink.scheme": "ErrorFeedback Heard Scheme Sent Setting size_of",
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Import a public name, or a module of the package, when it is first used (PEP 562)."""
    if name in _HOMES:
        value: object = getattr(import_module(f"airfeel.{_HOMES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"airfeel.{name}"):
        value = import_module(f"airfeel.{name}")
    else:
        raise AttributeError(f"module 'airfeel' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
