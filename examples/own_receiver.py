"""A receiver of your own, in a scheme that sparsifies and compresses as TSA-GA does.

    airfeel run --set scheme=own_receiver:WithPursuit --set uplink.sparsity=0.02 --set rounds=20

A receiver is two pure functions: ``init`` returns the state before the first round, ``receive`` turns a
state and a reception y = A x + n into an estimate and the next state. It sees nothing else.
"""

from dataclasses import dataclass

import numpy as np

import airfeel as af


@dataclass(frozen=True)
class Pursuit:
    """Iterative hard thresholding: a gradient step, then keep the ``keep`` largest entries."""

    keep: int
    steps: int = 30

    def init(self, size):
        return None  # no memory

    def receive(self, state, reception):
        operator, y = reception.operator, reception.observation
        x = np.zeros(operator.shape[1])
        for _ in range(self.steps):
            x = x + operator.T @ (y - operator @ x)
            x[np.argsort(np.abs(x))[: -self.keep]] = 0
        return af.Estimate(x), state


@dataclass(frozen=True)
class WithPursuit(af.Compressed):
    """Partial DCT and iterative hard thresholding."""

    keep: int = af.option(100, "coefficients that the receiver keeps")

    def receiver(self):
        return Pursuit(self.keep)


if __name__ == "__main__":
    config = af.load_config(None, {"rounds": 10, "uplink.ratio": 0.3})
    for record in af.train(config, scheme=WithPursuit(sparsity=0.02, keep=150)):
        print(record.round, record.accuracy, record.nmse_db)
