"""The public names of airfeel, each where it comes from: read by type checkers, and on first use."""

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

__version__: str
