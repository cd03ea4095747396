"""A scheme in a loop of your own, without any framework: encode on the clients, decode at the server.

Twenty clients fit a linear model to their own data. Each sends a tenth of the numbers in its update; what a
client carries from round to round (here the mean of its updates, and a control) is the scheme's business.
"""

import numpy as np

import airfeel as af
from airfeel.schemes.scheduled import Scheduled

CLIENTS, SIZE, ROUNDS, RATE = 20, 400, 200, 0.05


def make_data(rng):
    """Return (inputs, targets) of every client, and the model behind them."""
    truth = rng.standard_normal(SIZE)
    inputs = rng.standard_normal((CLIENTS, 200, SIZE))
    return inputs, inputs @ truth, truth


def main():
    inputs, targets, truth = make_data(np.random.default_rng(1))
    scheme = Scheduled()
    shapes = {"theta": (SIZE,)}
    state = scheme.init(shapes, af.Setting(devices=CLIENTS, symbols=SIZE // 10))
    theta = np.zeros(SIZE)
    fresh = {name: row[None] for name, row in scheme.memory(shapes).items()}
    memories = [fresh] * CLIENTS

    for round in range(1, ROUNDS + 1):
        plan = scheme.plan(state, seed=0, round=round)  # the server announces this

        signals = []
        for m in range(CLIENTS):  # client m: its own data, its own memory, the plan
            gradient = inputs[m].T @ (inputs[m] @ theta - targets[m]) / len(inputs[m])
            update = (RATE * gradient).astype(np.float32)[None]
            sent = scheme.encode(plan, memories[m], update)
            delivered = np.ones(1)  # 0 for a client that was not heard
            memories[m] = scheme.settle(plan, memories[m], update, sent, delivered)
            signals.append(sent.signal[0])

        heard = af.Heard(np.mean(signals, axis=0, dtype=np.float64), noise_var=0.0)
        estimate, state = scheme.decode(state, plan, heard)
        theta = theta - estimate.mean  # the server's update

        if round % 50 == 0:
            print(round, f"{np.linalg.norm(theta - truth) / np.linalg.norm(truth):.3f}")
    return float(np.linalg.norm(theta - truth) / np.linalg.norm(truth))


if __name__ == "__main__":
    main()
