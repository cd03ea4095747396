"""Train a PyTorch module of your own over the air, from the command line or from Python.

    airfeel run --set model.kind=own_module:Tiny --set model.width=16 --set rounds=20

A module's class (or a function that builds it) is all that is needed. It gets the shape of the data if it
asks for it; its other arguments are the options of [model]. A function may also return the task itself, with
a loss and a score of its own.
"""

from typing import ClassVar

from torch import nn

import airfeel as af
from airfeel.learning.torch_task import TorchTask


class Tiny(nn.Module):
    """Two convolutions; the samples arrive as they are stored, so grey images get their channel here."""

    tuned: ClassVar = {"devices.learning_rate": 0.1, "devices.batch_size": 50, "devices.local_steps": 5}

    def __init__(self, data, *, width: int = 8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            nn.GroupNorm(1, width),  # instead of batch normalisation
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * width, data.classes),
        )

    def forward(self, images):
        return self.layers(images.unsqueeze(1))


def top_three(data, *, width: int = 8):
    """The same with a margin loss; a sample counts as right if its label is among the three best."""

    def score(outputs, labels):
        return (outputs.topk(3).indices == labels[:, None]).any(dim=1)

    return TorchTask(lambda: Tiny(data, width=width), nn.functional.multi_margin_loss, score=score)


if __name__ == "__main__":
    config = af.load_config(None, {"rounds": 20, "scheme": "common_k"} | Tiny.tuned)
    for record in af.train(config, task=Tiny):
        print(record.round, record.accuracy, record.nmse_db)
