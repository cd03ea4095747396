"""A whole run in memory: the parts a configuration names, put together and run round by round."""

from airfeel.simulation.loop import RunState, Step, advance, start, steps, train
from airfeel.simulation.records import Record

__all__ = ["Record", "RunState", "Step", "advance", "start", "steps", "train"]
