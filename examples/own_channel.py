"""Send through air of your own: here devices at different distances, each making up for its path loss.

A channel answers two questions about a round. ``link``: who can send, what does it cost them, and how
strongly does each signal arrive? ``receive``: what does the server hear? All randomness comes from
``stream``, so that every scheme meets the same air and a run can be resumed at any round.
"""

from dataclasses import dataclass

import numpy as np

import airfeel as af
from airfeel.aggregators import OverTheAir
from airfeel.aggregators.base import Air
from airfeel.channels import GaussianMAC, Link, superpose
from airfeel.streams import stream


@dataclass(frozen=True)
class PathLossMAC:
    """Devices spread evenly over a disc of radius 1; power falls with distance, but never grows below 0.1."""

    noise_var: float = 1.0
    exponent: float = 3.0

    def link(self, num_devices, seed, round):
        distance = np.sqrt(stream(seed, "positions").random(num_devices))  # the same in every round
        loss = np.maximum(distance, 0.1) ** self.exponent
        everybody = np.ones(num_devices, dtype=bool)
        return Link(active=everybody, cost=loss, gain=np.ones(num_devices))

    def receive(self, link, signals, seed, round):
        return superpose(link, signals, self.noise_var, seed, round)


def compare(rounds=3, num_devices=10, size=2000):
    """Yield round, channel and NMSE of the same sparse gradients through both channels."""
    weights = np.full(num_devices, 1 / num_devices)
    for channel in (GaussianMAC(noise_var=20.0), PathLossMAC(noise_var=20.0)):
        scheme = OverTheAir(af.TSAGA(activity=0.05), ratio=0.3, sparsity=0.05, air=Air(channel))
        state = scheme.init(num_devices, size)
        shape = stream(0, "gradients").standard_normal(size) ** 5
        for t in range(1, rounds + 1):
            own = stream(0, "gradients", t).standard_normal((num_devices, size))
            result, state = scheme.aggregate(state, shape + 0.1 * own, weights, seed=0, round=t)
            yield t, type(channel).__name__, result.nmse


if __name__ == "__main__":
    for t, name, nmse in compare():
        print(f"round {t}  {name:<12} NMSE {10 * np.log10(nmse):6.1f} dB")
