"""Airs and updates, schemes without an error memory, and a round whose updates are computed when needed."""

from dataclasses import dataclass

import numpy as np

import airfeel as af
from airfeel.radio.channels import GaussianMAC
from airfeel.radio.power import EqualPower
from airfeel.schemes.common_k import CommonK, CommonKState, coordinates
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import Uplink
from airfeel.uplink.scheme import size_of

SHAPES = {"weights": (12, 20), "bias": (20,), "kernel": (4, 2, 3, 3)}
SIZE = size_of(SHAPES)
WEIGHTS = np.array([4.0, 1.0, 2.0, 2.0, 1.0]) / 10  # of five devices
QUIET, NOISY = (Radio(GaussianMAC(noise_var), EqualPower(500.0)) for noise_var in (0.0, 1.0))


def spiky(*shape, seed=1, dtype=np.float64):
    """Return updates of which few entries are large."""
    return (np.random.default_rng(seed).standard_normal(shape) ** 3).astype(dtype)


def drifting(rounds, seed=1, dtype=np.float64):
    """Return updates that drift, (rounds, devices, N): what is large stays large for a while."""
    rng = np.random.default_rng(seed)
    common, drawn = rng.standard_normal(SIZE) ** 3, []
    for _ in range(rounds):
        common = 0.9 * common + 0.3 * rng.standard_normal(SIZE) ** 3
        drawn.append(common + 0.3 * rng.standard_normal((len(WEIGHTS), SIZE)))
    return np.array(drawn, dtype=dtype)


def handed_over(scheme, air, state, produce, weights, **options):
    """Carry a round with the updates that ``produce(devices)`` returns for a few devices at a time."""
    uplink = Uplink(scheme, air, state, weights, **options)
    for devices in uplink.blocks:
        uplink.encode(devices, produce(devices))
    for devices in uplink.arrive():
        uplink.settle(devices, produce(devices))
    return uplink.decode()


@dataclass(frozen=True)
class Tracking(af.Scheme):
    """A device sends the mean of all its updates, on coordinates common to all, and counts its rounds."""

    linear = False  # a counter is in it
    exact = common_support = symbols_are_coordinates = True
    stateless = False

    def init(self, shapes, setting):
        return CommonKState(af.size_of(shapes), setting.symbols)

    def memory(self, shapes):
        return {"mean": np.zeros(af.size_of(shapes), np.float32), "rounds": np.zeros(1, np.int64)}

    def plan(self, state, seed, round):
        return CommonK().plan(state, seed, round)

    def encode(self, plan, memory, update):
        return af.Sent(self._mean(memory, update)[:, self._chosen(plan, update)])

    def settle(self, plan, memory, update, sent, delivered):
        return {"mean": self._mean(memory, update), "rounds": memory["rounds"] + 1}

    def decode(self, state, plan, heard):
        mean = np.zeros(state.size)
        mean[coordinates(state.size, plan["symbols"], plan["seed"], plan["turn"])] = heard.observation
        return af.Estimate(mean), state

    @staticmethod
    def _chosen(plan, update):
        return coordinates(update.shape[1], plan["symbols"], plan["seed"], plan["turn"])

    @staticmethod
    def _mean(memory, update):
        return memory["mean"] + (update - memory["mean"]) / (memory["rounds"] + 1).astype(update.dtype)


@dataclass(frozen=True)
class FirstOnes(af.Scheme):
    """A device sends the first s coordinates of its update, and carries nothing."""

    exact = linear = common_support = symbols_are_coordinates = True

    def init(self, shapes, setting):
        return CommonKState(af.size_of(shapes), setting.symbols)

    def plan(self, state, seed, round):
        return {"symbols": state.symbols}

    def encode(self, plan, memory, update):
        return af.Sent(update[:, : plan["symbols"]])

    def decode(self, state, plan, heard):
        return af.Estimate(np.append(heard.observation, np.zeros(state.size - state.symbols))), state
