"""A scheme whose devices carry rows of their own: the mean of a device's updates, and how many there were.

    airfeel run --set scheme=own_memory:Means --set devices.participation=0.5 --set rounds=100

``memory`` names the rows of one device before its first round; ``encode`` and ``settle`` see those of the
devices that compute, one row each.
"""

from dataclasses import dataclass

import numpy as np

import airfeel as af


@dataclass(frozen=True)
class Means(af.Scheme):
    """The first coordinates of the mean of a device's updates."""

    stateless = False

    def init(self, shapes, setting):
        return {"size": af.size_of(shapes), "symbols": setting.symbols}

    def memory(self, shapes):  # of one device, before its first round
        return {"mean": np.zeros(af.size_of(shapes), np.float32), "rounds": np.zeros(1, np.int64)}

    def plan(self, state, seed, round):
        return {"symbols": state["symbols"]}

    def encode(self, plan, memory, update):  # a row for each device that computes
        return af.Sent(self.mean(memory, update)[:, : plan["symbols"]])

    def settle(self, plan, memory, update, sent, delivered):  # the next rows, whoever was heard
        return {"mean": self.mean(memory, update), "rounds": memory["rounds"] + 1}

    def decode(self, state, plan, heard):
        mean = np.zeros(state["size"])
        mean[: state["symbols"]] = heard.observation / max(heard.share, 0.1)
        return af.Estimate(mean), state

    def mean(self, memory, update):
        step = 1 / (memory["rounds"] + 1)
        return memory["mean"] + (step * (update - memory["mean"])).astype(np.float32)


if __name__ == "__main__":
    for record in af.train({"devices.participation": 0.5}, scheme=Means(), rounds=10):
        print(record.round, record.accuracy, record.nmse_db)
