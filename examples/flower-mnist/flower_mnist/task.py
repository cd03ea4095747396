"""The model, who holds which images, and training: nothing here knows how updates travel."""

from functools import lru_cache

import numpy as np
import torch
from torch import nn

from airfeel.learning.datasets import load_dataset
from airfeel.learning.partitions.rules import IID, ByClasses, Dirichlet


def build(dataset, hidden):
    """Return a CNN with two convolutions for square images, 19,334 parameters for MNIST; or an MLP."""
    data = load(dataset)
    if hidden:
        layers = nn.Linear(data.shape[0] * data.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, data.classes)
        return nn.Sequential(nn.Flatten(), *layers)
    quarter = -(-data.shape[0] // 4)
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * quarter**2, 20),
        nn.ReLU(),
        nn.Linear(20, data.classes),
    )


@lru_cache(maxsize=1)
def load(dataset):
    """Return the data set, read once by each process."""
    return load_dataset(dataset)


@lru_cache(maxsize=64)
def partition(clients, dataset, samples, classes, alpha, seed):
    """Return which images each client holds: drawn from all, from some classes, or by random shares."""
    data = load(dataset)
    sizes = [samples] * clients
    rule = Dirichlet(alpha) if alpha else ByClasses(classes) if classes else IID()
    return rule.draw(data.train_labels, sizes, seed)


def tensors(images, labels):
    """Return images as numbers of about unit size with an axis for the channel, and labels."""
    scaled = torch.from_numpy(np.array(images)).float().div(255).sub(0.13).div(0.31)
    return scaled[:, None], torch.from_numpy(np.array(labels, dtype=np.int64))


def train(model, images, labels, *, rate, batch, epochs, seed):
    """Go through the images some times; return the mean loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    order = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(epochs):
        for chosen in torch.randperm(len(labels), generator=order).split(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def evaluate(model, images, labels):
    """Return loss and accuracy."""
    outputs = torch.cat([model(part) for part in images.split(1000)])
    loss = nn.functional.cross_entropy(outputs, labels).item()
    return loss, (outputs.argmax(1) == labels).float().mean().item()
