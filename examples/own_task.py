"""Train a model of your own over the air: here a network with one hidden layer, in plain NumPy.

A task answers five questions about a vector of N parameters; everything else (local steps, sparsification,
radio, recovery, update) works on that vector alone. Nothing of airfeel has to be subclassed or registered.
"""

from dataclasses import dataclass

import numpy as np

import airfeel as af
from airfeel.learning.tasks import Samples, Score
from airfeel.streams import stream


@dataclass(frozen=True)
class HiddenLayer:
    features: int = 784
    hidden: int = 32
    classes: int = 10

    @property
    def size(self):
        return (self.features + 1) * self.hidden + (self.hidden + 1) * self.classes

    def init(self, seed):
        return 0.05 * stream(seed, "hidden layer").standard_normal(self.size)

    def prepare(self, images, labels):
        pixels = images.reshape(len(images), -1).astype(np.float32) / 255
        return Samples(np.column_stack([pixels, np.ones(len(images), np.float32)]), labels)

    def gradient(self, theta, samples):
        first, second = self.layers(theta)
        active, chances = self.forward(first, second, samples)
        chances[np.arange(len(samples)), samples.labels] -= 1  # now the derivative of the loss
        chances /= len(samples)
        back = (chances @ second[:-1].T) * (1 - active[:, :-1] ** 2)
        return np.concatenate([(samples.inputs.T @ back).ravel(), (active.T @ chances).ravel()])

    def evaluate(self, theta, samples):
        _, chances = self.forward(*self.layers(theta), samples)
        right = chances[np.arange(len(samples)), samples.labels]
        loss = -np.log(np.maximum(right, 1e-30)).mean()
        return Score(float(loss), float(np.mean(chances.argmax(axis=1) == samples.labels)))

    def layers(self, theta):
        theta = theta.astype(np.float32)
        cut = (self.features + 1) * self.hidden
        return theta[:cut].reshape(-1, self.hidden), theta[cut:].reshape(-1, self.classes)

    def forward(self, first, second, samples):
        active = np.column_stack([np.tanh(samples.inputs @ first), np.ones(len(samples), np.float32)])
        chances = np.exp(active @ second)
        return active, chances / chances.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    settings = {"rounds": 30, "devices.learning_rate": 0.2, "server.learning_rate": 0.2}
    for record in af.train(af.load_config(None, settings), task=HiddenLayer()):
        print(record.round, record.accuracy, record.nmse_db)
