"""Air of your own: here devices at different distances, each making up for its path loss.

    airfeel run --set channel.kind=own_channel:PathLoss --set channel.exponent=3.5 --set rounds=20

A channel answers one question about a round: who can send, what does it cost them, how strongly does each
signal arrive, and how loud is the noise? All randomness comes from ``af.stream``, so that every scheme meets
the same air and a run can be resumed at any round.
"""

from dataclasses import dataclass

import numpy as np

import airfeel as af


@dataclass(frozen=True)
class PathLoss:
    """Devices spread evenly over a disc of radius 1; power falls with distance, but never grows below 0.1."""

    noise_var: float = af.option(1.0, "sigma_e^2")
    exponent: float = af.option(3.0, "of the path loss")

    def link(self, num_devices, symbols, seed, round):
        distance = np.sqrt(af.stream(seed, "positions").random(num_devices))  # the same in every round
        loss = np.maximum(distance, 0.1) ** self.exponent
        everybody = np.ones(num_devices, dtype=bool)
        return af.Link(active=everybody, cost=loss, gain=np.ones(num_devices), noise_var=self.noise_var)


if __name__ == "__main__":
    config = af.load_config(None, {"rounds": 10})
    for record in af.train(config, channel=PathLoss(noise_var=20.0)):
        print(record.round, record.accuracy, record.nmse_db)
