"""A scheme of your own: send what was large before, and some other coordinates by chance.

    airfeel run --set scheme=own_scheme:Largest --set uplink.chance=0.3 --set rounds=100

A scheme is a frozen dataclass, whose fields are its options, with pure functions. Devices know only the plan
and their own row; the server knows its state and what it heard. What a device could not send is added to its
next update: that is the rule of ``af.ErrorFeedback``.
"""

from dataclasses import dataclass, replace

import numpy as np

import airfeel as af


@dataclass(frozen=True)
class State:
    """What the server carries: the last magnitude it heard of every coefficient, and s."""

    magnitude: np.ndarray
    symbols: int


@dataclass(frozen=True)
class Largest(af.ErrorFeedback):
    """The coordinates that were largest when they were last heard, and some by chance."""

    chance: float = af.option(0.5, "share of the symbols whose coordinates are drawn by chance")

    exact = linear = common_support = True  # what carriers may rely on

    def init(self, shapes, setting):
        return State(np.zeros(af.size_of(shapes)), setting.symbols)

    def plan(self, state, seed, round):
        drawn = af.stream(seed, "own scheme", round).random(state.magnitude.size)
        few = round_up(self.chance * state.symbols)
        lucky = np.argsort(drawn)[:few]
        rank = np.where(np.isin(np.arange(drawn.size), lucky), -1.0, state.magnitude + 1e-12 * drawn)
        return {"coordinates": np.sort([*lucky, *np.argsort(-rank)[: state.symbols - few]]).astype(int)}

    def compress(self, plan, accumulated):
        remainder = accumulated.copy()
        remainder[:, plan["coordinates"]] = 0
        return af.Sent(signal=accumulated[:, plan["coordinates"]], remainder=remainder)

    def decode(self, state, plan, heard):
        mean, magnitude = np.zeros(state.magnitude.size), state.magnitude.copy()
        mean[plan["coordinates"]] = heard.observation
        if not heard.silent:
            magnitude[plan["coordinates"]] = np.abs(heard.observation)
        return af.Estimate(mean), replace(state, magnitude=magnitude)


def round_up(number):
    return int(np.ceil(number))


if __name__ == "__main__":
    config = af.load_config(None, {"rounds": 30, "devices.learning_rate": 0.1})
    for record in af.train(config, scheme=Largest(chance=0.3)):
        print(record.round, record.accuracy)
